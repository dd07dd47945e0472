/** Draws the curves of a run: the least and the greatest value of each column of pixels. */

import type { Curve, Part } from "./curve.js";
import { fill, html, svg } from "./elements.js";
import { figure, grouped } from "./figures.js";
import { linear, logarithmic, type Scale } from "./scales.js";

const HEIGHT = 260;
const MARGIN = { left: 52, right: 12, top: 12, bottom: 30 };
const LEAST_WIDTH = 240;

/** Returns the curves with what chooses among them, null where the run has none; one value is no curve. */
export function curvesView(curves: readonly Curve[]): HTMLElement | null {
  const drawn = curves.filter((curve) => curve.count > 1 && curve.least !== null);
  if (drawn.length === 0) return null;
  let curve = drawn[0]!;
  const canvas = html("div", { class: "tc-canvas" });
  const readout = html("output", { class: "tc-readout" });
  const facts = html("p", { class: "tc-extremes" });
  const choose = chooser(drawn, (index) => {
    curve = drawn[index]!;
    draw();
  });
  const log = html("input", { type: "checkbox", class: "tc-log" });
  const draw = () => {
    log.disabled = !canBeLogarithmic(curve);
    const isLogarithmic = log.checked && !log.disabled;
    const width = Math.max(canvas.clientWidth || 640, LEAST_WIDTH);
    fill(facts, extremes(curve));
    fill(canvas, new Drawing(curve, width, isLogarithmic, (text) => fill(readout, text)).element);
    fill(readout, " ");
  };
  log.addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas);
  return html(
    "section",
    { class: "tc-section" },
    html("h3", {}, "Curve"),
    html("div", { class: "tc-controls" }, choose, html("label", {}, log, " logarithmic")),
    facts,
    canvas,
    readout,
  );
}

function chooser(curves: readonly Curve[], choose: (index: number) => void): HTMLElement {
  if (curves.length === 1) return html("span", { class: "tc-measure" }, curves[0]!.name);
  const options = curves.map((curve, index) => html("option", { value: index }, curve.name));
  const select = html("select", { "aria-label": "measure" }, ...options);
  select.addEventListener("change", () => choose(Number(select.value)));
  return select;
}

function canBeLogarithmic(curve: Curve): boolean {
  return curve.least !== null && curve.least.value! > 0;
}

/** Says in words what the curve shows. */
function extremes(curve: Curve): string {
  const at = (step: number) => `at step ${grouped(step)}`;
  const shown = (value: number | null) => (value === null ? "not finite" : figure(value));
  const parts = [`first ${shown(curve.first!.value)}`];
  if (curve.last) parts.push(`last ${shown(curve.last.value)} ${at(curve.last.step)}`);
  parts.push(`least ${shown(curve.least!.value)} ${at(curve.least!.step)}`);
  if (curve.notFinite > 0) parts.push(`${grouped(curve.notFinite)} not finite`);
  if (curve.earlier.length > 0) parts.push("earlier attempts are pale");
  return parts.join(", ");
}

class Drawing {
  readonly element: SVGSVGElement;
  private readonly x: Scale;
  private readonly y: Scale;
  private readonly guide: SVGLineElement;
  private shown = -1;

  constructor(
    private readonly curve: Curve,
    private readonly width: number,
    isLogarithmic: boolean,
    private readonly tell: (text: string) => void,
  ) {
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
        "aria-label": `${curve.name} by step: ${extremes(curve)}. Arrow keys read single values.`,
      },
      this.axes(),
      this.attempt(curve.earlier, "tc-trace tc-earlier"),
      this.attempt(curve.parts, "tc-trace"),
      this.notFinite(),
      this.guide,
    );
    this.element.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  private get right(): number {
    return this.width - MARGIN.right;
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
    const label = svg("text", { class: "tc-axis", x: this.right, y: HEIGHT - 2, "text-anchor": "end" }, "step");
    return svg("g", { class: "tc-axes", "aria-hidden": "true" }, ...rows, ...steps, label);
  }

  private attempt(parts: readonly Part[], style: string): SVGPathElement {
    return svg("path", { class: style, d: this.path(parts) });
  }

  /** Draws each column of pixels from its least to its greatest value, and lines between them; what is not finite parts them. */
  private path(parts: readonly Part[]): string {
    const pieces: string[] = [];
    let isOpen = false;
    for (const column of this.columns(parts)) {
      if (column.least === null) {
        isOpen = false;
        continue;
      }
      const x = column.x.toFixed(1);
      const ends = [column.first, column.least, column.greatest, column.last].map((value) => this.down(value).toFixed(1));
      const places = ends.filter((place, index) => index === 0 || place !== ends[index - 1]);
      pieces.push(`${isOpen ? "L" : "M"}${x} ${places[0]}`, ...places.slice(1).map((place) => `L${x} ${place}`));
      // A single point has no length and would not be seen.
      if (!isOpen && places.length === 1) pieces.push("h0.1");
      isOpen = true;
    }
    return pieces.join("");
  }

  private columns(parts: readonly Part[]): Column[] {
    const columns: Column[] = [];
    for (const part of parts) {
      const x = this.across(part.from / 2 + part.to / 2);
      const open = columns.at(-1);
      if (part.least === null) columns.push({ x, least: null });
      else if (open && open.least !== null && Math.abs(x - open.x) < 1) {
        open.least = Math.min(open.least, part.least);
        open.greatest = Math.max(open.greatest, part.greatest!);
        open.last = part.last!;
      } else columns.push({ x, first: part.last!, least: part.least, greatest: part.greatest!, last: part.last! });
    }
    return columns;
  }

  private notFinite(): SVGGElement {
    const places = new Set(this.curve.parts.filter((part) => part.least === null).map((part) => Math.round(this.across(part.from))));
    const y = HEIGHT - MARGIN.bottom;
    const crosses = [...places].slice(0, 500).map((x) => svg("path", { class: "tc-not-finite", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` }));
    return svg("g", {}, ...crosses);
  }

  private point(x: number): void {
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
    const steps = part.from === part.to ? `step ${grouped(part.to)}` : `steps ${grouped(part.from)} to ${grouped(part.to)}`;
    const isOne = part.least === part.greatest;
    const values = part.least === null ? "not finite" : isOne ? figure(part.least) : `${figure(part.least)} to ${figure(part.greatest!)}`;
    this.tell(`${steps}: ${this.curve.name} ${values}`);
  }
}

type Column = { x: number; least: null } | { x: number; first: number; least: number; greatest: number; last: number };

function least(values: readonly number[]): number {
  return values.reduce((low, value) => Math.min(low, value), Infinity);
}
