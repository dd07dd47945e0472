/** Draws a curve: a line of means over the band from the least to the greatest value of each column of pixels. */

import type { Curve, Part } from "./curve.js";
import { svg } from "./elements.js";
import { figure, grouped } from "./figures.js";
import type { Mark } from "./run-facts.js";
import { linear, logarithmic, type Scale } from "./scales.js";

/** What a drawing has beside its curve. */
export interface Setting {
  /** What the axis counts. */
  axis: string;
  marks: readonly Mark[];
  /** In pixels. */
  width: number;
  isLogarithmic: boolean;
  /** The curve in words. */
  text: string;
}

export const LEAST_WIDTH = 240;
const HEIGHT = 260;
const MARGIN = { left: 52, right: 12, top: 12, bottom: 30 };
const MOST_CROSSES = 500;

/** A column of pixels; the values of one that is not finite are null. */
type Column = { x: number; least: null } | { x: number; least: number; greatest: number; sum: number; finite: number };

export class Drawing {
  readonly element: SVGSVGElement;
  private readonly x: Scale;
  private readonly y: Scale;
  private readonly guide: SVGLineElement;
  private shown = -1;

  constructor(
    private readonly curve: Curve,
    private readonly setting: Setting,
    private readonly show: (text: string) => void,
  ) {
    const { width, isLogarithmic, text, axis } = setting;
    const all = [...curve.earlier, ...curve.parts];
    const values = all.flatMap((part) => (part.least === null ? [] : [part.least, part.greatest!]));
    const [low, high] = [least(values), -least(values.map((value) => -value))];
    const columns = this.right - MARGIN.left;
    this.x = linear(least(all.map((part) => part.from)), -least(all.map((part) => -part.to)), Math.max(2, Math.round(columns / 90)));
    this.y = isLogarithmic ? logarithmic(low, high, 6) : linear(low, high, 5);
    this.guide = svg("line", { class: "tc-guide", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
    this.element = svg(
      "svg",
      {
        class: "tc-curve", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, tabindex: 0, role: "img",
        "aria-label": `${curve.name} by ${axis}: ${text}. Arrow keys read single values.`,
      },
      this.axes(),
      this.marks(),
      this.attempt(curve.earlier, " tc-earlier"),
      this.attempt(curve.parts, ""),
      this.notFinite(),
      this.guide,
    );
    this.element.addEventListener("pointermove", (event) => this.readAt(event.offsetX));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  private get right(): number {
    return this.setting.width - MARGIN.right;
  }

  private across(step: number): number {
    return MARGIN.left + this.x.place(step) * (this.right - MARGIN.left);
  }

  private down(value: number): number {
    return HEIGHT - MARGIN.bottom - this.y.place(value) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  }

  private axes(): SVGGElement {
    const rows = this.y.ticks.map((value) => {
      const y = this.down(value);
      return svg("g", {}, svg("line", { class: "tc-grid", x1: MARGIN.left, x2: this.right, y1: y, y2: y }), svg("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, figure(value)));
    });
    const steps = this.x.ticks.filter((step) => Number.isInteger(step)).map((step) => {
      const x = this.across(step);
      const anchor = x > this.right - 20 ? "end" : "middle";
      return svg("text", { x, y: HEIGHT - MARGIN.bottom + 16, "text-anchor": anchor }, grouped(step));
    });
    const label = svg("text", { class: "tc-axis", x: this.right, y: HEIGHT - 2, "text-anchor": "end" }, this.setting.axis);
    return svg("g", { class: "tc-axes", "aria-hidden": "true" }, ...rows, ...steps, label);
  }

  /** Marks the places at which lines are missing or the run was resumed. */
  private marks(): SVGGElement {
    const lines = this.setting.marks.map(({ kind, step }) => {
      const x = this.across(step);
      const title = svg("title", {}, `${kind === "gap" ? "lines that cannot be read" : "resumed"} after ${this.setting.axis} ${grouped(step)}`);
      return svg("line", { class: `tc-mark tc-mark-${kind}`, x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }, title);
    });
    return svg("g", {}, ...lines);
  }

  private attempt(parts: readonly Part[], style: string): SVGGElement {
    const runs = finiteRuns(this.columns(parts));
    return svg(
      "g",
      { class: `tc-attempt${style}` },
      svg("path", { class: "tc-band", d: runs.map((run) => this.band(run)).join("") }),
      svg("path", { class: "tc-trace", d: runs.map((run) => this.line(run)).join("") }),
    );
  }

  /** The outline of the values of neighbouring columns: along the greatest, and back along the least. */
  private band(run: readonly FiniteColumn[]): string {
    if (run.every(({ least, greatest }) => least === greatest)) return "";
    const above = run.map(({ x, greatest }) => this.point(x, greatest));
    const below = run.map(({ x, least }) => this.point(x, least)).reverse();
    return `M${[...above, ...below].join("L")}Z`;
  }

  private line(run: readonly FiniteColumn[]): string {
    const points = run.map(({ x, sum, finite, least, greatest }) => this.point(x, Math.min(Math.max(sum / finite, least), greatest)));
    // A single point has no length and would not be seen.
    return `M${points.join("L")}${points.length === 1 ? "h0.1" : ""}`;
  }

  private point(x: number, value: number): string {
    return `${x.toFixed(1)} ${this.down(value).toFixed(1)}`;
  }

  private columns(parts: readonly Part[]): Column[] {
    const columns: Column[] = [];
    const gaps = this.setting.marks.filter(({ kind }) => kind === "gap");
    let before: Part | undefined;
    for (const part of parts) {
      const x = this.across(part.from / 2 + part.to / 2);
      // What was lost is not drawn as a line.
      const start = before?.from ?? Infinity;
      if (gaps.some(({ step }) => step >= start && step < part.to)) columns.push({ x, least: null });
      before = part;
      const open = columns.at(-1);
      if (part.least === null) columns.push({ x, least: null });
      else if (open && open.least !== null && Math.abs(x - open.x) < 1) {
        open.least = Math.min(open.least, part.least);
        open.greatest = Math.max(open.greatest, part.greatest!);
        open.sum += part.sum;
        open.finite += part.finite;
      } else columns.push({ x, least: part.least, greatest: part.greatest!, sum: part.sum, finite: part.finite });
    }
    return columns;
  }

  private notFinite(): SVGGElement {
    const places = new Set(this.curve.parts.filter((part) => part.least === null).map((part) => Math.round(this.across(part.from))));
    const y = HEIGHT - MARGIN.bottom;
    const crosses = [...places].slice(0, MOST_CROSSES).map((x) => svg("path", { class: "tc-not-finite", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` }));
    return svg("g", {}, ...crosses);
  }

  private readAt(x: number): void {
    const { parts } = this.curve;
    let best = 0;
    for (let i = 1; i < parts.length; i++) {
      if (Math.abs(this.across(parts[i]!.to) - x) < Math.abs(this.across(parts[best]!.to) - x)) best = i;
    }
    this.read(best);
  }

  private key(event: KeyboardEvent): void {
    const last = this.curve.parts.length - 1;
    const moves: { [key: string]: number } = {
      ArrowLeft: Math.max(this.shown - 1, 0), ArrowRight: Math.min(this.shown + 1, last), Home: 0, End: last,
    };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.read(next);
  }

  private read(index: number): void {
    const part = this.curve.parts[index];
    if (!part) return;
    this.shown = index;
    const x = this.across(part.to);
    for (const name of ["x1", "x2"]) this.guide.setAttribute(name, String(x));
    this.guide.setAttribute("visibility", "visible");
    const { axis } = this.setting;
    const place = part.from === part.to ? `${axis} ${grouped(part.to)}` : `${axis} ${grouped(part.from)} to ${grouped(part.to)}`;
    const isOne = part.least === part.greatest;
    const values = part.least === null ? "not finite"
      : isOne ? figure(part.least)
      : `mean ${figure(part.sum / part.finite)}, ${figure(part.least)} to ${figure(part.greatest!)}`;
    this.show(`${place}: ${this.curve.name} ${values}`);
  }
}

type FiniteColumn = Exclude<Column, { least: null }>;

/** Returns the stretches of columns that are finite. */
function finiteRuns(columns: readonly Column[]): FiniteColumn[][] {
  const runs: FiniteColumn[][] = [];
  let open: FiniteColumn[] | null = null;
  for (const column of columns) {
    if (column.least === null) open = null;
    else if (open) open.push(column);
    else runs.push((open = [column]));
  }
  return runs;
}

function least(values: readonly number[]): number {
  return values.reduce((low, value) => Math.min(low, value), Infinity);
}
