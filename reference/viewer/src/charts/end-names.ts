/** The names of a few curves at the ends of their lines. */

import { cutShared } from "../names.js";
import { colourOf, type Manner, type Pen } from "./drawing.js";
import { isGroup } from "./grouping.js";
import { drawn, placers, type Plot, seriesName, type Series, visible } from "./plot.js";

/** More curves have no names, nor has a narrower chart, in pixels. */
const [MOST_NAMED, LEAST_WIDTH] = [8, 440];
/** The share of the width that names take at most; height and distance of each, in pixels. */
const [SHARE, LINE, GAP] = [0.3, 13, 7];

/** Names as they are shown, and the room that they need. */
interface EndNames {
  names: ReadonlyMap<string, string>;
  room: number;
}

/** Returns the names of the curves of a plot; null where they are too many, or only one. */
export function endNames(pen: CanvasRenderingContext2D, plot: Plot): EndNames | null {
  const { width } = plot.box;
  const named = namedIn(plot);
  if (named.length < 2 || named.length > MOST_NAMED || width < LEAST_WIDTH) return null;
  const measure = (text: string) => pen.measureText(text).width;
  const names = cutShared(named.map(seriesName), SHARE * width, measure);
  return { names, room: Math.min(SHARE * width, Math.max(...[...names.values()].map(measure))) + GAP };
}

/** The means of groups, or the runs that are not background. */
function namedIn({ series }: Plot): readonly Series[] {
  const means = series.filter(({ run }) => isGroup(run));
  return means.length > 0 ? means : series.filter(({ isQuiet }) => !isQuiet);
}

/** Draws names beside the chart, each where its line ends, one below another where lines end together. */
export function drawNames(pen: Pen, plot: Plot, { names, room }: EndNames, manner: Manner): void {
  const { top, height, left, width } = plot.box;
  const { down: y } = placers(plot);
  const placed = namedIn(plot).flatMap((series) => {
    const [first, end] = visible(series.curve, plot.x, series.shift);
    let at = end - 1;
    while (at >= first && Number.isNaN(drawn(series, at))) at--;
    return at < first ? [] : [{ series, at: Math.min(Math.max(y(Math.max(drawn(series, at), plot.y.isLog ? plot.y.from : -Infinity)), top), top + height) }];
  });
  placed.sort((a, b) => a.at - b.at);
  placed.forEach((each, index) => (each.at = Math.max(each.at, (placed[index - 1]?.at ?? -Infinity) + LINE)));
  placed.reduceRight((below, each) => (each.at = Math.min(each.at, below - LINE)), top + height + LINE);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.globalAlpha = 1;
  for (const { series, at } of placed) {
    pen.fillStyle = colourOf(series, manner);
    pen.fillText(names.get(seriesName(series)) ?? "", left + width + GAP, at, room);
  }
}
