/** Draws a chart with a pen: a canvas, or the maker of SVG for an export. */

import { type Curve, firstAt, MEAN } from "../frames.js";
import type { Axis } from "../protocol.js";
import type { XAxis } from "../view-state.js";
import { anomaliesOf, breaksOf, notFiniteOf, notFiniteSpans, spanOf, type Spike, spikesOf } from "./anomalies.js";
import { type Envelope, incompleteOf, missingText } from "./grouping.js";
import { drawn, placers, type Plot, type Series, visible } from "./plot.js";
import { ticks } from "./ticks.js";

/** What both the canvas and the maker of SVG can do. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "beginPath" | "moveTo" | "lineTo" | "closePath" | "stroke" | "fill" | "rect" | "arc" | "clip" | "save" | "restore" | "setLineDash" | "fillText" | "translate" | "rotate"
  | "strokeStyle" | "fillStyle" | "lineWidth" | "globalAlpha" | "font" | "textAlign" | "textBaseline" | "lineJoin" | "lineCap"
>;

export interface Colours {
  text: string;
  grid: string;
  quiet: string;
  /** Marks of runs that are background. */
  spike: string;
  surface: string;
  runs: readonly string[];
  flags: { note: string; error: string; warning: string };
}

export interface Manner {
  axis: XAxis;
  colours: Colours;
  /** Id of the run that is drawn above the others. */
  hovered: string | null;
  /** Pixels of the device for each of the pen: marks begin and end between two of them. */
  ratio: number;
  /** Whether runs that are background have colours too: those of a result or a setting. */
  isColoured: boolean;
  /** Whether flags and marks are left out. */
  isBare?: boolean;
  /** Family and size of the text. */
  font: string;
  size: number;
}

/** More overlapping bands cannot be distinguished: then they are faint. */
const MOST_BANDS = 8;
/** Fewer runs that are background are drawn each for itself. */
const FEWEST_IN_CROWD = 50;
/** More marks of one run are not drawn from top to bottom. */
const MOST_LONG_MARKS = 4;
/** Radius of a point without neighbours; its outline is drawn too. */
const DOT = 1.2;

/** How opaque the line of a run that is background is; a smoothed one has no second line. */
const FAINT = { plain: 0.55, smoothed: 1 };

/** Draws curves that are background, all in one colour and as opaque. */
export type DrawCrowd = (series: readonly Series[], how: { colour: string; alpha: number }) => void;

/** Draws axes, curves and marks; the marks of spikes are last, so that nothing hides them. Without *drawCrowd* each run that is background is a line of its own. */
export function draw(pen: Pen, plot: Plot, manner: Manner, drawCrowd?: DrawCrowd): void {
  const { box } = plot;
  pen.font = `${manner.size}px ${manner.font}`;
  pen.lineJoin = "round";
  pen.lineCap = "round";
  drawAxes(pen, plot, manner);
  pen.save();
  pen.beginPath();
  // A mark at the border is seen whole.
  pen.rect(box.left - 3, box.top - 2, box.width + 6, box.height + 4);
  pen.clip();
  const { across, down } = placers(plot);
  const pieces: Pieces = {
    pen, manner, plot, isMany: plot.series.filter(({ isQuiet }) => !isQuiet).length > MOST_BANDS,
    // What is at or before 0 has no place on a logarithmic axis: it is left of the border.
    x: plot.x.isLog ? (value) => across(Math.max(value, plot.x.from / 2)) : across, y: down,
  };
  if (plot.envelope) drawEnvelope(pieces, plot.envelope);
  const order = [...plot.series].sort((a, b) => rank(a, manner) - rank(b, manner));
  // The run under the pointer stays in it, below its own line: else each move of the pointer would need another picture.
  const crowd = drawCrowd ? plot.series.filter((series) => isGrey(series, manner)) : [];
  const isCrowd = crowd.length > FEWEST_IN_CROWD;
  if (isCrowd) drawCrowd!(crowd, { colour: manner.colours.quiet, alpha: crowd[0]!.smooth ? FAINT.smoothed : FAINT.plain });
  const inCrowd = new Set(isCrowd ? crowd : []);
  for (const series of order) drawSeries(pieces, series, inCrowd.has(series) && isBackground(series, manner));
  for (const series of order) writeNumbers(pieces, series);
  if (manner.isBare) return pen.restore();
  drawFlags(pieces);
  const marked = [...plot.background, ...order];
  drawBackgroundMarks(pieces, marked.filter((series) => isBackground(series, manner)));
  const others = marked.filter((series) => !isBackground(series, manner));
  for (const series of others) drawMarks(pieces, series);
  for (const series of marked) if (!isMean(series)) drawSpikes(pieces, series);
  pen.restore();
  drawStrip(pieces, marked);
  // The best point is often the last one: its mark is not cut at the border.
  for (const series of order) if (series.run.id === manner.hovered || !(pieces.isMany || series.isQuiet)) drawBest(pieces, series);
}

