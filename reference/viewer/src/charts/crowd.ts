/** Draws many curves that are only background as one picture, which is kept until something of it changes. */

import type { Curve } from "../frames.js";
import { breaksOf, spanOf } from "./anomalies.js";
import { Growing } from "./growing.js";
import { lineOf, type Plot, type Series, visible } from "./plot.js";

/** What a picture shows, and how. */
export interface CrowdManner {
  /** Pixels of the device for each of the page. */
  ratio: number;
  colour: string;
  /** How opaque one line of a few is. */
  alpha: number;
}

/** The picture ends so far outside of the box of the chart, in pixels of the page: a line at the border is seen whole. */
const [BESIDE, ABOVE] = [3, 2];
/** Steps of coverage within one line. */
const FINENESS = 16;
/** Of very many curves a line is paler, so that it shows where most of them are: how opaque it is at least. */
const PALEST = 0.3;
/** So many of all lines in one place look as all of them do. */
const MOST_SHARE = 0.25;
/** Radius of a point without neighbours, as a line of the usual width draws it. */
const DOT = 1.7;

/**
 * How many lines cover each pixel of a picture. A line adds what changes along a column of pixels where it begins and where it
 * ends there: that costs the same however steep it is, and a thousand lines take a fiftieth of the time that strokes take.
 */
export class Coverage {
  private readonly stride: number;
  private readonly changes: Float32Array;
  #column = NaN;
  #low = NaN;
  #high = NaN;
  private px = NaN;
  private py = NaN;

  /** *half* is half of the width of a line. */
  constructor(
    private readonly columns: number,
    private readonly rows: number,
    private readonly half: number,
  ) {
    this.stride = rows + 2;
    this.changes = new Float32Array(columns * this.stride);
  }

  /** Begins a line; `lineTo` continues it, and `end` ends it. Within a column a line covers no pixel twice. */
  moveTo(x: number, y: number): void {
    this.end();
    [this.px, this.py] = [x, y];
    this.#column = Math.floor(x);
    this.#low = this.#high = y;
  }

