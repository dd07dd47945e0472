/** What mouse, fingers and keys do on a chart. */

import type { Chart } from "./chart.js";
import { drawn, nearest, placers, type Range, valueAt } from "./plot.js";

/** A shorter drag is a click, in pixels. */
const LEAST_DRAG = 6;
const CLOSER = 0.5;
/** A drag up or down is at least so long, in pixels: a hand that drags to the side is not steady. */
const UPRIGHT = 20;

export class Gestures {
  private start: { x: number; y: number; range: Range; isPan: boolean } | null = null;
  readonly #fingers = new Map<number, number>();
  readonly #box = document.createElement("div");

  constructor(
    private readonly element: HTMLCanvasElement,
    private readonly chart: Chart,
  ) {
    this.#box.className = "chart-box";
    this.#box.hidden = true;
    element.parentElement!.append(this.#box);
    element.addEventListener("pointerdown", (event) => this.#down(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    element.addEventListener("pointerup", (event) => this.#up(event));
    element.addEventListener("pointercancel", (event) => this.#cancel(event));
    element.addEventListener("pointerleave", () => this.#leave());
    element.addEventListener("dblclick", () => chart.zoom(null));
    element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    element.addEventListener("keydown", (event) => this.#key(event));
    element.addEventListener("blur", () => chart.pointing.move(null));
  }

  #down(event: PointerEvent): void {
    const { plot } = this.chart;
    if (!plot || event.button !== 0) return;
    this.#fingers.set(event.pointerId, event.offsetX);
    if (event.pointerType === "touch") {
      this.#point(event);
      this.start = this.#fingers.size === 2 ? { x: event.offsetX, y: event.offsetY, range: plot.x, isPan: true } : null;
      return;
    }
    this.element.setPointerCapture(event.pointerId);
    this.start = { x: event.offsetX, y: event.offsetY, range: plot.x, isPan: event.shiftKey };
  }

  #move(event: PointerEvent): void {
    const { start } = this;
    if (!this.chart.plot) return;
    if (this.#fingers.size === 2) this.#pinch(event);
    else if (start?.isPan) this.#pan(start, event.offsetX - start.x);
    else if (start && isUpright(start, event)) this.#markValues(start.y, event.offsetY);
    else if (start) this.#mark(start.x, event.offsetX);
    if (!start?.isPan) this.#point(event);
  }

  #up(event: PointerEvent): void {
    const { start } = this;
    this.#cancel(event);
    if (!start || start.isPan || !this.chart.plot) return;
    if (isUpright(start, event)) {
      this.chart.zoomValues([Math.max(start.y, event.offsetY), Math.min(start.y, event.offsetY)].map((pixel) => this.#value(pixel)) as [number, number]);
      return;
    }
    if (Math.abs(event.offsetX - start.x) < LEAST_DRAG) {
      if (this.chart.anomaly) void this.chart.chooseAnomaly(this.chart.anomaly);
      return;
    }
    const [from, to] = [start.x, event.offsetX].sort((a, b) => a - b).map((pixel) => this.#place(pixel, start.range));
    this.chart.zoom([from!, to!]);
  }

  #cancel(event: PointerEvent): void {
    this.#fingers.delete(event.pointerId);
    this.start = null;
    this.#box.hidden = true;
  }

  #leave(): void {
    this.chart.anomaly = null;
    this.chart.pointing.move(null);
    this.chart.pointing.hover(null);
  }

  #place(pixel: number, range: Range): number {
    const { box } = this.chart.plot!;
    return valueAt(range, box.left, box.width, within(pixel, box.left, box.width));
  }

  #mark(from: number, to: number): void {
    const { left, width, top, height } = this.chart.plot!.box;
    this.#show([within(from, left, width), within(to, left, width)], [top, top + height]);
    this.#box.hidden = Math.abs(from - to) < LEAST_DRAG;
  }

  #value(pixel: number): number {
    const { box, y } = this.chart.plot!;
    return valueAt(y, box.top + box.height, -box.height, within(pixel, box.top, box.height));
  }

  #markValues(from: number, to: number): void {
    const { left, width, top, height } = this.chart.plot!.box;
    this.#show([left, left + width], [within(from, top, height), within(to, top, height)]);
  }

  /** Shows the box between pixels of both axes. */
  #show([x, right]: readonly [number, number], [y, bottom]: readonly [number, number]): void {
    this.#box.hidden = false;
    Object.assign(this.#box.style, { left: `${Math.min(x, right)}px`, width: `${Math.abs(right - x)}px`, top: `${Math.min(y, bottom)}px`, height: `${Math.abs(bottom - y)}px` });
  }

  #point(event: PointerEvent): void {
    const { plot, pointing, metric } = this.chart;
    if (!plot) return;
    const place = this.#place(event.offsetX, plot.x);
    pointing.move({ metric, place, pointer: { x: event.offsetX, y: event.offsetY } });
    this.chart.anomaly = this.chart.anomalyAt(event.offsetX, event.offsetY);
    pointing.hover(this.chart.anomaly?.series.run.id ?? this.#runAt(event.offsetX, event.offsetY, place));
  }