function isBackground({ isQuiet, run }: Series, { hovered }: Manner): boolean {
  return isQuiet && run.id !== hovered;
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

function drawAxes(pen: Pen, plot: Plot, { axis, colours, size }: Manner): void {
  const { x, y, box } = plot;
  const { across, down } = placers(plot);
  const bottom = box.top + box.height;
  pen.lineWidth = 1;
  pen.setLineDash([]);
  pen.strokeStyle = colours.grid;
  pen.fillStyle = colours.text;
  pen.globalAlpha = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.beginPath();
  for (const { value, text } of ticks(y, "value", Math.max(2, Math.round(box.height / (3.8 * size))))) {
    const at = Math.round(down(value)) + 0.5;
    pen.moveTo(box.left, at);
    pen.lineTo(box.left + box.width, at);
    pen.fillText(text, box.left - 8, at);
  }
  pen.stroke();
  pen.textBaseline = "top";
  for (const { value, text } of ticks(x, axis, Math.max(2, Math.round(box.width / (7.6 * size))))) {
    const at = across(value);
    pen.textAlign = at > box.left + box.width - 24 ? "right" : at < box.left + 12 ? "left" : "center";
    pen.fillText(text, at, bottom + 17);
  }
}

/** Returns whether a curve is grey until its run is pointed at. */
export function isGrey({ isQuiet }: Series, { isColoured }: Pick<Manner, "isColoured">): boolean {
  return isQuiet && !isColoured;
}

/** Returns the colour of the line of a series. */
export function colourOf(series: Series, manner: Manner): string {
  const { run, look } = series;
  const { colours, hovered } = manner;
  if (isGrey(series, manner) && run.id !== hovered) return colours.quiet;
  return look.tint ?? colours.runs[look.colour] ?? colours.text;
}

/** Draws a run; one *inCrowd* has its line already. */
function drawSeries(pieces: Pieces, series: Series, inCrowd: boolean): void {
  const { pen, manner } = pieces;
  const isHovered = series.run.id === manner.hovered;
  const isFaint = series.isQuiet && !isHovered;
  pen.strokeStyle = pen.fillStyle = colourOf(series, manner);
  if (series.abandoned) drawAbandoned(pieces, series, series.abandoned);
  if (inCrowd) return;
  if (!isFaint) drawBand(pieces, series, isHovered || !pieces.isMany);
  pen.setLineDash([...series.look.dash]);
  if (isFaint) pen.setLineDash([]);
  pen.lineWidth = isHovered ? 2.25 : isFaint ? 1 : pieces.isMany ? 1.1 : 1.6;
  if (series.smooth) {
    if (!isFaint) {
      pen.globalAlpha = 0.3;
      pen.lineWidth = 1;
      trace(pieces, series.curve, series.curve.mean, series.shift);
      pen.lineWidth = isHovered ? 2.5 : 1.8;
    }
    pen.globalAlpha = FAINT.smoothed;
    trace(pieces, series.curve, series.smooth, series.shift);
    return;
  }
  pen.globalAlpha = isFaint ? FAINT.plain : pieces.isMany && !isHovered ? (manner.hovered === null ? 0.8 : 0.35) : 1;
  const missing = incompleteOf(series);
  if (missing.length === 0) trace(pieces, series.curve, series.curve.mean, series.shift);
  else drawIncomplete(pieces, series, missing);
}

/** Dashes of a mean where members are missing, and the room in pixels that the number of the others needs. */
const [MISSING, NUMBER_ROOM] = [[2.5, 3], 40];

/** Draws a mean in fine dashes where members are missing; it breaks where their number changes. */
function drawIncomplete(pieces: Pieces, series: Series, missing: readonly [number, number, number][]): void {
  const { curve, shift } = series;
  const values = curve.mean;
  const whole = values.slice();
  for (const [begin, end] of missing) whole.fill(NaN, begin, end);
  trace(pieces, curve, whole, shift);
  pieces.pen.setLineDash(MISSING);
  for (const [begin, end] of missing) {
    const part = whole.fill(NaN);
    part.set(values.subarray(begin, end), begin);
    trace(pieces, curve, part, shift);
  }
}

/** Writes how many members are left where some are missing, above all lines. */
function writeNumbers({ pen, plot, x, y, manner }: Pieces, series: Series): void {
  const { curve, shift } = series;
  pen.globalAlpha = 1;
  pen.textAlign = "left";
  pen.textBaseline = "bottom";
  for (const [begin, end] of incompleteOf(series)) {
    const left = Math.max(x(curve.place[begin]! + shift), plot.box.left);
    if (x(curve.place[end - 1]! + shift) - left < NUMBER_ROOM) continue;
    const at = Math.max(begin, Math.min(firstAt(curve.place, plot.x.from - shift), end - 1));
    const [text, bottom] = [missingText(series, at), Math.max(y(drawn(series, at)) - 3, plot.box.top + manner.size)];
    pen.fillStyle = manner.colours.surface;
    pen.beginPath();
    pen.rect(left + 2, bottom - manner.size, 0.56 * manner.size * text.length, manner.size);
    pen.fill();
    pen.fillStyle = colourOf(series, manner);
    pen.fillText(text, left + 3, bottom);
  }
}

/** Fills from the lowest to the highest value in each column of pixels, and strokes the outline: an extreme of one column is seen. */
function drawEnvelope({ pen, manner, plot, y }: Pieces, { low, high, cell }: Envelope): void {
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  const { left } = plot.box;
  pen.fillStyle = pen.strokeStyle = manner.colours.quiet;
  pen.setLineDash([]);
  pen.lineWidth = 1;
  pen.beginPath();
  for (let start = 0; start < low.length; ) {
    if (!(high[start]! >= low[start]!)) {
      start++;
      continue;
    }
    let end = start;
    for (; end < low.length && high[end]! >= low[end]!; end++) {
      const top = y(Math.max(high[end]!, floor));
      pen[end === start ? "moveTo" : "lineTo"](left + end * cell, top);
      pen.lineTo(left + (end + 1) * cell, top);
    }
    for (let at = end - 1; at >= start; at--) {
      const bottom = y(Math.max(low[at]!, floor));
      pen.lineTo(left + (at + 1) * cell, bottom);
      pen.lineTo(left + at * cell, bottom);
    }
    pen.closePath();
    start = end;
  }
  pen.globalAlpha = 0.35;
  pen.fill();
  pen.globalAlpha = 1;
  pen.stroke();
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
    // The first bucket begins at the first point of the curve.
    if (i === 0 && curve.count[0]! > 1) {
      pen.moveTo(x(spanOf(curve, 0)[0] + shift), py);
      length++;
    }
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

/** Fills each bucket from its lowest to its highest value, over all places that it covers. */
function drawBand({ pen, plot, x, y }: Pieces, { curve, shift }: Series, isClear: boolean): void {
  if (curve.header.level === 1) return;
  const [first, last] = visible(curve, plot.x, shift);
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  const breaks = breaksOf(curve);
  const isThere = (at: number) => curve.max[at]! > floor;
  pen.beginPath();
  for (let start = first; start < last; ) {
    if (!isThere(start)) {
      start++;
      continue;
    }
    let end = start;
    for (; end < last && isThere(end) && (end === start || !breaks?.has(end)); end++) {
      const [from, to] = spanOf(curve, end);
      const top = y(curve.max[end]!);
      pen[end === start ? "moveTo" : "lineTo"](x(from + shift), top);
      pen.lineTo(x(to + shift), top);
    }
    for (let at = end - 1; at >= start; at--) {
      const [from, to] = spanOf(curve, at);
      const bottom = y(Math.max(curve.min[at]!, floor));
      pen.lineTo(x(to + shift), bottom);
      pen.lineTo(x(from + shift), bottom);
    }
    pen.closePath();
    start = end;
  }
  pen.globalAlpha = isClear ? 0.2 : 0.07;
  pen.fill();
  if (!isClear) return;
  pen.globalAlpha = 0.35;
  pen.lineWidth = 0.75;
  pen.setLineDash([]);
  pen.stroke();
}

/** Marks what is not a value: what is not finite, gaps, and resumptions. */
function drawMarks(pieces: Pieces, series: Series): void {
  pieces.pen.globalAlpha = 1;
  pieces.pen.strokeStyle = colourOf(series, pieces.manner);
  drawNotFinite(pieces, [series]);
  drawPlaces(pieces, gapsOf(series), GAP, !pieces.isMany);
  drawPlaces(pieces, resumesOf(series), RESUME, !pieces.isMany);
}

/** Marks the same of runs that are background, in one colour. */
function drawBackgroundMarks(pieces: Pieces, all: readonly Series[]): void {
  pieces.pen.globalAlpha = 1;
  pieces.pen.strokeStyle = pieces.manner.colours.spike;
  drawNotFinite(pieces, all);
  drawPlaces(pieces, all.flatMap(gapsOf), GAP, false);
  drawPlaces(pieces, all.flatMap(resumesOf), RESUME, false);
}

/** Width of the cross of a value that is not finite, in pixels. */
const CROSS = 6;
const GAP = [5, 3];
const RESUME = [1.5, 3];

function gapsOf({ curve, shift }: Series): number[] {
  return (curve.header.gaps ?? []).flatMap((gap) => gap[curve.axis] ?? []).map((place) => place + shift);
}

function resumesOf({ curve, shift }: Series): number[] {
  return (curve.header.resumes ?? []).flatMap((resume) => resume[curve.axis] ?? []).map((place) => place + shift);
}

/** Draws a cross for each pixel with a value that is not finite; those of several runs at one pixel look the same. */
function drawNotFinite({ pen, plot, x }: Pieces, all: readonly Series[]): void {
  const bottom = plot.box.top + plot.box.height - 5;
  const found = new Set<number>();
  const wide: [number, number][] = [];
  for (const { curve, shift } of all) {
    const [first, last] = visible(curve, plot.x, shift);
    for (const i of notFiniteOf(curve)) {
      if (i < first || i >= last) continue;
      for (const [from, to] of notFiniteSpans(curve, i)) {
        const [begin, end] = [x(from + shift), x(to + shift)];
        found.add(Math.round((begin + end) / 2));
        if (end - begin > CROSS) wide.push([begin, end]);
      }
    }
  }
  if (found.size === 0) return;
  pen.setLineDash([]);
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const px of found) {
    pen.moveTo(px - 3, bottom - 3);
    pen.lineTo(px + 3, bottom + 3);
    pen.moveTo(px - 3, bottom + 3);
    pen.lineTo(px + 3, bottom - 3);
  }
  // Somewhere in a bucket that is wider: a line over all of it, in the middle of a row of pixels, since it would be pale between two.
  for (const [begin, end] of wide) {
    pen.moveTo(begin, bottom + 0.5);
    pen.lineTo(end, bottom + 0.5);
  }
  pen.stroke();
}

function drawPlaces({ pen, plot, x }: Pieces, places: readonly number[], dash: number[], mayBeLong: boolean): void {
  if (places.length === 0) return;
  const { top, height } = plot.box;
  const length = mayBeLong && places.length <= MOST_LONG_MARKS ? height : 12;
  pen.setLineDash(dash);
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const px of new Set(places.map((place) => Math.round(x(place)) + 0.5))) {
    pen.moveTo(px, top + height);
    pen.lineTo(px, top + height - length);
  }
  pen.stroke();
  pen.setLineDash([]);
}

