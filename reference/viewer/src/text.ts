/** Values as text. What comes from a log is made inert and cut. */

import { counted, duration, grouped, size } from "../../typescript/page/figures.js";
import { shortened } from "../../typescript/src/escaping.js";
import type { Json, Run } from "./protocol.js";

export { counted, duration, grouped, size };

/** A name in a table or a legend is not longer. */
const LONGEST_NAME = 160;

/** Returns text of a log on one line, inert, cut to *limit* characters. */
export function plain(text: string, limit = LONGEST_NAME): string {
  return shortened(text, limit);
}

/** Returns several lines of text of a log: line feeds and tabs stay, the rest is inert. */
export function prose(text: string, limit = 20_000): string {
  const cut = text.length > limit ? `${text.slice(0, limit)}\n… ${grouped(text.length - limit)} characters more` : text;
  return cut.split(/(\r?\n|\t)/).map((part) => (/^[\r\n\t]/.test(part) ? part : shortened(part, limit))).join("");
}

/** Returns a number with at most *digits* digits. */
export function short(value: number, digits = 5): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return grouped(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.max(digits - 2, 0)).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

/** Returns a value of a log. */
export function valueText(value: Json | undefined, limit?: number): string {
  if (value === undefined) return "";
  if (typeof value === "number") return short(value, 7);
  return plain(typeof value === "string" ? value : JSON.stringify(value), limit);
}

/** Returns a time in the user's zone, to the minute: `22 Nov 10:30`, with the year if it is another one; *short*, that in place of the minute. */
export function moment(time: string | null, length: "short" | "full" = "full"): string {
  const date = time === null ? NaN : Date.parse(time);
  if (Number.isNaN(date)) return "";
  const at = new Date(date);
  const isThisYear = at.getFullYear() === new Date().getFullYear();
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) });
  return length === "short" && !isThisYear ? day : `${day} ${clock(at)}`;
}

/** Returns the time of day of the user's zone, `10:30`. */
export function clock(at: Date): string {
  return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** Returns a time span that may be short: `2.5 s`, `12.34 ms` or `7 µs`. */
export function brief(seconds: number): string {
  if (seconds >= 1) return duration(seconds);
  return seconds >= 1e-3 ? `${short(seconds * 1e3, 4)} ms` : `${short(seconds * 1e6, 4)} µs`;
}

/** Returns the counts of findings of some severities in words, "" without any. */
export function findingsLine(findings: Run["findings"], severities: readonly ("error" | "warning" | "info")[]): string {
  const parts = severities.filter((severity) => findings && findings[severity] > 0);
  return parts.map((severity) => (severity === "info" ? `${grouped(findings!.info)} info` : counted(findings![severity], severity))).join(", ");
}
