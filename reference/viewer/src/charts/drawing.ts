/** Draws a chart with a pen: a canvas, or the maker of SVG for an export. */

import type { Curve } from "../frames.js";
import type { Axis } from "../protocol.js";
import type { XAxis } from "../view-state.js";
import { drawn, placer, type Plot, type Series, visible } from "./plot.js";
import { ticks } from "./ticks.js";

/** What both the canvas and the maker of SVG can do. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "beginPath" | "moveTo" | "lineTo" | "closePath" | "stroke" | "fill" | "rect" | "arc" | "clip" | "save" | "restore" | "setLineDash" | "fillText"
  | "strokeStyle" | "fillStyle" | "lineWidth" | "globalAlpha" | "font" | "textAlign" | "textBaseline" | "lineJoin" | "lineCap"
>;

export interface Colours {
  text: string;
  grid: string;
  quiet: string;
  surface: string;
  runs: readonly string[];
  flags: { note: string; error: string; warning: string };
}

export interface Manner {
  axis: XAxis;
  colours: Colours;
  /** Id of the run that is drawn above the others. */
  hovered: string | null;
}

/** More overlapping bands cannot be distinguished: then each line spans from min to max. */
const MOST_BANDS = 8;
/** More marks of one run are not drawn from top to bottom. */
const MOST_LONG_MARKS = 4;
/** Radius of a point without neighbours; its outline is drawn too. */
const DOT = 1.2;
const FONT = "11px system-ui, sans-serif";

/** Draws axes, curves and marks. */
export function draw(pen: Pen, plot: Plot, manner: Manner): void {
  const { box } = plot;
  pen.font = FONT;
  pen.lineJoin = "round";
  pen.lineCap = "round";
  drawAxes(pen, plot, manner);
  pen.save();
  pen.beginPath();
  // A mark at the border is seen whole.
  pen.rect(box.left - 3, box.top - 2, box.width + 6, box.height + 4);
  pen.clip();
  const pieces: Pieces = {
    pen, manner, plot, isMany: plot.series.filter(({ isQuiet }) => !isQuiet).length > MOST_BANDS,
    x: placer(plot.x, box.left, box.width), y: placer(plot.y, box.top + box.height, -box.height),
  };
  if (plot.envelope) drawEnvelope(pieces, plot.envelope);
  const order = [...plot.series].sort((a, b) => rank(a, manner) - rank(b, manner));
  for (const series of order) drawSeries(pieces, series);
  for (const series of order) if (!series.isQuiet || series.run.id === manner.hovered) drawMarks(pieces, series);
  drawFlags(pieces);
  pen.restore();
  // The best point is often the last one: its mark is not cut at the border.
  for (const series of order) if (series.run.id === manner.hovered || !(pieces.isMany || series.isQuiet)) drawBest(pieces, series);
}

function rank(series: Series, manner: Manner): number {
  return series.run.id === manner.hovered ? 2 : series.isQuiet ? 0 : 1;
}

interface Pieces {
  pen: Pen;
  manner: Manner;
  plot: Plot;
  isMany: boolean;
  x(value: number): number;
  y(value: number): number;
}

function drawAxes(pen: Pen, { x, y, box }: Plot, { axis, colours }: Manner): void {
  const bottom = box.top + box.height;
  pen.lineWidth = 1;
  pen.setLineDash([]);
  pen.strokeStyle = colours.grid;
  pen.fillStyle = colours.text;
  pen.globalAlpha = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const across = placer(y, bottom, -box.height);
  pen.beginPath();
  for (const { value, text } of ticks(y, "value", Math.max(2, Math.round(box.height / 42)))) {
    const at = Math.round(across(value)) + 0.5;
    pen.moveTo(box.left, at);
    pen.lineTo(box.left + box.width, at);
    pen.fillText(text, box.left - 8, at);
  }
  pen.stroke();
  pen.textBaseline = "top";
  const along = placer(x, box.left, box.width);
  for (const { value, text } of ticks(x, axis, Math.max(2, Math.round(box.width / 84)))) {
    const at = along(value);
    pen.textAlign = at > box.left + box.width - 24 ? "right" : at < box.left + 12 ? "left" : "center";
    pen.fillText(text, at, bottom + 7);
  }
}