/** Where the strip below a chart begins and how high it is, in pixels. */
export const STRIP = { top: 5, height: 8 };

/** Draws a tick below the chart for everything that is marked of any run: one of a thousand runs is found by it. */
function drawStrip({ pen, manner, plot, x }: Pieces, all: readonly Series[]): void {
  const { box } = plot;
  const ticks = new Map<number, string>();
  for (const series of all) {
    if (isMean(series)) continue;
    const colour = markColour(series, plot, manner);
    for (const { from, to, alert } of anomaliesOf(series, plot.x, plot.y.isLog)) {
      const own = alert ? manner.colours.flags[alert.level === "error" ? "error" : alert.level === "info" ? "note" : "warning"] : colour;
      ticks.set(Math.round((x(Math.max(from, plot.x.from)) + x(Math.min(to, plot.x.to))) / 2), own);
    }
  }
  for (const { place, kind } of plot.flags) if (place >= plot.x.from && place <= plot.x.to) ticks.set(Math.round(x(place)), manner.colours.flags[kind]);
  pen.globalAlpha = 1;
  for (const colour of new Set(ticks.values())) {
    pen.beginPath();
    for (const [px, own] of ticks) if (own === colour) pen.rect(px - 0.75, box.top + box.height + STRIP.top, 1.5, STRIP.height);
    pen.fillStyle = colour;
    pen.fill();
  }
}

