/** What settings have to do with results: a scatter of one against another, and all of them as parallel coordinates. */

import { button, fill, html, svg } from "../../../typescript/page/elements.js";
import { colouringOf } from "../charts/colouring.js";
import { placer, type Range, valueAt } from "../charts/plot.js";
import { ticks } from "../charts/ticks.js";
import { columnOf, isNamed } from "../columns.js";
import type { Run } from "../protocol.js";
import { dataTable } from "../run/lists.js";
import { fitted } from "../fitted.js";
import { nameOf } from "../names.js";
import { fieldOf, settingsOf, varietyOf } from "../run-fields.js";
import type { Look } from "../palette.js";
import type { Store } from "../store.js";
import { counted, plain, short, valueText } from "../text.js";

const MOST_AXES = 7;
/** More runs cannot be distinguished. */
const MOST_RUNS = 400;
/** Runs that the keyboard reaches one by one. */
const MOST_FOCUSED = 60;
const MOST_NAMES = 400;
const SCATTER = { height: 320, left: 64, right: 18, top: 34, bottom: 46 };
const LINES = { height: 320, left: 70, right: 70, top: 34, bottom: 26 };
/** Pixels between two axes; more of them scroll. */
const LEAST_APART = 118;
/** More axes take more room than the scatter. */
const SHORT_AXES = 4;
/** Letters of a title between two others. */
const MOST_LETTERS = 14;
/** A shorter drag is a click, in pixels. */
const LEAST_DRAG = 4;

/** One field of all runs on an axis: numbers by their value, others by their order. */
interface Scale {
  id: string;
  title: string;
  /** Null for a run without a value. */
  values: (number | null)[];
  range: Range;
  marks: { value: number; text: string }[];
}

/** Returns the fields that differ between runs: settings, and the best or last values of metrics. */
export function fieldsOf(runs: readonly Run[]): { settings: string[]; results: string[] } {
  const metrics = new Map<string, boolean>();
  for (const run of runs) for (const [name, { best }] of Object.entries(run.metrics).slice(0, MOST_NAMES)) metrics.set(name, (metrics.get(name) ?? false) || best !== null);
  const ordered = [...metrics].sort(([, a], [, b]) => Number(b) - Number(a)).map(([name, hasBest]) => `${hasBest ? "best" : "last"}.${name}`);
  const differs = (id: string) => varietyOf(runs, id) > 1;
  const chosen = settingsOf(runs).map((id) => ({ id, runs: runs.filter((run) => fieldOf(run, id) !== undefined), differs: differs(id) })).filter(({ runs, differs }) => differs && runs.length > 1);
  // A setting that few runs have leaves most of them out.
  chosen.sort((a, b) => b.runs.length - a.runs.length);
  return { settings: chosen.map(({ id }) => id), results: ordered.filter(differs) };
}

/** Returns the axis of a field. */
export function scaleOf(runs: readonly Run[], id: string): Scale {
  const raw = runs.map((run) => fieldOf(run, id) ?? null);
  const title = columnOf(id)?.title ?? plain(id);
  const known = raw.filter((value) => value !== null);
  if (known.every((value) => typeof value === "number")) {
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const isWhole = known.every(Number.isInteger);
    // Seeds from 1 to 10 stay linear.
    const isLog = low > 0 && high / low >= (isWhole ? 50 : 10) * (1 - 1e-9);
    const margin = isLog ? 1 : (high / 2 - low / 2) * 0.08 || Math.abs(low) * 0.1 || 1;
    const range = isLog ? { from: low / 1.2, to: high * 1.2, isLog } : { from: low - margin, to: high + margin, isLog };
    return { id, title, values: raw as (number | null)[], range, marks: ticks(range, "value", 5).filter(({ value }) => !isWhole || Number.isInteger(value)) };
  }
  const names = [...new Set(known.map((value) => valueText(value as string, 24)))].sort(new Intl.Collator("en", { numeric: true }).compare);
  const values = raw.map((value) => (value === null ? null : names.indexOf(valueText(value as string, 24))));
  const marks = names.slice(0, 12).map((text, value) => ({ value, text }));
  return { id, title, values, range: { from: -0.5, to: Math.max(names.length - 0.5, 0.5), isLog: false }, marks };
}

