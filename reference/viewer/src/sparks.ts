/** Small curves of the runs in the table. */

import { html, svg } from "../../typescript/page/elements.js";
import type { Setting } from "./charts/chart.js";
import { Curves } from "./charts/loading.js";
import { placer } from "./charts/plot.js";
import type { Curve } from "./frames.js";
import type { Look } from "./palette.js";

/** Pixels of a curve, and its buckets: each is drawn from its lowest to its highest value. */
const [WIDTH, HEIGHT, BUCKETS] = [96, 22, 48];

/** The curves of one metric, of the runs whose rows are in sight. */
export class Sparks {
  #curves: Curves | null = null;
  #metric = "";

  /** *arrived* is called when there is more to draw. */
  constructor(
    private readonly setting: Setting,
    private readonly arrived: () => void,
  ) {
    setting.store.listenToGrowth((run) => this.#curves?.grow(run));
  }

  want(metric: string, runs: readonly string[]): void {
    if (metric !== this.#metric || !this.#curves) {
      this.#curves?.drop();
      this.#metric = metric;
      this.#curves = new Curves(metric, this.setting.store.backend, this.setting.queue, { arrived: (_, isWhole) => isWhole && this.arrived(), finished: this.arrived });
    }
    this.#curves.want({ runs, axis: "step", buckets: BUCKETS, range: null });
  }

  /** Returns the drawing of a run, grey or in its look; empty until its curve is there. */
  of(run: string, { colour, tint }: Look, isGrey: boolean): Element {
    const curve = this.#curves?.wholeOf(run);
    if (!curve || curve.length < 2) return html("span", {});
    const line = svg("polyline", { points: pointsOf(curve) });
    const found = svg("svg", { class: `spark run-${colour}${isGrey ? " is-grey" : ""}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" }, line);
    if (tint !== undefined) found.style.color = tint;
    return found;
  }
}

function pointsOf({ place, min, max, length }: Curve): string {
  const [low, high] = [Math.min(...min.filter(Number.isFinite)), Math.max(...max.filter(Number.isFinite))];
  const x = placer({ from: place[0]!, to: place[length - 1]!, isLog: false }, 1, WIDTH - 2);
  const y = placer({ from: low, to: high, isLog: false }, HEIGHT - 2, 4 - HEIGHT);
  // From one bucket to the next the line goes on from the nearer end.
  const points: number[][] = [];
  for (let at = 0; at < length; at++) {
    if (!Number.isFinite(min[at]!)) continue;
    const ends = [y(min[at]!), y(max[at]!)];
    const before = points.at(-1)?.[1] ?? ends[0]!;
    if (Math.abs(ends[1]! - before) < Math.abs(ends[0]! - before)) ends.reverse();
    for (const each of new Set(ends)) points.push([x(place[at]!), each]);
  }
  return points.map(([left, top]) => `${left!.toFixed(1)},${top!.toFixed(1)}`).join(" ");
}