/** Returns the colour of the marks of a run; beside means of groups it is that of its group. */
function markColour(series: Series, { hasGroups }: Plot, manner: Manner): string {
  const { colours, isColoured } = manner;
  if (series.look.tint !== undefined) return series.look.tint;
  return isBackground(series, manner) && !hasGroups && !isColoured ? colours.spike : (colours.runs[series.look.colour] ?? colours.text);
}

function isMean({ curve }: Series): boolean {
  return curve.header.run === MEAN;
}

/** Lower marks are not distinguished from their curve. */
const LOWEST_SPIKE = 2;
/** Width of a spike in pixels, where its bucket is narrower. */
const SPIKE = 1.5;

/** Spikes of fewer runs are drawn whole, and where their marks take at most this share of the width. */
const [FEWEST_TICKED, MOST_WIDTH] = [8, 0.05];
/** The shortest tick in pixels, how much longer one over the whole height is, and the length at the edge of what is beyond the range. */
const TICK = { least: 4, more: 12, edge: 8 };

/** Returns the series whose spikes are ticks: all where *hasSelected* is false, else those that are background. */
export function tickedOf(plot: Plot, hasSelected: boolean): ReadonlySet<Series> {
  const candidates = [...plot.background, ...plot.series].filter((series) => !isMean(series) && (series.isQuiet || !hasSelected));
  if (candidates.length < FEWEST_TICKED) return new Set();
  const { across: x } = placers(plot);
  const columns = new Set<number>();
  for (const { curve, shift } of candidates) {
    for (const { from, to } of spikesOf(curve, plot.y.isLog)) {
      if (to + shift < plot.x.from || from + shift > plot.x.to) continue;
      for (let px = Math.floor(x(from + shift)); px <= x(to + shift); px++) columns.add(px);
    }
  }
  return new Set(columns.size * SPIKE > MOST_WIDTH * plot.box.width ? candidates : []);
}