  /** Returns the run whose curve is next to a point, if it is close. */
  #runAt(x: number, y: number, place: number): string | null {
    const plot = this.chart.plot!;
    const { across, down } = placers(plot);
    let [run, least]: [string | null, number] = [null, 24];
    for (const series of plot.series) {
      const at = nearest(series.curve, place - series.shift);
      if (at < 0) continue;
      const distance = Math.hypot(down(drawn(series, at)) - y, across(series.curve.place[at]! + series.shift) - x);
      if (distance < least) [run, least] = [series.run.id, distance];
    }
    return run;
  }

  #pan({ range }: { range: Range }, pixels: number): void {
    const { box } = this.chart.plot!;
    this.chart.zoom([valueAt(range, box.left, box.width, box.left - pixels), valueAt(range, box.left, box.width, box.left + box.width - pixels)]);
  }

  #pinch(event: PointerEvent): void {
    const { plot } = this.chart;
    const before = [...this.#fingers.values()];
    this.#fingers.set(event.pointerId, event.offsetX);
    const now = [...this.#fingers.values()];
    const [was, is] = [Math.abs(before[0]! - before[1]!), Math.abs(now[0]! - now[1]!)];
    if (was > 10 && is > 10) this.#scale(was / is, (now[0]! + now[1]!) / 2, plot!.x);
  }

  #wheel(event: WheelEvent): void {
    const { plot } = this.chart;
    // Without a key the wheel scrolls the page.
    if (!plot || !(event.ctrlKey || event.metaKey || event.altKey)) return;
    event.preventDefault();
    this.#scale(Math.exp(Math.sign(event.deltaY) * 0.2), event.offsetX, plot.x);
  }

  /** Makes the range longer by a factor; the place at a pixel stays where it is. */
  #scale(factor: number, pixel: number, range: Range): void {
    const { box } = this.chart.plot!;
    const edge = (at: number) => valueAt(range, box.left, box.width, pixel + (at - pixel) * factor);
    this.#zoomWithin(edge(box.left), edge(box.left + box.width));
  }

  #zoomWithin(from: number, to: number): void {
    const whole = this.chart.whole();
    if (!whole || !(from < to)) return;
    if (from <= whole.from && to >= whole.to) this.chart.zoom(null);
    else this.chart.zoom([from, to]);
  }

  #key(event: KeyboardEvent): void {
    const { plot, pointing } = this.chart;
    if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { box, x } = plot;
    const at = pointing.cursor ? placers(plot).across(pointing.cursor.place) : box.left + box.width / 2;
    const moves: { [key: string]: () => void } = {
      ArrowLeft: () => (event.shiftKey ? this.#pan({ range: x }, box.width / 4) : this.#step(-1)),
      ArrowRight: () => (event.shiftKey ? this.#pan({ range: x }, -box.width / 4) : this.#step(1)),
      Home: () => this.#moveTo(x.from),
      End: () => this.#moveTo(x.to),
      "+": () => this.#scale(CLOSER, at, x),
      "=": () => this.#scale(CLOSER, at, x),
      "-": () => this.#scale(1 / CLOSER, at, x),
      Escape: () => this.chart.zoom(null),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    move();
  }

  /** Moves the cursor to the next point of the first curve. */
  #step(by: number): void {
    const plot = this.chart.plot!;
    const { pointing } = this.chart;
    const series = plot.series.find(({ run }) => run.id === pointing.run) ?? plot.series[0];
    if (!series) return;
    const { curve, shift } = series;
    const from = pointing.cursor ? nearest(curve, pointing.cursor.place - shift) + by : nearest(curve, (by > 0 ? plot.x.from : plot.x.to) - shift);
    const place = curve.place[Math.min(Math.max(from, 0), curve.length - 1)]! + shift;
    if (place >= plot.x.from && place <= plot.x.to) this.#moveTo(place);
  }

  #moveTo(place: number): void {
    const cursor = { metric: this.chart.metric, place, pointer: null };
    this.chart.pointing.move(cursor);
    announce(this.chart.read(cursor));
  }
}

/** Returns the pixel of a stretch that is next to another one. */
function within(pixel: number, start: number, length: number): number {
  return Math.min(Math.max(pixel, start), start + length);
}

/** Returns whether a drag goes up or down: then it marks a range of values. */
function isUpright(start: { x: number; y: number }, { offsetX, offsetY }: PointerEvent): boolean {
  const [across, along] = [Math.abs(offsetX - start.x), Math.abs(offsetY - start.y)];
  return along >= UPRIGHT && along > 3 * across;
}

/** Has a screen reader say something. */
export function announce(text: string): void {
  const place = document.getElementById("announcement");
  if (place) place.textContent = text;
}