function colourOf({ run, look, isQuiet }: Series, { colours, hovered }: Manner): string {
  if (isQuiet && run.id !== hovered) return colours.quiet;
  return colours.runs[look.colour] ?? colours.text;
}

function drawSeries(pieces: Pieces, series: Series): void {
  const { pen, manner } = pieces;
  const isHovered = series.run.id === manner.hovered;
  const isFaint = series.isQuiet && !isHovered;
  pen.strokeStyle = pen.fillStyle = colourOf(series, manner);
  if (series.abandoned) drawAbandoned(pieces, series, series.abandoned);
  if (!isFaint && (!pieces.isMany || isHovered)) drawBand(pieces, series);
  pen.setLineDash([...series.look.dash]);
  if (isFaint) pen.setLineDash([]);
  pen.lineWidth = isHovered ? 2.25 : isFaint ? 1 : pieces.isMany ? 1.1 : 1.6;
  if (series.smooth) {
    if (!isFaint) {
      pen.globalAlpha = 0.3;
      pen.lineWidth = 1;
      trace(pieces, series.curve, series.curve.header.level === 1 ? series.curve.last : series.curve.mean, series.shift);
      pen.lineWidth = isHovered ? 2.5 : 1.8;
    }
    pen.globalAlpha = 1;
    trace(pieces, series.curve, series.smooth, series.shift);
    return;
  }
  pen.globalAlpha = isFaint ? 0.55 : pieces.isMany && !isHovered ? (manner.hovered === null ? 0.7 : 0.35) : 1;
  if (series.curve.header.level === 1) trace(pieces, series.curve, series.curve.last, series.shift);
  else if (pieces.isMany && !isHovered) traceSpans(pieces, series.curve, series.shift);
  else trace(pieces, series.curve, series.curve.mean, series.shift);
}

function drawEnvelope({ pen, manner, plot, x, y }: Pieces, envelope: Curve): void {
  pen.fillStyle = manner.colours.quiet;
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  pen.globalAlpha = 0.35;
  pen.beginPath();
  const known = [...envelope.place.keys()].filter((at) => !Number.isNaN(envelope.min[at]!));
  known.forEach((at, index) => pen[index === 0 ? "moveTo" : "lineTo"](x(envelope.place[at]!), y(Math.max(envelope.max[at]!, floor))));
  for (const at of known.reverse()) pen.lineTo(x(envelope.place[at]!), y(Math.max(envelope.min[at]!, floor)));
  pen.closePath();
  pen.fill();
  pen.globalAlpha = 1;
}

const MOST_FLAGS = 200;
/** Length of a flag in pixels. */
const FLAG = 9;

/** Draws a flag at the top for each note and finding. */
function drawFlags({ pen, manner, plot, x }: Pieces): void {
  const { left, width, top, height } = plot.box;
  pen.lineWidth = 1;
  pen.setLineDash([]);
  for (const { kind, place } of plot.flags.slice(0, MOST_FLAGS)) {
    const px = Math.round(x(place)) + 0.5;
    // At the end of the axis a flag would be cut off.
    const tip = px + FLAG <= left + width ? px + FLAG : px - FLAG;
    pen.strokeStyle = pen.fillStyle = manner.colours.flags[kind];
    pen.globalAlpha = 0.45;
    pen.beginPath();
    pen.moveTo(px, top);
    pen.lineTo(px, top + height);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.moveTo(px, top);
    pen.lineTo(tip, top + 4);
    pen.lineTo(px, top + 8);
    pen.closePath();
    pen.fill();
  }
}

/** Draws what a later attempt did again: faint, since the latest attempt is what counts. */
function drawAbandoned(pieces: Pieces, series: Series, abandoned: Curve): void {
  const { pen } = pieces;
  pen.setLineDash([3, 3]);
  pen.lineWidth = 1;
  pen.globalAlpha = 0.5;
  trace(pieces, abandoned, abandoned.mean, series.shift);
  pen.setLineDash([]);
}