  lineTo(x: number, y: number): void {
    const { px, py } = this;
    const [from, to] = [this.#column, Math.floor(x)];
    this.px = x;
    this.py = y;
    if (to === from) {
      this.#extend(y);
      return;
    }
    const slope = (y - py) / (x - px);
    if (to > from) {
      const edge = py + (from + 1 - px) * slope;
      this.#extend(edge);
      this.end();
      const last = this.#across(from + 1, to, edge, slope);
      this.#low = this.#high = last;
    } else {
      this.end();
      this.#low = this.#high = y;
      const edge = y + (to + 1 - x) * slope;
      this.#column = to;
      this.#extend(edge);
      this.end();
      const last = this.#across(to + 1, from, edge, slope);
      this.#add(from, Math.min(last, py), Math.max(last, py));
      this.#low = this.#high = y;
    }
    this.#column = to;
    this.#extend(y);
  }

  end(): void {
    if (this.#low <= this.#high) this.#add(this.#column, this.#low, this.#high);
    this.#low = this.#high = NaN;
  }

  /** Adds a point without neighbours. */
  dot(x: number, y: number, radius: number): void {
    for (let column = Math.floor(x - radius + 0.5); column <= Math.floor(x + radius - 0.5); column++) this.#add(column, y - radius + this.half, y + radius - this.half);
  }

  /** Returns how opaque each pixel is, from 0 to 255, row by row: *alpha* where one line is, more by the logarithm of their number, up to *most*. */
  opacities(alpha: number, most: number): Uint8ClampedArray {
    const { columns, rows, stride, changes } = this;
    const table = Uint8ClampedArray.from({ length: FINENESS * most + 1 }, (_, at) => {
      const lines = at / FINENESS;
      return 255 * (lines <= 1 ? alpha * lines : alpha + ((1 - alpha) * Math.log(lines)) / Math.log(most));
    });
    const found = new Uint8ClampedArray(columns * rows);
    for (let column = 0; column < columns; column++) {
      let lines = 0;
      for (let row = 0, at = column * stride; row < rows; row++, at++) {
        lines += changes[at]!;
        // What is left of sums that were rounded covers nothing.
        if (lines > 0.01) found[row * columns + column] = table[Math.round(FINENESS * Math.min(lines, most))]!;
      }
    }
    return found;
  }

  #extend(y: number): void {
    if (y < this.#low) this.#low = y;
    if (y > this.#high) this.#high = y;
  }

  /** Adds a line that begins at *edge* on the left of a column to the left of another one; returns where it is there. */
  #across(from: number, to: number, edge: number, slope: number): number {
    const [first, end] = [Math.max(from, 0), Math.min(to, this.columns)];
    let before = edge + (first - from) * slope;
    for (let column = first; column < end; column++) {
      const after = before + slope;
      if (slope < 0) this.#add(column, after, before);
      else this.#add(column, before, after);
      before = after;
    }
    return edge + (to - from) * slope;
  }

  #add(column: number, low: number, high: number): void {
    if (!(column >= 0 && column < this.columns)) return;
    const { changes, rows } = this;
    let [begin, end] = [low - this.half, high + this.half];
    if (begin < 0) begin = 0;
    if (end > rows) end = rows;
    if (!(begin < end)) return;
    const [first, last] = [Math.floor(begin), Math.floor(end)];
    const [above, below] = [begin - first, end - last];
    const at = column * this.stride;
    changes[at + first]! += 1 - above;
    changes[at + first + 1]! += above;
    changes[at + last]! -= 1 - below;
    changes[at + last + 1]! -= below;
  }
}

/** Adds the line through the values of a curve, which breaks where a value is missing and where lines of the log are lost. */
export function addLine(coverage: Coverage, curve: Curve, values: Float64Array, { plot, shift, ratio }: { plot: Plot; shift: number; ratio: number }): void {
  const { x, y, box } = plot;
  const [first, last] = visible(curve, x, shift);
  const breaks = breaksOf(curve);
  const [width, height] = [box.width * ratio, box.height * ratio];
  const [left, bottom] = [BESIDE * ratio, ABOVE * ratio + height];
  const from = x.isLog ? Math.log10(x.from) : x.from;
  const scaleX = width / ((x.isLog ? Math.log10(x.to) : x.to) - from || 1);
  const floor = y.isLog ? Math.log10(y.from) : y.from;
  const scaleY = height / ((y.isLog ? Math.log10(y.to) : y.to) - floor || 1);
  const across = (place: number) => left + ((x.isLog ? Math.log10(Math.max(place, x.from / 2)) : place) - from) * scaleX;
  const { place } = curve;
  let length = 0;
  let [px, py] = [0, 0];
  for (let i = first; i < last; i++) {
    const value = values[i]!;
    const isMissing = value !== value || (y.isLog && value <= 0);
    if (isMissing || (breaks !== null && breaks.has(i))) {
      if (length === 1) coverage.dot(px, py, DOT * ratio);
      else coverage.end();
      length = 0;
      if (isMissing) continue;
    }
    px = across(place[i]! + shift);
    py = bottom - ((y.isLog ? Math.log10(value) : value) - floor) * scaleY;
    // A canvas leaves out what has no place too.
    if (!(Math.abs(px) < 1e12 && Math.abs(py) < 1e12)) continue;
    // The first bucket begins at the first point of the curve.
    if (i === 0 && curve.count[0]! > 1) {
      coverage.moveTo(across(spanOf(curve, 0)[0] + shift), py);
      length++;
    }
    if (length++ === 0) coverage.moveTo(px, py);
    else coverage.lineTo(px, py);
  }
  if (length === 1) coverage.dot(px, py, DOT * ratio);
  else coverage.end();
}

/** The picture of the runs of one chart that are only background. */
export class Crowd {
  private readonly canvas = document.createElement("canvas");
  readonly #coverage = new Growing<Coverage>();

  /** Draws the curves of *series*: those that have come since the last time are added to its picture. */
  draw(pen: CanvasRenderingContext2D, series: readonly Series[], plot: Plot, own: CrowdManner): void {
    const { box, x, y } = plot;
    const { ratio } = own;
    const [columns, rows] = [Math.ceil((box.width + 2 * BESIDE) * ratio), Math.ceil((box.height + 2 * ABOVE) * ratio)];
    this.#coverage.of([JSON.stringify([box, x, y, own])], series, {
      begin: () => new Coverage(columns, rows, ratio / 2),
      add: (coverage, added) => {
        for (const each of added) addLine(coverage, each.curve, lineOf(each), { plot, shift: each.shift, ratio });
        this.#take(coverage.opacities(Math.max(PALEST, own.alpha - series.length / 1000), Math.ceil(MOST_SHARE * series.length) + 1), { columns, rows, colour: own.colour });
      },
    });
    pen.globalAlpha = 1;
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.canvas, box.left - BESIDE, box.top - ABOVE, columns / ratio, rows / ratio);
  }

  #take(opacities: Uint8ClampedArray, { columns, rows, colour }: { columns: number; rows: number; colour: string }): void {
    const { canvas } = this;
    [canvas.width, canvas.height] = [columns, rows];
    const pen = canvas.getContext("2d")!;
    const image = pen.createImageData(columns, rows);
    for (let at = 0; at < opacities.length; at++) image.data[4 * at + 3] = opacities[at]!;
    pen.putImageData(image, 0, 0);
    pen.globalCompositeOperation = "source-in";
    pen.fillStyle = colour;
    pen.fillRect(0, 0, columns, rows);
  }
}
