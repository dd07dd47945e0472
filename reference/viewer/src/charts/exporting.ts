/** Writes a chart as PNG, SVG or CSV. */

import { button, html } from "../../../typescript/page/elements.js";
import { cutApart } from "../names.js";
import { plain } from "../text.js";
import type { Chart, Point } from "./chart.js";
import { draw, type Pen } from "./drawing.js";
import type { Curve } from "../frames.js";
import { spanOf } from "./anomalies.js";
import { isGroup } from "./grouping.js";
import type { Plot, Series } from "./plot.js";
import { SvgPen } from "./svg-pen.js";

const SIZE = { width: 960, height: 480 };
/** Pixels of a PNG for each of the layout. */
const RATIO = 2;
const BOX = { left: 70, top: 44, width: 870, height: 360 };
/** Names below the curves are not more. */
const MOST_NAMES = 12;
/** Pixels of a letter of a name, and how many letters its mark takes. */
const [LETTER, BESIDE] = [7, 3];

/** Returns the menu of a chart that writes files. */
export function exportMenu(chart: Chart): HTMLElement {
  const choose = (text: string, write: (plot: Plot) => void) =>
    button(text, { class: "plain", role: "menuitem" }, () => {
      menu.open = false;
      const plot = chart.plotIn(BOX, RATIO);
      if (plot) write(plot);
    });
  const menu = html(
    "details",
    { class: "menu" },
    html("summary", { class: "plain", "aria-label": `Export ${plain(chart.metric)}` }, "Export"),
    html(
      "div",
      { class: "menu-items", role: "menu" },
      choose("PNG image", (plot) => png(chart, plot)),
      choose("SVG image", (plot) => save(chart, "svg", new Blob([svg(chart, plot)], { type: "image/svg+xml" }))),
      choose("CSV table", (plot) => void rawPlot(chart, plot).then((raw) => save(chart, "csv", new Blob([csv(raw, chart.state.x)], { type: "text/csv" })))),
    ),
  );
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget as Node | null)) menu.open = false;
  });
  return menu;
}

function png(chart: Chart, plot: Plot): void {
  const canvas = html("canvas", { width: SIZE.width * RATIO, height: SIZE.height * RATIO });
  const pen = canvas.getContext("2d")!;
  pen.scale(RATIO, RATIO);
  picture(pen, chart, plot);
  canvas.toBlob((blob) => blob && save(chart, "png", blob));
}

function svg(chart: Chart, plot: Plot): string {
  const pen = new SvgPen(SIZE.width, SIZE.height);
  picture(pen, chart, plot);
  return pen.text();
}

function picture(pen: Pen, chart: Chart, plot: Plot): void {
  const manner = chart.manner();
  pen.fillStyle = manner.colours.surface;
  pen.beginPath();
  pen.rect(0, 0, SIZE.width, SIZE.height);
  pen.fill();
  draw(pen, plot, { ...manner, hovered: null, ratio: RATIO });
  pen.globalAlpha = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = manner.colours.text;
  pen.font = "600 15px system-ui, sans-serif";
  pen.fillText(plain(chart.metric, 100), BOX.left, 22);
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "right";
  pen.fillText(chart.state.x, BOX.left + BOX.width, SIZE.height - 37);
  names(pen, plot, manner.colours.runs);
}

function names(pen: Pen, plot: Plot, colours: readonly string[]): void {
  pen.textAlign = "left";
  let x = BOX.left;
  const shown = plot.series.slice(0, MOST_NAMES);
  const room = BOX.width / Math.max(shown.length, 1);
  const cuts = cutApart(shown.map(({ run }) => plain(run.name)), Math.floor(room / LETTER) - BESIDE);
  for (const { run, look } of shown) {
    pen.fillStyle = look.tint ?? colours[look.colour]!;
    pen.beginPath();
    pen.rect(x, SIZE.height - 22, 12, 4);
    pen.fill();
    pen.fillText(cuts.get(plain(run.name))!, x + 17, SIZE.height - 19);
    x += room;
  }
}

/** Points of a run beyond which the table has its buckets: their `count` is the number of points of each. */
const MOST_RAW = 200_000;
/** Points that are asked for at once. */
const PIECE = 3000;

/** Returns a plot with the single points of each run in place of buckets. */
async function rawPlot(chart: Chart, plot: Plot): Promise<Plot> {
  const series: Series[] = [];
  // One after another: each piece reads a part of a log.
  for (const each of [...plot.series, ...plot.background]) series.push(isGroup(each.run) ? each : { ...each, curve: (await rawCurve(chart, each.curve)) ?? each.curve });
  return { ...plot, series };
}

async function rawCurve(chart: Chart, curve: Curve): Promise<Curve | null> {
  const { header, axis } = curve;
  if (header.level === 1 || curve.count.reduce((sum, count) => sum + count, 0) > MOST_RAW) return null;
  const points: Point[] = [];
  for (let begin = 0; begin < curve.length; ) {
    let end = begin;
    for (let count = 0; end < curve.length && (end === begin || count + curve.count[end]! <= PIECE); end++) count += curve.count[end]!;
    const [from, to] = [begin === 0 ? -Infinity : curve.place[begin - 1]!, curve.place[end - 1]!];
    const found = await chart.pointsOf(header.run, axis, { from: begin === 0 ? spanOf(curve, 0)[0] : from, to });
    if (!found) return null;
    points.push(...found.filter(({ place }) => place > from && place <= to));
    begin = end;
  }
  const column = (name: "place" | "value" | "nan") => Float64Array.from(points, (point) => point[name]);
  const value = column("value");
  return { header: { ...header, level: 1, buckets: points.length }, axis, length: points.length, place: column("place"), last: value, min: value, max: value, mean: value, count: value.map(() => 1), nan: column("nan") };
}

/** Returns the points or buckets of all runs as a table. */
export function csv(plot: Plot, axis: string): string {
  const lines = [["run", axis, "last", "min", "max", "mean", "count", "not_finite"].join(",")];
  for (const { run, curve, shift } of plot.series) {
    for (let i = 0; i < curve.length; i++) {
      const numbers = [curve.place[i]! + shift, curve.last[i]!, curve.min[i]!, curve.max[i]!, curve.mean[i]!, curve.count[i]!, curve.nan[i]!];
      lines.push([quoted(run.id), ...numbers.map((number) => (Number.isNaN(number) ? "" : String(number)))].join(","));
    }
  }
  return `${lines.join("\n")}\n`;
}

/** Returns a cell that no spreadsheet takes for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(chart: Chart, ending: string, blob: Blob): void {
  const address = URL.createObjectURL(blob);
  const name = chart.metric.replace(/[^\w.-]+/g, "-").slice(0, 80) || "chart";
  html("a", { href: address, download: `${name}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