/** Draws the line through values; it breaks where a value is missing and where lines of the log are lost. */
function trace({ pen, plot, x, y }: Pieces, curve: Curve, values: Float64Array, shift: number): void {
  const [first, last] = visible(curve, plot.x, shift);
  const breaks = breaksOf(curve);
  const isLog = plot.y.isLog;
  let length = 0;
  let [px, py] = [0, 0];
  pen.beginPath();
  for (let i = first; i < last; i++) {
    const value = values[i]!;
    const isMissing = value !== value || (isLog && value <= 0);
    if (isMissing || breaks?.has(i)) {
      if (length === 1) dot(pen, px, py);
      length = 0;
      if (isMissing) continue;
    }
    px = x(curve.place[i]! + shift);
    py = y(value);
    if (length++ === 0) pen.moveTo(px, py);
    else pen.lineTo(px, py);
  }
  if (length === 1) dot(pen, px, py);
  pen.stroke();
}

/** Adds a point without neighbours, which as a line has no length. */
function dot(pen: Pen, x: number, y: number): void {
  pen.moveTo(x + DOT, y);
  pen.arc(x, y, DOT, 0, 2 * Math.PI);
}

/** Draws a line that goes through the least and the greatest value of each bucket: no spike is lost. */
function traceSpans({ pen, plot, x, y }: Pieces, curve: Curve, shift: number): void {
  const [first, last] = visible(curve, plot.x, shift);
  const breaks = breaksOf(curve);
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  let isOpen = false;
  pen.beginPath();
  for (let i = first; i < last; i++) {
    const [low, high, end] = [curve.min[i]!, curve.max[i]!, curve.last[i]!];
    if (low !== low || high < floor) {
      isOpen = false;
      continue;
    }
    const px = x(curve.place[i]! + shift);
    const top = y(high);
    if (isOpen && !breaks?.has(i)) pen.lineTo(px, top);
    else pen.moveTo(px, top);
    pen.lineTo(px, y(low > floor ? low : floor));
    if (end > floor && end !== low) pen.lineTo(px, y(end));
    isOpen = true;
  }
  pen.stroke();
}

/** Fills from the least to the greatest value of each bucket. */
function drawBand({ pen, plot, x, y }: Pieces, { curve, shift }: Series): void {
  if (curve.header.level === 1) return;
  const [first, last] = visible(curve, plot.x, shift);
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  const breaks = breaksOf(curve);
  pen.globalAlpha = 0.2;
  pen.beginPath();
  for (let start = first; start < last; ) {
    if (Number.isNaN(curve.min[start]!)) {
      start++;
      continue;
    }
    let end = start + 1;
    while (end < last && !Number.isNaN(curve.min[end]!) && !breaks?.has(end)) end++;
    for (let i = start; i < end; i++) pen[i === start ? "moveTo" : "lineTo"](x(curve.place[i]! + shift), y(Math.max(curve.max[i]!, floor)));
    for (let i = end - 1; i >= start; i--) pen.lineTo(x(curve.place[i]! + shift), y(Math.max(curve.min[i]!, floor)));
    pen.closePath();
    start = end;
  }
  pen.fill();
  // A spike of one step is too narrow a part of the band to be seen without its edge.
  pen.globalAlpha = 0.35;
  pen.lineWidth = 0.75;
  pen.setLineDash([]);
  pen.stroke();
}

const BREAKS = new WeakMap<Curve, Set<number> | null>();

/** Returns the buckets before which lines of the log are lost; null for the most curves, which have none. */
function breaksOf(curve: Curve): Set<number> | null {
  let found = BREAKS.get(curve);
  if (found !== undefined) return found;
  const gaps = (curve.header.gaps ?? []).flatMap((gap) => gap[curve.axis] ?? []);
  found = gaps.length === 0 ? null : new Set();
  for (const gap of gaps) {
    const at = curve.place.findIndex((place) => place > gap);
    if (at > 0) found!.add(at);
  }
  BREAKS.set(curve, found);
  return found;
}

