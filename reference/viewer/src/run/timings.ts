/** Where the time went: operations as stacked bars, regions as a timeline. */

import { html, svg } from "../../../typescript/page/elements.js";
import type { Detail, OpTiming, Region } from "../protocol.js";
import { COLOURS } from "../palette.js";
import { fitted } from "../fitted.js";
import { brief, counted, duration, grouped, plain, short } from "../text.js";
import { dataTable } from "./lists.js";
import type { Part } from "./run-view.js";

const BARS = { height: 220, top: 22, bottom: 22 };
/** More bars cannot be distinguished; the last ones are shown. */
const MOST_BARS = 120;
const LANE = 22;
const MOST_LANES = 12;

/** Returns the timings of operations: a bar for each record, in the colours of the table below. */
export function timingsSection({ op_timings, left_out }: Detail): Part | null {
  if (op_timings.length === 0) return null;
  const totals = new Map<string, number>();
  for (const { buckets } of op_timings) for (const [name, micros] of Object.entries(buckets)) totals.set(name, (totals.get(name) ?? 0) + micros);
  const names = [...totals].sort(([, a], [, b]) => b - a);
  const shown = names.slice(0, COLOURS - 1).map(([name]) => name);
  const all = names.reduce((sum, [, micros]) => sum + micros, 0);
  const rows = names.map(([name, micros]) => {
    const at = shown.indexOf(name);
    return [html("span", {}, swatchOf(at < 0 ? COLOURS - 1 : at), " ", plain(name)), brief(micros / 1e6 / op_timings.length), `${short((100 * micros) / (all || 1), 3)} %`];
  });
  return {
    title: "Operations",
    count: op_timings.length + (left_out["op_timings"] ?? 0),
    element: html("div", {}, html("div", { class: "scroll" }, fitted((width) => bars(op_timings.slice(-MOST_BARS), shown, width))), op_timings.length > MOST_BARS && html("p", { class: "count" }, `The last ${grouped(MOST_BARS)} records of ${grouped(op_timings.length)}; the table is of all.`), dataTable(["operation", "mean", "share"], rows, new Set([1, 2]))),
  };
}

function swatchOf(place: number): HTMLElement {
  return html("span", { class: place < 0 ? "swatch block is-off" : `swatch block run-${place % COLOURS}` });
}

function bars(records: readonly OpTiming[], shown: readonly string[], whole: number): SVGSVGElement {
  const sum = (record: OpTiming) => Object.values(record.buckets).reduce((total, micros) => total + micros, 0);
  const most = Math.max(...records.map(sum), 1);
  const room = BARS.height - BARS.top - BARS.bottom;
  const width = whole / records.length;
  const columns = records.map((record, at) => {
    let y = BARS.top + room;
    const own = (name: string) => record.buckets[name] ?? 0;
    const other = sum(record) - shown.reduce((total, name) => total + own(name), 0);
    const parts = [...shown.map((name) => own(name)), other].map((micros, index) => {
      const height = (room * micros) / most;
      y -= height;
      return svg("rect", { class: `fill-${index}`, x: at * width, y, width: Math.max(width - 1, 0.5), height });
    });
    return svg("g", {}, svg("title", {}, `step ${record.step ?? "?"}: ${brief(sum(record) / 1e6)}`), ...parts);
  });
  const scale = [svg("line", { class: "grid-line", x1: 0, x2: whole, y1: BARS.top - 0.5, y2: BARS.top - 0.5 }), svg("text", { x: 0, y: BARS.top - 7 }, brief(most / 1e6))];
  const ends = [records[0], records.at(-1)].map((record, at) => svg("text", { x: at === 0 ? 0 : whole, y: BARS.height - 6, "text-anchor": at === 0 ? "start" : "end" }, record?.step == null ? "" : `step ${grouped(record.step)}`));
  return svg("svg", { class: "drawing", width: whole, height: BARS.height, role: "img", "aria-label": `Time of operations in ${counted(records.length, "record")}` }, ...scale, ...columns, ...ends);
}

/** Returns the regions as a timeline: nested ones are below. */
export function regionsSection({ regions, row, left_out }: Detail): Part | null {
  if (regions.length === 0) return null;
  const shown = regions.filter(({ depth }) => depth < MOST_LANES);
  const deep = regions.length - shown.length;
  const end = Math.max(row.seconds ?? 0, ...shown.map(({ from, to }) => to ?? from));
  const start = Math.min(...shown.map(({ from }) => from));
  const lanes = Math.max(...shown.map(({ depth }) => depth)) + 1;
  const names = [...new Set(shown.map(({ region }) => region))];
  const height = lanes * LANE + 20;
  const drawing = fitted((width) => {
    const x = (t: number) => ((t - start) / (end - start || 1)) * width;
    const blocks = shown.map((region) => block(region, { x, end, colour: names.indexOf(region.region) % COLOURS }));
    const texts = [svg("text", { x: 0, y: height - 5 }, duration(start)), svg("text", { x: width, y: height - 5, "text-anchor": "end" }, duration(end))];
    return svg("svg", { class: "drawing", width, height, role: "img", "aria-label": `Timeline of ${counted(regions.length, "region")}` }, ...blocks, ...texts);
  });
  return { title: "Regions", count: regions.length + (left_out["regions"] ?? 0), element: html("div", {}, html("div", { class: "scroll" }, drawing), deep > 0 && html("p", { class: "count" }, `${counted(deep, "region")} below ${MOST_LANES} levels are in the table alone.`), regionTable(regions, end, names)) };
}

function block({ region, from, to, depth }: Region, { x, end, colour }: { x(t: number): number; end: number; colour: number }): SVGGElement {
  const [left, right] = [x(from), x(to ?? end)];
  const width = Math.max(right - left, 1);
  const name = plain(region, 60);
  const title = svg("title", {}, `${name}: ${duration((to ?? end) - from)}${to === null ? ", still open" : ""}`);
  const label = width > name.length * 6.5 + 10 && svg("text", { class: "on-fill", x: left + 5, y: depth * LANE + 15 }, name);
  return svg("g", {}, title, svg("rect", { class: `fill-${colour}`, x: left, y: depth * LANE + 2, width, height: LANE - 4, rx: 2 }), label);
}

/** Returns the table below the timeline; the colours of the regions are by their places in *names*. */
function regionTable(regions: readonly Region[], end: number, names: readonly string[]): HTMLElement {
  const totals = new Map<string, { count: number; seconds: number }>();
  for (const { region, from, to } of regions) {
    const known = totals.get(region) ?? { count: 0, seconds: 0 };
    totals.set(region, { count: known.count + 1, seconds: known.seconds + (to ?? end) - from });
  }
  const rows = [...totals].sort(([, a], [, b]) => b.seconds - a.seconds).map(([name, { count, seconds }]) => [html("span", {}, swatchOf(names.indexOf(name)), " ", plain(name)), grouped(count), duration(seconds), duration(seconds / count)]);
  return dataTable(["region", "times", "in all", "mean"], rows, new Set([1, 2, 3]));
}
