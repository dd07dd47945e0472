/** Decides whether a string is a date-time of RFC 3339: see spec/encoding.md#dates-and-times. */

const FORM = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))$/;
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Returns whether text is a date and time that exist, with a zone. */
export function isDateTime(text: string): boolean {
  const parts = FORM.exec(text);
  if (parts === null || text.endsWith("\n")) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number) as [number, number, number, number, number, number];
  const [zoneHour, zoneMinute] = [Number(parts[8] ?? 0), Number(parts[9] ?? 0)];
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = (DAYS[month - 1] ?? 0) + (leap && month === 2 ? 1 : 0);
  if (day < 1 || day > days || hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59) return false;
  if (second < 60) return true;
  // A leap second ends a day in UTC, whatever the zone shows.
  const zone = (zoneHour * 60 + zoneMinute) * (parts[7] === "-" ? -1 : 1);
  return (((hour * 60 + minute - zone) % 1440) + 1440) % 1440 === 1439;
}