export class Relations {
  readonly element = html("section", { class: "relations", hidden: true });
  readonly #across = html("select", { class: "field", "aria-label": "Axis x of the scatter" });
  readonly #up = html("select", { class: "field", "aria-label": "Result" });
  readonly #scatter = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Scatter" });
  readonly #lines = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parallel coordinates" });
  readonly #drawings = html("div", { class: "relations-grid" }, this.#scatter, this.#lines);
  readonly #table = html("div", {});
  readonly #rest = html("p", { class: "count", hidden: true });
  #runs: readonly Run[] = [];
  #names = "";
  /** Ranges of axes to which the lines are narrowed, by the id of the field. */
  readonly #brushed = new Map<string, readonly [number, number]>();
  readonly #brush = html("div", { class: "toolbar", hidden: true });
  #tints: ReadonlyMap<string, Look> = new Map();

  constructor(private readonly store: Store) {
    for (const select of [this.#across, this.#up]) select.addEventListener("change", () => this.#draw());
    const behind = html("details", { class: "section" }, html("summary", {}, "As a table"), this.#table);
    fill(
      this.element,
      html("h2", {}, "Settings and results"),
      html("div", { class: "toolbar" }, html("label", {}, html("span", { class: "label" }, "Result"), this.#up), html("label", {}, html("span", { class: "label" }, "against"), this.#across)),
      this.#brush, this.#drawings, this.#rest, behind,
    );
  }

  update(runs: readonly Run[]): void {
    this.#runs = runs.slice(0, MOST_RUNS);
    const { settings, results } = fieldsOf(this.#runs);
    const left = [runs.length > MOST_RUNS && counted(runs.length - MOST_RUNS, "run"), settings.length > MOST_AXES - 1 && counted(settings.length - MOST_AXES + 1, "setting")].filter(Boolean);
    this.#rest.textContent = `${left.join(" and ")} more have no line here.`;
    this.#rest.hidden = left.length === 0;
    this.element.hidden = this.#runs.length < 2 || results.length === 0 || settings.length + results.length < 2;
    if (this.element.hidden) return;
    const names = JSON.stringify([settings, results]);
    if (names !== this.#names) {
      this.#names = names;
      choices(this.#up, results);
      choices(this.#across, [...settings, ...results.slice(1), results[0]!]);
    }
    this.#draw();
  }

  #draw(): void {
    const [x, y] = [scaleOf(this.#runs, this.#across.value), scaleOf(this.#runs, this.#up.value)];
    // The result is what the lines are about: each has its colour.
    this.#tints = colouringOf(this.#runs, this.#up.value).looks;
    const { settings } = fieldsOf(this.#runs);
    const axes = [...settings.slice(0, MOST_AXES - 1).map((id) => scaleOf(this.#runs, id)), y];
    fill(this.#scatter, fitted((width) => this.#points(x, y, width)));
    fill(this.#lines, axes.length > 2 && fitted((width) => this.#parallel(axes, width), LINES.left + LINES.right + (axes.length - 1) * LEAST_APART));
    this.#sayBrushed(axes);
    this.#lines.hidden = axes.length <= 2;
    this.#drawings.classList.toggle("is-long", axes.length > SHORT_AXES);
    const shown = [...new Map([x, ...axes].map((scale) => [scale.id, scale])).values()];
    const path = this.#runs.some(isNamed) ? [(run: Run) => plain(run.id, 80)] : [];
    const rows = this.#runs.map((run) => [html("a", { href: `#run/${encodeURIComponent(run.id)}` }, nameOf(run)), ...path.map((text) => text(run)), ...shown.map(({ id }) => cell(run, id))]);
    fill(this.#table, dataTable(["run", ...path.map(() => "path"), ...shown.map(({ title }) => title)], rows));
  }

  /** Returns the runs that are within every range that was marked on an axis. */
  #within(axes: readonly Scale[]): Run[] {
    const marked = axes.flatMap((scale) => (this.#brushed.has(scale.id) ? [{ scale, range: this.#brushed.get(scale.id)! }] : []));
    return this.#runs.filter((_, at) => marked.every(({ scale, range: [low, high] }) => scale.values[at] !== null && scale.values[at]! >= low && scale.values[at]! <= high));
  }

  #sayBrushed(axes: readonly Scale[]): void {
    const isMarked = axes.some(({ id }) => this.#brushed.has(id));
    this.#brush.hidden = !isMarked;
    if (!isMarked) return;
    const runs = this.#within(axes);
    fill(
      this.#brush,
      html("p", { class: "count" }, `${counted(runs.length, "run")} within what is marked`),
      runs.length > 0 && button("Select these", { class: "button" }, () => {
        this.#brushed.clear();
        this.store.update({ selected: runs.map(({ id }) => id) });
      }),
      button("Clear marks", { class: "button" }, () => {
        this.#brushed.clear();
        this.#draw();
      }),
    );
  }

  /** Marks a range of an axis while the pointer is dragged along it; a click takes the mark away. */
  #dragged(event: PointerEvent, drawing: SVGSVGElement, { id, range }: Scale): void {
    const { height, top, bottom } = LINES;
    // News of a run may replace the drawing before the pointer is up: one that is not on the page has no place.
    const edge = drawing.getBoundingClientRect().top;
    const place = ({ clientY }: PointerEvent) => valueAt(range, height - bottom, -(height - top - bottom), Math.min(Math.max(clientY - edge, top), height - bottom));
    const start = place(event);
    const end = (last: PointerEvent) => {
      const [low, high] = [Math.min(start, place(last)), Math.max(start, place(last))];
      if (Math.abs(last.clientY - event.clientY) < LEAST_DRAG) this.#brushed.delete(id);
      else this.#brushed.set(id, [low, high]);
      this.#draw();
    };
    event.preventDefault();
    window.addEventListener("pointerup", end, { once: true });
  }

  #points(x: Scale, y: Scale, width: number): SVGSVGElement {
    const { height, left, right, top, bottom } = SCATTER;
    const [across, up] = [placer(x.range, left, width - left - right), placer(y.range, height - bottom, -(height - top - bottom))];
    const grid = y.marks.map(({ value, text }) => svg("g", {}, svg("line", { class: "grid-line", x1: left, x2: width - right, y1: up(value), y2: up(value) }), svg("text", { x: left - 8, y: up(value) + 4, "text-anchor": "end" }, text)));
    const below = x.marks.map(({ value, text }) => svg("text", { x: across(value), y: height - 28, "text-anchor": "middle" }, text));
    const titles = [svg("text", { class: "axis-title", x: 12, y: 18 }, plain(y.title, 40)), svg("text", { class: "axis-title", x: width - right, y: height - 9, "text-anchor": "end" }, plain(x.title, 40))];
    const dots = this.#runs.map((run, at) => {
      const [px, py] = [x.values[at], y.values[at]];
      if (px === null || py === null || px === undefined || py === undefined) return null;
      return this.#link(run, at, [svg("circle", { class: `fill-${this.store.look(run.id).colour}`, cx: across(px), cy: up(py), r: 6 })], `${x.title} ${cell(run, x.id)}, ${y.title} ${cell(run, y.id)}`);
    });
    const label = `${y.title} against ${x.title} of ${counted(this.#runs.length, "run")}`;
    return svg("svg", { class: "drawing scatter", width, height, role: "group", "aria-label": label }, ...grid, ...below, ...titles, ...dots);
  }

  #parallel(axes: readonly Scale[], width: number): SVGSVGElement {
    const { height, left, right, top, bottom } = LINES;
    const at = (index: number) => left + (index * (width - left - right)) / (axes.length - 1);
    const places = axes.map(({ range }) => placer(range, height - bottom, -(height - top - bottom)));
    const columns = axes.map(({ title, marks }, index) =>
      svg(
        "g", {},
        svg("line", { class: "axis-line", x1: at(index), x2: at(index), y1: top, y2: height - bottom }),
        svg("text", { class: "axis-title", x: at(index), y: 18, "text-anchor": index === 0 ? "start" : index === axes.length - 1 ? "end" : "middle" }, svg("title", {}, plain(title)), cutMiddle(plain(title))),
        ...marks.map(({ value, text }) => svg("text", { x: at(index) + (index === axes.length - 1 ? 7 : -7), y: places[index]!(value) + 4, "text-anchor": index === axes.length - 1 ? "start" : "end" }, text)),
      ),
    );
    const kept = new Set(this.#within(axes));
    const grips = axes.map((scale, index) => {
      const range = this.#brushed.get(scale.id);
      const ends = range?.map(places[index]!);
      const grip = svg("rect", { class: "axis-grip", x: at(index) - 11, y: top, width: 22, height: height - top - bottom }, svg("title", {}, `Drag along ${plain(scale.title, 40)} to mark runs; a click takes the mark away`));
      grip.addEventListener("pointerdown", (event) => this.#dragged(event as PointerEvent, (grip as SVGElement).ownerSVGElement!, scale));
      return svg("g", {}, ends && svg("rect", { class: "axis-marked", x: at(index) - 6, y: Math.min(...ends), width: 12, height: Math.max(Math.abs(ends[0]! - ends[1]!), 2) }), grip);
    });
    const runs = this.#runs.map((run, index) => {
      const points = axes.flatMap(({ values }, axis) => (values[index] === null ? [] : [{ axis, text: `${at(axis).toFixed(1)},${places[axis]!(values[index]!).toFixed(1)}` }]));
      const kind = kept.has(run) ? "line-of-run" : "line-of-run is-dim";
      const shape = (text: string, extra: string) => {
        const line = svg("polyline", { class: kind + extra, points: text }) as SVGPolylineElement;
        line.style.stroke = this.#tints.get(run.id)?.tint ?? "";
        return line;
      };
      // An axis on which the run has no value is crossed by dashes: a line there would be read as one.
      const isNext = (place: number) => place > 0 && points[place]!.axis === points[place - 1]!.axis + 1;
      const starts = [...points.keys()].filter((place) => !isNext(place));
      const whole = starts.map((start, part) => points.slice(start, starts[part + 1] ?? points.length)).filter(({ length }) => length > 1);
      const across = starts.filter((start) => start > 0).map((start) => points.slice(start - 1, start + 1));
      const textOf = (part: typeof points) => part.map(({ text }) => text).join(" ");
      const lines = [...whole.map((part) => shape(textOf(part), "")), ...across.map((part) => shape(textOf(part), " is-absent"))];
      return points.length < 2 ? null : this.#link(run, index, lines, axes.map(({ id, title }) => `${title} ${cell(run, id)}`).join(", "));
    });
    return svg("svg", { class: "drawing parallel", width, height, role: "group", "aria-label": `Settings and result of ${counted(this.#runs.length, "run")} as parallel coordinates` }, ...runs, ...columns, ...grips);
  }

  #link(run: Run, at: number, shapes: SVGElement[], text: string): SVGElement {
    const name = `${nameOf(run)}: ${text}`;
    return svg("a", { class: "run-mark", href: `#run/${encodeURIComponent(run.id)}`, tabindex: at < MOST_FOCUSED ? 0 : -1, "aria-label": name }, svg("title", {}, name), ...shapes);
  }
}

/** Returns a title whose middle is cut: the whole one is under the pointer. */
function cutMiddle(text: string): string {
  const letters = [...text];
  const end = Math.floor((MOST_LETTERS - 1) / 2);
  return letters.length <= MOST_LETTERS ? text : `${letters.slice(0, MOST_LETTERS - 1 - end).join("")}…${letters.slice(letters.length - end).join("")}`;
}

function cell(run: Run, id: string): string {
  const value = fieldOf(run, id) ?? null;
  return value === null ? "none" : typeof value === "number" ? short(value) : valueText(value as string, 40);
}

function choices(select: HTMLSelectElement, ids: readonly string[]): void {
  const before = select.value;
  fill(select, ...ids.map((id) => html("option", { value: id }, columnOf(id)?.title ?? plain(id))));
  if (ids.includes(before)) select.value = before;
}
