/** Ticks of an axis and their texts. */

import { linear, logarithmic } from "./scales.js";
import { clock, grouped, short } from "../text.js";
import type { XAxis } from "../view-state.js";

export interface Tick {
  value: number;
  text: string;
}

/** Letters that fit beside a chart. */
const LONGEST_TEXT = 7;
/** Letters of a value for which a chart has room. */
const MOST_TEXT = 9;
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Returns about *count* ticks from *from* to *to*. */
export function ticks(range: { from: number; to: number; isLog: boolean }, axis: XAxis | "value", count: number): Tick[] {
  const { from, to, isLog } = range;
  if (!(to > from)) return [{ value: from, text: textOf(from, axis, 0) }];
  if ((axis === "time" || axis === "wall") && !isLog && to - from > 10) return timeTicks(from, to, axis, count);
  const values = (isLog && from > 0 ? logarithmic : linear)(from, to, count);
  const inside = values.filter((value) => value >= from && value <= to);
  const whole = axis === "step" || axis === "tokens" ? inside.filter(Number.isInteger) : inside;
  const shown = whole.length > 0 ? whole : inside;
  const apart = Math.min(...shown.slice(1).map((value, i) => value - shown[i]!));
  const found = shown.map((value) => ({ value, text: textOf(value, axis, isLog ? 0 : apart) }));
  return axis === "value" ? inOneNotation(found, isLog ? 0 : apart) : found;
}

/** Returns the ticks with a power of ten in each text if one of them needs it, or where that is shorter. */
function inOneNotation(found: Tick[], apart: number): Tick[] {
  const powers = found.map(({ value }) => ({ value, text: value === 0 ? "0" : value.toExponential(digitsOf(value, apart) - 1).replace(/\.?0+e/, "e").replace("e+", "e") }));
  const longest = (some: Tick[]) => Math.max(...some.map(({ text }) => text.length));
  const isMixed = found.some(({ text }) => text.includes("e")) && found.some(({ text, value }) => !text.includes("e") && value !== 0);
  const shorter = !isMixed && longest(found) <= Math.max(LONGEST_TEXT, longest(powers)) ? found : powers;
  return longest(shorter) > MOST_TEXT ? fromOne(shorter) : shorter;
}

/** Returns the ticks by their distances from the one with the shortest text. */
function fromOne(found: Tick[]): Tick[] {
  const [base] = [...found].sort((a, b) => a.text.length - b.text.length) as [Tick];
  return found.map(({ value, text }) => {
    const apart = value - base.value;
    return { value, text: apart > 0 ? `+${short(apart)}` : apart < 0 ? short(apart) : text.length > MOST_TEXT ? `≈${short(value)}` : text };
  });
}

/** Returns how many digits tell a value from its neighbours that are *apart*. */
function digitsOf(value: number, apart: number): number {
  return apart > 0 && Number.isFinite(apart) && value !== 0 ? Math.min(Math.max(Math.ceil(Math.log10(Math.abs(value) / apart)) + 1, 1), 12) : 4;
}

/** Returns a single place in words, for example `step 1 024`. */
export function placeText(place: number, axis: XAxis): string {
  if (axis === "time" || axis === "wall") return textOf(place, axis, 0);
  if (axis === "defined") return `at ${short(place, 6)}`;
  return `${axis} ${axis === "epoch" ? short(place) : grouped(Math.round(place))}`;
}

/** Returns the text of a place or value between ticks that are *apart*. */
export function textOf(value: number, axis: XAxis | "value", apart: number): string {
  if (axis === "time") return spanText(value, apart);
  if (axis === "wall") return wallText(value, apart);
  const digits = digitsOf(value, apart);
  if (axis === "step" || axis === "tokens") return Math.abs(value) >= 10_000 ? abbreviated(value, Math.max(digits, 3)) : short(value, Math.max(digits, 6));
  return short(value, Math.min(Math.max(digits, 3), 12));
}

function abbreviated(value: number, digits: number): string {
  const [divisor, unit] = ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const).find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return `${Number((value / divisor).toPrecision(digits))}${unit}`;
}

function timeTicks(from: number, to: number, axis: "time" | "wall", count: number): Tick[] {
  const raw = (to - from) / count;
  const step = SPANS.find((span) => span >= raw) ?? Math.ceil(raw / 604_800) * 604_800;
  // Days of the wall clock begin at midnight of the user's zone.
  const shift = axis === "wall" ? new Date(from * 1000).getTimezoneOffset() * 60 : 0;
  const found: Tick[] = [];
  for (let value = Math.ceil((from - shift) / step) * step + shift; value <= to; value += step) found.push({ value, text: textOf(value, axis, step) });
  return found;
}

function spanText(value: number, apart: number): string {
  const sign = value < 0 ? "−" : "";
  const seconds = Math.abs(value);
  if (seconds === 0) return "0";
  if (seconds < 60 || (apart > 0 && apart < 1)) return `${sign}${short(seconds, 4)} s`;
  const whole = Math.round(seconds);
  const [days, hours, minutes, rest] = [Math.floor(whole / 86_400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  const parts = [days > 0 && `${days} d`, hours > 0 && `${hours} h`, minutes > 0 && days === 0 && `${minutes} min`, rest > 0 && hours === 0 && days === 0 && `${rest} s`];
  return sign + parts.filter(Boolean).slice(0, 2).join(" ");
}

function wallText(value: number, apart: number): string {
  const at = new Date(value * 1000);
  const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  if (apart === 0) return `${day} ${at.toLocaleTimeString("en-GB")}`;
  if (apart >= 86_400 || (at.getHours() === 0 && at.getMinutes() === 0 && apart >= 60)) return day;
  return apart < 60 ? at.toLocaleTimeString("en-GB") : clock(at);
}