/** Marks what is not a value: what is not finite, gaps, resumes, and the best point. */
function drawMarks(pieces: Pieces, series: Series): void {
  const { pen, manner } = pieces;
  const { curve } = series;
  pen.globalAlpha = 1;
  pen.strokeStyle = pen.fillStyle = colourOf(series, manner);
  pen.lineWidth = 1.4;
  pen.setLineDash([]);
  drawNotFinite(pieces, series);
  drawPlaces(pieces, series, (curve.header.gaps ?? []).map((gap) => gap[curve.axis] ?? null), [5, 3]);
  drawPlaces(pieces, series, (curve.header.resumes ?? []).map((resume) => resume[curve.axis] ?? null), [1.5, 3]);
}

const MOST_CROSSES = 400;

function drawNotFinite({ pen, plot, x }: Pieces, { curve, shift }: Series): void {
  const [first, last] = visible(curve, plot.x, shift);
  const bottom = plot.box.top + plot.box.height - 5;
  let before = -Infinity;
  let crosses = 0;
  pen.beginPath();
  for (let i = first; i < last && crosses < MOST_CROSSES; i++) {
    if (curve.nan[i]! === 0) continue;
    const px = x(curve.place[i]! + shift);
    if (px - before < 3) continue;
    pen.moveTo(px - 3, bottom - 3);
    pen.lineTo(px + 3, bottom + 3);
    pen.moveTo(px - 3, bottom + 3);
    pen.lineTo(px + 3, bottom - 3);
    before = px;
    crosses++;
  }
  if (crosses > 0) pen.stroke();
}

function drawPlaces({ pen, plot, x, isMany }: Pieces, { shift }: Series, places: readonly (number | null)[], dash: number[]): void {
  const known = places.filter((place) => place !== null);
  if (known.length === 0) return;
  const { top, height } = plot.box;
  const length = !isMany && known.length <= MOST_LONG_MARKS ? height : 12;
  pen.setLineDash(dash);
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const place of known) {
    const px = x(place + shift);
    pen.moveTo(px, top + height);
    pen.lineTo(px, top + height - length);
  }
  pen.stroke();
  pen.setLineDash([]);
}

function drawBest({ pen, plot, x, y, manner }: Pieces, series: Series): void {
  const { curve, shift } = series;
  const best = curve.header.best;
  const place = best?.[curve.axis as Axis];
  if (!best || place === null || place === undefined || (plot.y.isLog && best.value <= 0)) return;
  const [px, py] = [x(place + shift), y(best.value)];
  const { left, top, width, height } = plot.box;
  if (!(px >= left - 1 && px <= left + width + 1 && py >= top - 2 && py <= top + height + 2)) return;
  pen.globalAlpha = 1;
  pen.strokeStyle = pen.fillStyle = colourOf(series, manner);
  pen.lineWidth = 1.6;
  pen.beginPath();
  pen.arc(px, py, 3.5, 0, 2 * Math.PI);
  const colour = pen.fillStyle;
  pen.fillStyle = manner.colours.surface;
  pen.fill();
  pen.fillStyle = colour;
  pen.stroke();
}

/** Draws the line under the pointer and a dot on each curve. */
export function drawCursor(pen: Pen, plot: Plot, manner: Manner, cursor: { place: number; dots: readonly { series: Series; at: number }[] }): void {
  const { box } = plot;
  const x = placer(plot.x, box.left, box.width);
  const y = placer(plot.y, box.top + box.height, -box.height);
  const px = Math.round(x(cursor.place)) + 0.5;
  if (px < box.left - 1 || px > box.left + box.width + 1) return;
  pen.lineWidth = 1;
  pen.setLineDash([]);
  pen.strokeStyle = manner.colours.text;
  pen.globalAlpha = 0.6;
  pen.beginPath();
  pen.moveTo(px, box.top);
  pen.lineTo(px, box.top + box.height);
  pen.stroke();
  pen.globalAlpha = 1;
  for (const { series, at } of cursor.dots) {
    const value = drawn(series, at);
    if (Number.isNaN(value) || (plot.y.isLog && value <= 0)) continue;
    pen.fillStyle = colourOf({ ...series, isQuiet: false }, manner);
    pen.beginPath();
    pen.arc(x(series.curve.place[at]! + series.shift), y(value), 3, 0, 2 * Math.PI);
    pen.fill();
  }
}
