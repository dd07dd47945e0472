/** Numbers as short text for a person. */

const UNITS = ["kB", "MB", "GB", "TB"];

/** Returns a number of bytes, for example `512 bytes` or `1.5 MB`. */
export function size(bytes: number): string {
  if (bytes < 1000) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
  let value = bytes;
  let unit = -1;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** Returns a count with its thousands apart. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Returns `1 run` or `2 runs`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** Returns a time span in one or two units, for example `3.5 s` or `2 h 05 min`. */
export function duration(seconds: number): string {
  if (!(seconds >= 0 && seconds < 10_000 * 86_400)) return `${seconds.toPrecision(3)} s`;
  const padded = (value: number) => String(Math.floor(value)).padStart(2, "0");
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${padded(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${padded((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${padded((seconds % 86_400) / 3600)} h`;
}