/** Returns between which heights the mark of a spike is drawn: from what is around it to its value, or a tick; null for one that is too low. */
export function spikeLine(plot: Plot, series: Series, { value, base }: Pick<Spike, "value" | "base">, { y, hovered }: { y(value: number): number; hovered: string | null }): [number, number] | null {
  const { top, height } = plot.box;
  const floor = plot.y.isLog ? plot.y.from : -Infinity;
  const [first, last] = [y(Math.max(value, floor)), y(Math.max(base, floor))].sort((a, b) => a - b) as [number, number];
  if (last - first < LOWEST_SPIKE) return null;
  if (plot.ticked?.has(series) && series.run.id !== hovered) return [top, top + TICK.least + TICK.more * Math.min(1, (last - first) / height)];
  // A mark stays where its curve leaves the range.
  return plot.leaving ? [Math.min(first, top + height - TICK.edge), Math.max(last, top + TICK.edge)] : [first, last];
}

/** Draws each spike from what is around it to its value as it was logged, over all places that its bucket covers. */
function drawSpikes(pieces: Pieces, series: Series): void {
  const { pen, manner, plot, x, y } = pieces;
  const { ratio } = manner;
  const curves = [series.curve, ...(series.abandoned ? [series.abandoned] : [])];
  const least = Math.max(1, Math.round(SPIKE * ratio)) / ratio;
  const snapped = (px: number) => Math.floor(px * ratio) / ratio;
  pen.beginPath();
  let count = 0;
  for (const curve of curves) {
    for (const spike of spikesOf(curve, plot.y.isLog)) {
      const { from, to } = spike;
      if (to + series.shift < plot.x.from || from + series.shift > plot.x.to) continue;
      const line = spikeLine(plot, series, spike, { y, hovered: manner.hovered });
      if (!line) continue;
      const [top, bottom] = line;
      const [begin, end] = [x(from + series.shift), x(to + series.shift)];
      const isNarrow = end - begin < least;
      const left = snapped(isNarrow ? (begin + end) / 2 - least / 2 + 0.5 / ratio : begin);
      pen.rect(left, top, isNarrow ? least : Math.max(snapped(end) - left + 1 / ratio, least), bottom - top);
      count++;
    }
  }
  if (count === 0) return;
  pen.globalAlpha = manner.hovered === null || manner.hovered === series.run.id ? 1 : 0.5;
  pen.fillStyle = markColour(series, plot, manner);
  pen.fill();
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
  const { across: x, down: y } = placers(plot);
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
