/** One chart: a metric of the shown runs over each other. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { type Curve, curveOf } from "../frames.js";
import type { Axis, Frame, Run } from "../protocol.js";
import { show } from "../run/raw-line.js";
import { MOST_COLOURED, type Store } from "../store.js";
import { counted, grouped, plain, short } from "../text.js";
import type { ViewState } from "../view-state.js";
import { Crowd } from "./crowd.js";
import type { Cursor, Pointing } from "./cursor.js";
import { draw, drawCursor, type Manner, spikeLine, STRIP, tickedOf } from "./drawing.js";
import { placedBy } from "./defined-steps.js";
import { addToEnvelope, differences, emptyEnvelope, type Envelope, grouped as groupedSeries, isGroup, SECOND } from "./grouping.js";
import { type Anomaly, anomaliesOf, spikesOf, wideMarks } from "./anomalies.js";
import type { Colouring } from "./colouring.js";
import { type PlacedFlag, placeOf } from "./flags.js";
import { Growing } from "./growing.js";
import { drawNames, endNames } from "./end-names.js";
import { exportMenu } from "./exporting.js";
import { Curves, type Queue } from "./loading.js";
import { asRange, onlyShown, rankId, RelativeCurves, type Relatives, severalRanks, withOtherRanks } from "./relatives.js";
import { type Box, drawn, type Flag, hasPositive, leavingOf, nearest, placers, type Plot, type Range, type Series, valueRange, wholeRange } from "./plot.js";
import { Gestures } from "./gestures.js";
import { averageBefore, smoothedOnce } from "./smoothing.js";
import { colours } from "./theme.js";
import { placeText } from "./ticks.js";
import { anomalyText, Tooltip } from "./tooltip.js";
import { nameOf } from "../names.js";

/** What charts have in common. */
export interface Setting {
  store: Store;
  queue: Queue;
  pointing: Pointing;
  /** Runs to show instead of those that the store shows. */
  only?: Run;
  /** The ranks of the one run that is shown, and those that it was forked from. */
  relatives?: () => Relatives;
  /** Notes and findings of that run, or of those that are selected. */
  flags?: () => readonly PlacedFlag[];
}

/** Repaints while curves arrive are this far apart, in ms. */
const ARRIVAL_MS = 120;
/** While curves arrive, the pause between two repaints is at least so many times as long as a repaint: a page has several charts. */
const PAUSES = 30;
/** A range is asked for after it has stayed the same for so long, in ms. */
const PAUSE_MS = 90;
/** Pixels within which a mark is pointed at. */
const NEAR = 8;
/** The table for screen readers follows the picture after a pause, in ms. */
const DESCRIBE_MS = 250;
/** Buckets that a server keeps of a curve. */
const MOST_KEPT = 2048;
/** A mark that is wider has no exact place yet, in pixels; of so many the places are asked for at once. */
const [WIDE_MARK, MOST_REFINED] = [2, 100];
/** The marks of each curve whose exact places were asked for. */
const REFINED = new WeakMap<Curve, Set<string>>();
/** Further metrics that a chart offers. */
const MOST_OFFERED = 500;
const MARGIN = { left: 58, right: 14, top: 8, bottom: 36 };

/** Returns the metric over which another one of a run is drawn: *over*, or the one that counts its steps. */
function stepName({ metrics }: Run, metric: string, over: string): string | undefined {
  const name = over !== "" ? over : Object.hasOwn(metrics, metric) ? metrics[metric]!.step_name : undefined;
  return name !== undefined && Object.hasOwn(metrics, name) ? name : undefined;
}

/** A single point of a curve. */
export interface Point {
  place: number;
  value: number;
  nan: number;
}

export class Chart {
  readonly element: HTMLElement;
  plot: Plot | null = null;
  private heights: readonly [number, number] | null = null;
  /** What is marked under the pointer. */
  anomaly: Anomaly | null = null;
  isSeen = false;
  readonly #canvas = html("canvas", { class: "chart-canvas", "aria-hidden": "true" });
  readonly #overlay = html("canvas", { class: "chart-overlay", tabindex: 0, role: "img" });
  readonly #note = html("p", { class: "chart-note", hidden: true });
  readonly #table = html("div", { class: "unseen" });
  readonly #area = html("div", { class: "chart-area" }, this.#canvas, this.#overlay, this.#note);
  readonly #tooltip = new Tooltip(this.#area);
  readonly #line = html("div", { class: "chart-line", role: "status" });
  readonly #crowd = new Crowd();
  readonly #envelope = new Growing<Envelope>();
  readonly #curves: Curves;
  #second: { metric: string; curves: Curves } | null = null;
  /** Metrics that count the steps of the one that is drawn. */
  readonly #counters = new Map<string, Curves>();
  /** The curves of other ranks of several runs, by metric. */
  readonly #others = new Map<string, Curves>();
  /** The curves of relatives, by metric. */
  readonly #relatives = new Map<string, RelativeCurves>();
  /** Names the curves that leave the field, and shows or folds them. */
  readonly #pill = button("", { class: "chart-pill", hidden: true }, () => this.#turnField());
  readonly #choice = html("select", { class: "field", "aria-label": "Second metric" });
  readonly #pin: HTMLButtonElement;
  #offered = -1;
  private isRefining = false;
  #size = { width: 0, height: 0, ratio: 0 };
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paintsAt = 0;
  #lastPaint = -Infinity;
  /** How long the last picture took to draw, in ms. */
  #paintTime = 0;
  #frame = 0;
  #lastState: ViewState | null = null;
  #pause: ReturnType<typeof setTimeout> | undefined;
  /** Null before curves were asked for. */
  #wantedRange: string | null = null;
  #description: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly metric: string,
    private readonly setting: Setting,
    readonly isLarge = false,
  ) {
    const { store } = setting;
    this.#curves = this.#curvesOf(metric);
    this.#choice.addEventListener("change", () => store.update({ also: this.#choice.value }));
    this.#overlay.setAttribute("aria-label", `${plain(metric)}, not drawn yet.`);
    const enlarge = button(isLarge ? "Close" : "Enlarge", { class: "plain chart-enlarge", "aria-label": isLarge ? "Close, back to all charts" : `Enlarge ${plain(metric)}` }, () =>
      store.update({ focus: isLarge ? "" : metric }),
    );
    this.#pin = button("Pin", { class: "plain chart-pin" }, () => this.#togglePin());
    const head = html("figcaption", { class: "chart-head" }, html("h3", { title: plain(metric, 1000) }, plain(metric)), isLarge && html("label", { class: "chart-also" }, html("span", { class: "label" }, "with"), this.#choice), this.#pill, this.#pin, exportMenu(this), enlarge);
    this.element = html("figure", { class: isLarge ? "chart chart-large" : "chart" }, head, this.#area, this.#line, this.#table);
    new Gestures(this.#overlay, this);
    new ResizeObserver(() => this.#resize()).observe(this.#area);
  }

  get colouring(): Colouring | null {
    return this.setting.only ? null : this.setting.store.colouring;
  }

  get state(): ViewState {
    return this.setting.store.state;
  }

  get pointing(): Pointing {
    return this.setting.pointing;
  }

  zoom(range: readonly [number, number] | null): void {
    if (range === null && this.heights) this.zoomValues(null);
    this.setting.store.update({ zoom: range }, { isSmall: true });
  }

  /** Shows a range of the axis y; null for all values. It is of this chart alone: metrics have no common range. */
  zoomValues(range: readonly [number, number] | null): void {
    this.heights = range;
    this.repaint();
  }

  /** The whole range of x, however close the chart looks. */
  whole(): Range | null {
    return wholeRange(this.#series(), this.state.logX);
  }

  manner(): Manner {
    return { axis: this.state.x, colours: colours(), hovered: this.#hovered, ratio: this.#size.ratio, isColoured: this.colouring !== null, font: "system-ui, sans-serif", size: 11 };
  }

  /** The id of the series that is pointed at: of a run with ranks, their mean. */
  get #hovered(): string | null {
    const { run } = this.pointing;
    return (run !== null && this.plot?.series.find(({ rankOf, run: { id } }) => rankOf?.id === run && id !== run)?.run.id) || run;
  }

  /** Returns what is marked at a point: in the strip below, or a spike in the chart. */
  anomalyAt(x: number, y: number): Anomaly | null {
    const { plot } = this;
    if (!plot) return null;
    const { box } = plot;
    const { across, down } = placers(plot);
    const isInStrip = y > box.top + box.height && y <= box.top + box.height + STRIP.top + STRIP.height + 2;
    let [found, least]: [Anomaly | null, number] = [null, NEAR];
    for (const series of [...plot.background, ...plot.series]) {
      if (isGroup(series.run)) continue;
      for (const anomaly of anomaliesOf(series, plot.x, plot.y.isLog)) {
        const { from, to, spike } = anomaly;
        const beside = Math.max(0, across(from) - x, x - across(to));
        const line = spike && spikeLine(plot, series, spike, { y: down, hovered: this.#hovered });
        const above = isInStrip ? 0 : line ? Math.max(0, line[0] - y, y - line[1]) : Infinity;
        const distance = Math.hypot(beside, above);
        if (distance < least) [found, least] = [anomaly, distance];
      }
    }
    return found;
  }

  /** Says what is marked, and shows the line of the log of a gap or an alert. */
  async chooseAnomaly(anomaly: Anomaly): Promise<void> {
    const { store } = this.setting;
    const { series: { run, kin, rankOf }, line } = anomaly;
    const link = html("a", { href: `#run/${encodeURIComponent(kin === "rank" ? (rankOf ?? this.one!).id : run.id)}` }, nameOf(run));
    const said = html("p", { class: "count" }, link, `: ${anomalyText(anomaly, this.state.x)}`, line && `, line ${grouped(line.line)}`);
    const text = html("pre", { class: "raw", tabindex: 0 });
    const isAtHand = line !== undefined && store.backend.kind !== "embedded";
    fill(this.#line, said, isAtHand && text);
    if (isAtHand) await show(store, { run: run.id, file: "", ...line }, text);
  }

  /** Returns the single points of a run in a range; null where the back end has only buckets. */
  async pointsOf({ run, metric, axis }: { run: string; metric: string; axis: Axis }, range: { from: number; to: number }): Promise<Point[] | null> {
    let found: Point[] | null = null;
    const take = (frame: Frame) => {
      const curve = frame.header.attempt === "latest" ? curveOf(frame, axis) : null;
      if (curve?.header.level === 1) found = [...curve.place.keys()].map((at) => ({ place: curve.place[at]!, value: curve.mean[at]!, nan: curve.nan[at]! }));
    };
    await this.setting.store.backend.curves({ metric, runs: [run], axis, buckets: 2 * MOST_KEPT, ...range }, take, new AbortController().signal);
    return found;
  }

  /** Shows or hides: a chart that is not seen gets no curves. */
  see(isSeen: boolean): void {
    this.isSeen = isSeen;
    if (!isSeen) return;
    // The size is known before the observer reports it.
    if (this.#size.width === 0) this.#resize();
    this.update();
    this.repaint();
  }

  drop(): void {
    for (const curves of this.#all) curves.drop();
  }

  get #all(): Curves[] {
    return [this.#curves, ...(this.#second ? [this.#second.curves] : []), ...this.#counters.values(), ...this.#others.values(), ...[...this.#relatives.values()].flatMap(({ all }) => all)];
  }

  #relativesOf(metric: string): RelativeCurves | null {
    const { relatives } = this.setting;
    if (!relatives) return null;
    const found = this.#relatives.get(metric) ?? new RelativeCurves(relatives, () => this.#curvesOf(metric));
    this.#relatives.set(metric, found);
    return found;
  }

  grow(run: string): void {
    for (const curves of this.#all) curves.grow(run);
    if (this.isSeen) this.#want();
  }

  /** The second metric, "" for none. */
  get also(): string {
    return this.isLarge ? this.state.also : "";
  }

  /** Puts the chart before the others, or back. */
  #togglePin(): void {
    const { pins } = this.state;
    this.setting.store.update({ pins: pins.includes(this.metric) ? pins.filter((name) => name !== this.metric) : [...pins, this.metric] }, { isSmall: true });
  }

  /** Fetches what is missing and repaints; while curves arrive, a change of the runs alone waits for the next picture of them. */
  update(): void {
    const isPinned = this.state.pins.includes(this.metric);
    this.#pin.textContent = isPinned ? "Unpin" : "Pin";
    this.#pin.title = isPinned ? "Put the chart back into its section" : "Put the chart before the others";
    this.#pin.setAttribute("aria-label", `${this.#pin.textContent} ${plain(this.metric)}`);
    if (!this.isSeen || this.#size.width === 0) return;
    this.#updateSecond();
    this.#wantSoon();
    if (this.#curves.isLoading && this.#lastState === this.state) this.#repaintSoon(this.#afterPause);
    else this.repaint();
    this.#lastState = this.state;
  }

  /** Waits until the range stays for a moment: while it is dragged, what is there is drawn. */
  #wantSoon(): void {
    const range = String(this.state.zoom);
    clearTimeout(this.#pause);
    if (this.#wantedRange === null || range === this.#wantedRange) this.#want();
    else this.#pause = setTimeout(() => this.#want(), PAUSE_MS);
  }

  /** Repaints the cursor. */
  point(): void {
    if (!this.isSeen || !this.plot) return;
    const pen = this.#overlay.getContext("2d")!;
    pen.clearRect(0, 0, this.#size.width, this.#size.height);
    const { cursor } = this.pointing;
    if (!cursor) {
      this.#tooltip.hide();
      return;
    }
    const dots = this.dots(cursor);
    const isOwn = cursor.metric === this.metric;
    drawCursor(pen, this.plot, this.manner(), { place: cursor.place, dots: isOwn || this.plot.series.length <= 12 ? dots : [] });
    if (isOwn) this.#tooltip.show({ plot: this.plot, axis: this.state.x, cursor, dots, hovered: this.pointing.run, isColoured: this.colouring !== null, anomaly: this.anomaly });
    else this.#tooltip.hide();
  }

  /** The bucket of each run that is next to a cursor. */
  dots(cursor: Cursor): { series: Series; at: number }[] {
    const { x } = this.plot!;
    const hasMeans = this.plot!.series.some(({ run }) => isGroup(run));
    return this.plot!.series.flatMap((series) => {
      if (hasMeans && series.isQuiet && !isGroup(series.run)) return [];
      const at = nearest(series.curve, cursor.place - series.shift);
      const place = at < 0 ? NaN : series.curve.place[at]! + series.shift;
      return place >= x.from && place <= x.to ? [{ series, at }] : [];
    });
  }

  #updateSecond(): void {
    const { also } = this;
    if (this.isLarge) this.#offerSecond();
    if (also === (this.#second?.metric ?? "")) return;
    this.#second?.curves.drop();
    this.#second = also === "" || also === this.metric ? null : { metric: also, curves: this.#curvesOf(also) };
    this.#want();
  }

  /** Lists the other metrics, those that end in the same words first: `val/loss` beside `loss`. */
  #offerSecond(): void {
    const { also } = this;
    const names = new Set((this.setting.only ? [this.setting.only] : this.setting.store.shown).flatMap(({ metrics }) => Object.keys(metrics)));
    if (names.size === this.#offered && this.#choice.value === also) return;
    this.#offered = names.size;
    names.delete(this.metric);
    if (also !== "") names.add(also);
    const tail = (name: string) => name.split(/[/_.]/).at(-1);
    const order = [...names].sort((a, b) => Number(tail(b) === tail(this.metric)) - Number(tail(a) === tail(this.metric)) || (a < b ? -1 : 1));
    fill(this.#choice, html("option", { value: "" }, "no other metric"), ...order.slice(0, MOST_OFFERED).map((name) => html("option", { value: name }, plain(name, 60))));
    this.#choice.value = also;
  }

  #curvesOf(metric: string): Curves {
    const { store, queue } = this.setting;
    return new Curves(metric, store.backend, queue, {
      arrived: ({ latest }, isWhole) => {
        // Found while the page waits for the next ones, and not when all are painted.
        if (latest && this.state.group === "") spikesOf(latest, this.state.logY);
        this.#repaintSoon(isWhole ? performance.now() : this.#afterPause);
      },
      finished: () => {
        if (this.isSeen) this.#want();
        this.#repaintSoon(this.#lastPaint + ARRIVAL_MS);
      },
    });
  }

  get #afterPause(): number {
    return performance.now() + Math.max(ARRIVAL_MS, PAUSES * this.#paintTime);
  }

  private get runs(): readonly Run[] {
    const { only, store } = this.setting;
    const runs = only ? [only] : this.isCrowded ? store.shownOverAll : store.shown;
    return runs.filter(({ metrics, left_out }) => Object.hasOwn(metrics, this.metric) || (this.#second && Object.hasOwn(metrics, this.#second.metric)) || left_out.metrics > 0);
  }

  /** True where runs are so many that those which are not selected are background. */
  private get isCrowded(): boolean {
    return !this.setting.only && this.setting.store.isCrowded;
  }

  #want(): void {
    const { zoom } = this.state;
    this.#wantedRange = String(zoom);
    const { runs } = this;
    // A bucket is at most two pixels wide. More than are kept for each curve are read from the logs, which takes long for many runs.
    const pixels = Math.max(64, Math.round(this.#size.width - MARGIN.left));
    const buckets = runs.length <= 10 ? pixels : Math.min(pixels, MOST_KEPT);
    const { axis } = this;
    // The starts of runs differ: a range of the wall clock is none of the time since the start. Nor is one of other steps.
    const range = this.state.x === "wall" || this.state.x === "defined" ? null : zoom;
    if (this.state.x === "defined") this.#findCounters(runs);
    const own = [this.#curves, ...(this.#second ? [this.#second.curves] : []), ...this.#counters.values()];
    for (const curves of own) curves.want({ runs: runs.map(({ id }) => id), axis, buckets, range });
    for (const metric of this.#drawnMetrics) this.#relativesOf(metric)?.want({ axis, buckets, range }, this.state.ranks);
    const ranked = this.#ranked;
    if (ranked.length === 0) return;
    for (const metric of this.#drawnMetrics) {
      const others = this.#others.get(metric) ?? this.#curvesOf(metric);
      this.#others.set(metric, others);
      others.want({ runs: ranked.flatMap((run) => run.other_ranks!.map((rank) => rankId(run, rank))), axis, buckets, range });
    }
  }

  /** Those of several runs whose other ranks are drawn. */
  get #ranked(): readonly Run[] {
    if (this.one || this.setting.only || this.state.x === "defined") return [];
    const { runs, areDrawn } = severalRanks(this.runs, this.state, this.isCrowded);
    return areDrawn ? runs : [];
  }

  get #drawnMetrics(): string[] {
    return [this.metric, ...(this.#second ? [this.#second.metric] : [])];
  }

  #findCounters(runs: readonly Run[]): void {
    const names = new Set(runs.flatMap((run) => this.#drawnMetrics.flatMap((metric) => stepName(run, metric, this.state.over) ?? [])));
    for (const name of names) if (!this.#counters.has(name)) this.#counters.set(name, this.#curvesOf(name));
  }

  /** Puts a curve by step at the values of the metric that counts its steps, where the run defines one; null until that is there. */
  #placed(curve: Curve, run: Run, metric: string): Curve | null {
    const name = this.state.x === "defined" ? stepName(run, metric, this.state.over) : undefined;
    if (name === undefined) return this.state.over === "" ? curve : null;
    const counter = this.#counters.get(name)?.pair(run.id)?.latest;
    return counter ? placedBy(curve, counter) : null;
  }

  #resize(): void {
    const { clientWidth: width, clientHeight: height } = this.#area;
    const ratio = window.devicePixelRatio || 1;
    if (width === this.#size.width && height === this.#size.height && ratio === this.#size.ratio) return;
    this.#size = { width, height, ratio };
    for (const canvas of [this.#canvas, this.#overlay]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext("2d")!.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.update();
    // What was drawn is gone now.
    this.repaint();
  }

  /** Repaints at *time* on the clock of the page, or sooner if that was asked for before. */
  #repaintSoon(time: number): void {
    if (this.#timer !== undefined && this.#paintsAt <= time) return;
    clearTimeout(this.#timer);
    this.#paintsAt = time;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.repaint();
    }, Math.max(0, time - performance.now()));
  }

  /** Repaints with the next frame. */
  repaint(): void {
    if (!this.isSeen || this.#frame !== 0) return;
    // For tests: whether another picture comes, each of which is described.
    this.#canvas.dataset["busy"] = "true";
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const began = performance.now();
      this.#paint();
      // A picture without curves puts off none with them.
      if (this.plot) this.#lastPaint = performance.now();
      this.#paintTime = performance.now() - began;
    });
  }

  #paint(): void {
    const { width, height } = this.#size;
    if (width === 0) return;
    const box = { left: MARGIN.left, top: MARGIN.top, width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const pen = this.#canvas.getContext("2d")!;
    pen.clearRect(0, 0, width, height);
    const manner = this.manner();
    pen.font = `${manner.size}px ${manner.font}`;
    const unnamed = this.plotIn(box);
    const names = unnamed && endNames(pen, unnamed);
    const plot = (this.plot = names ? this.plotIn({ ...box, width: box.width - names.room }) : unnamed);
    const { ratio } = this.#size;
    if (plot) draw(pen, plot, manner, (series, how) => this.#crowd.draw(pen, series, plot, { ...how, ratio }));
    if (plot && names) drawNames(pen, plot, names, manner);
    this.#sayWhatIsDrawn();
    this.#sayWhatIsMissing();
    this.#sayWhatLeaves();
    // Curves that keep arriving must not put it off.
    this.#description ??= setTimeout(() => {
      this.#description = undefined;
      this.#describe();
      const isBusy = this.#frame !== 0 || this.#timer !== undefined || this.isRefining || this.#all.some(({ isLoading }) => isLoading);
      this.#canvas.dataset["busy"] = String(isBusy);
    }, DESCRIBE_MS);
    this.point();
    void this.#refine();
  }

  /** Looks for the exact places of what is marked over more than two pixels: of many runs on a wide page, buckets are wider. */
  async #refine(): Promise<void> {
    const { plot, isRefining } = this;
    const { backend } = this.setting.store;
    if (!plot || isRefining || backend.kind === "embedded" || this.state.x === "defined") return;
    const { across } = placers(plot);
    const marks = [...plot.background, ...plot.series].filter(({ run }) => !isGroup(run)).flatMap((series) =>
      wideMarks(series.curve, plot.y.isLog, (from, to) => {
        const [left, right] = [across(from + series.shift), across(to + series.shift)];
        return right - left > WIDE_MARK && right >= plot.box.left && left <= plot.box.left + plot.box.width;
      }).map((mark) => ({ mark, series })).filter(({ mark }) => !REFINED.get(series.curve)?.has(mark.key)));
    // For tests: whether the exact places of all marks are known.
    Object.assign(this.#canvas.dataset, { marks: String(marks.length) });
    if (marks.length === 0) return;
    this.isRefining = true;
    for (const { mark, series } of marks.slice(0, MOST_REFINED)) {
      const { curve, metric } = series;
      REFINED.set(curve, (REFINED.get(curve) ?? new Set()).add(mark.key));
      const take = (frame: Frame) => {
        const points = frame.header.attempt === "latest" ? curveOf(frame, curve.axis) : null;
        if (points && points.header.level < curve.header.level) mark.settle(points);
      };
      await backend.curves({ metric, runs: [curve.header.run], axis: curve.axis, buckets: MOST_KEPT, from: mark.from, to: mark.to }, take, new AbortController().signal).catch(() => undefined);
    }
    this.isRefining = false;
    this.repaint();
  }

  /** Returns what is drawn in a box; null while there is nothing. */
  plotIn(box: Box, ratio = this.#size.ratio): Plot | null {
    let series = this.#series();
    const { zoom, logX, logY, group, band, base } = this.state;
    const whole = wholeRange(series, logX);
    if (!whole) return null;
    const x = zoom ? { from: logX ? Math.max(zoom[0], whole.from) : zoom[0], to: zoom[1], isLog: logX } : whole;
    const span = whole.to - whole.from;
    if (this.state.smoothing > 0) for (const each of series) each.smooth = this.#smooth(each, span);
    if (base !== "" && !this.setting.only) series = differences(series, base);
    const { store } = this.setting;
    const { keys } = group === "" ? { keys: [] } : store.grouping;
    const look = (run: string) => store.look(run);
    if (group !== "" && !this.setting.only) series = [false, true].flatMap((isSecond) => {
      const own = series.filter((each) => each.isSecond === isSecond);
      return own.length > 0 ? groupedSeries(own, { keys, band, look }) : [];
    });
    const quiet = this.isCrowded && this.state.colour === "" ? series.filter(({ isQuiet, kin }) => isQuiet && kin === undefined) : [];
    const columns = Math.max(1, Math.round(box.width * ratio));
    const cells = { count: columns, cell: box.width / columns };
    const growing = { begin: () => emptyEnvelope(cells), add: (envelope: Envelope, added: readonly Series[]) => addToEnvelope(envelope, added, x) };
    const envelope = quiet.length === 0 ? null : this.#envelope.of([x.from, x.to, x.isLog, columns, box.width], quiet, growing);
    const found = leavingOf(series, x, logY);
    const leaving = found && { ...found, isFolded: !this.state.opened.includes(this.metric) };
    const all = leaving?.isFolded ? leaving.range : valueRange(series, x, logY);
    const { heights } = this;
    const y = heights && !(logY && heights[0] <= 0) ? { from: heights[0], to: heights[1], isLog: logY } : all;
    // Beside a selection the others are the envelope alone.
    const isApart = envelope !== null && this.state.selected.length > 0;
    const isRange = series.some(({ kin, isQuiet }) => kin === "rank" && isQuiet);
    const ranged = isRange ? asRange(series, this.setting.relatives?.().ranks?.slowest?.rank) : { series, background: [] };
    const shown = isApart ? ranged.series.filter(({ isQuiet }) => !isQuiet) : ranged.series;
    const background = isApart ? [...quiet, ...ranged.background] : ranged.background;
    const plot: Plot = { series: shown, envelope, background, ...(leaving && { leaving }), hasGroups: series.some(({ run }) => isGroup(run)), flags: this.#flags(), x, y, box };
    return { ...plot, ticked: tickedOf(plot, this.state.selected.length > 0) };
  }

  #flags(): Flag[] {
    const { x } = this.state;
    return (this.setting.flags?.() ?? []).flatMap((flag) => {
      const place = flag.metric === undefined || flag.metric === this.metric ? placeOf(flag, x) : null;
      return place === null ? [] : [{ kind: flag.kind, text: flag.text, place }];
    });
  }

  #series(): Series[] {
    const { store, only } = this.setting;
    const { runs, one } = this;
    const { isCrowded } = this;
    const isWall = this.state.x === "wall";
    const all = [{ metric: this.metric, curves: this.#curves }, ...(this.#second ? [this.#second] : [])];
    const own = all.flatMap(({ metric, curves }, at) => runs.flatMap((run): Series[] => {
      const pair = curves.pair(run.id);
      const shift = isWall ? Date.parse(run.started_at ?? "") / 1000 : 0;
      const curve = pair?.latest && this.#placed(pair.latest, run, metric);
      if (!pair || !curve || Number.isNaN(shift)) return [];
      const [look, isSecond] = [only ? { colour: 0, dash: [] } : store.look(run.id), at > 0];
      return [{ run, metric, isSecond, look: isSecond ? SECOND(look) : look, isQuiet: isCrowded && !store.isSelected(run.id), curve, abandoned: pair.abandoned && this.#placed(pair.abandoned, run, metric), smooth: null, shift }];
    }));
    // By another metric's steps, ranks and forks have no place.
    if (this.#ranked.length > 0) return withOtherRanks(own, (name, id) => this.#others.get(name)?.pair(id), this.state.ranks);
    if (!one || this.state.x === "defined") return own;
    const beside = all.flatMap(({ metric }, at) => {
      const ofOne = own.filter(({ isSecond, run }) => isSecond === at > 0 && run.id === one.id);
      return this.#relativesOf(metric)!.beside(ofOne, one, { metric, isSecond: at > 0, axis: this.axis, manner: this.state.ranks });
    });
    return [...own.filter(({ run }) => run.id !== one.id), ...beside];
  }

  /** The run whose relatives are drawn beside it: the only one that is shown. */
  private get one(): Run | null {
    const { only, relatives, store } = this.setting;
    return relatives === undefined ? null : (only ?? onlyShown(store));
  }

  /** The axis by which curves are asked for. */
  private get axis(): Axis {
    const { x } = this.state;
    return x === "wall" ? "time" : x === "defined" ? "step" : x;
  }

  #smooth({ curve, run, metric, isSecond }: Series, span: number): Float64Array {
    const { smoothing } = this.state;
    const whole = (isSecond ? this.#second!.curves : this.#curves).wholeOf(run.id) ?? this.#others.get(metric)?.wholeOf(run.id) ?? this.#relatives.get(metric)?.wholeOf(run.id) ?? null;
    const isPart = !curve.steps && whole !== null && whole !== curve && curve.length > 0;
    return smoothedOnce(curve, smoothing, span, isPart ? averageBefore(whole, curve.place[0]!, smoothing, span) : undefined);
  }

  /** Says at once, for tests and measurements, of how many runs and points the picture is. */
  #sayWhatIsDrawn(): void {
    const curves = this.runs.flatMap(({ id }) => this.#curves.pair(id)?.latest ?? []);
    this.#canvas.dataset["runs"] = String(curves.length);
    this.#canvas.dataset["points"] = String(curves.reduce((sum, { header }) => sum + header.points, 0));
    const { x, smoothing, group, logX, logY } = this.state;
    this.#canvas.dataset["manner"] = [x, smoothing, group, logX, logY].join();
    if (this.plot) this.#canvas.dataset["plot"] = JSON.stringify({ x: this.plot.x, y: this.plot.y, box: this.plot.box, hasTicks: this.plot.ticked!.size > 0 });
  }

  #sayWhatIsMissing(): void {
    const { error, isLoading } = this.#curves;
    const text = error !== "" ? error : this.plot ? this.#sayOfLog(this.plot) : isLoading ? "Loading …" : this.runs.length === 0 ? "No shown run has this metric." : `No values by ${this.state.x}.`;
    this.#note.textContent = text;
    this.#note.hidden = text === "";
  }

  /** Says how many curves leave the field, and to which side. */
  #sayWhatLeaves(): void {
    const leaving = this.plot?.leaving;
    this.#pill.hidden = leaving === undefined;
    if (!leaving) return;
    const { above, below, isFolded } = leaving;
    const curves = counted(above + below, "curve");
    this.#pill.textContent = isFolded ? `${curves} ${above + below === 1 ? "leaves" : "leave"} ${above > 0 ? "↑" : ""}${below > 0 ? "↓" : ""}` : `Fold ${curves}`;
    this.#pill.title = isFolded ? "Shows all values" : "";
  }

  /** Shows the curves that leave the field, or folds them. */
  #turnField(): void {
    const { opened } = this.state;
    this.setting.store.update({ opened: opened.includes(this.metric) ? opened.filter((name) => name !== this.metric) : [...opened, this.metric] }, { isSmall: true });
  }

  /** Says why a logarithmic axis shows nothing. */
  #sayOfLog({ series, x }: Plot): string {
    return this.state.logY && !hasPositive(series, x) ? "No value is above 0, as the logarithmic axis needs." : "";
  }

  /** Says in words and in a table what the chart shows. */
  #describe(): void {
    const all = this.plot?.series ?? [];
    const means = all.filter(({ run }) => isGroup(run));
    const series = means.length > 0 && this.plot!.hasGroups ? means : all;
    const ranks = new Set([...all, ...(this.plot?.background ?? [])].flatMap(({ kin, run }) => (kin === "rank" && !isGroup(run) ? [run.id] : []))).size;
    const ranked = new Set([...all, ...(this.plot?.background ?? [])].flatMap(({ rankOf }) => (rankOf ? [rankOf.id] : []))).size;
    const what = ranked > 0 ? `${counted(this.runs.length, "run")}, ${counted(ranks, "rank")} of ${ranked} of them` : ranks > 1 ? `${counted(ranks, "rank")} of 1 run` : counted(series.length, series === means ? "group" : "run");
    this.#overlay.setAttribute("aria-label", `${plain(this.metric)} by ${this.state.x}, ${what}. Arrow keys read values, plus and minus zoom, Escape shows everything.`);
    const rows = series.slice(0, MOST_COLOURED).map(({ run, curve }) => {
      const best = curve.header.best?.value;
      const end = curve.mean.findLast((value) => !Number.isNaN(value));
      const low = curve.min.reduce((least, value) => (value < least ? value : least), Infinity);
      const high = curve.max.reduce((most, value) => (value > most ? value : most), -Infinity);
      const cells = [end, best, low, high].map((value) => html("td", {}, value === undefined || !Number.isFinite(value) ? "–" : short(value)));
      return html("tr", {}, html("th", { scope: "row" }, nameOf(run)), ...cells);
    });
    const heads = ["run", "end", "best", "lowest", "highest"].map((text) => html("th", { scope: "col" }, text));
    fill(this.#table, html("table", {}, html("caption", {}, plain(this.metric)), html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...rows)));
  }

  /** Says for screen readers what is under the cursor. */
  read(cursor: Cursor): string {
    const values = this.dots(cursor).slice(0, 8).map(({ series, at }) => `${nameOf(series.run)} ${short(drawn(series, at))}`);
    return `${placeText(cursor.place, this.state.x)}: ${values.join(", ")}`;
  }
}
