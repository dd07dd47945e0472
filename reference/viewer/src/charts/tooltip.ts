/** The values of all runs beside the pointer. */

import { fill, html } from "../../../typescript/page/elements.js";
import { cutShared, nameOf } from "../names.js";
import { swatch } from "../swatch.js";
import { grouped, plain, short } from "../text.js";
import type { XAxis } from "../view-state.js";
import type { Anomaly } from "./anomalies.js";
import type { Cursor } from "./cursor.js";
import { isGrey } from "./drawing.js";
import { isGroup, missingText } from "./grouping.js";
import { drawn, placers, type Plot, type Series, seriesName } from "./plot.js";
import { placeText } from "./ticks.js";

const MOST_ROWS = 6;
/** With more curves the values alone are shown, without the range that each stands for. */
const MOST_SPANS = 4;

interface Shown {
  plot: Plot;
  axis: XAxis;
  cursor: Cursor;
  dots: readonly { series: Series; at: number }[];
  hovered: string | null;
  /** Whether runs have the colours of a result or a setting. */
  isColoured: boolean;
  anomaly: Anomaly | null;
}

/** Returns what is marked in words: a spike with its value, and where. */
export function anomalyText({ kind, from, to, spike, alert }: Anomaly, axis: XAxis): string {
  const what = spike ? `spike ${short(spike.value)}` : alert?.rule ? `alert ${plain(alert.rule, 60)}` : kind;
  return from === to ? `${what} at ${placeText(to, axis)}` : `${what} between ${placeText(from, axis)} and ${placeText(to, axis)}`;
}

export class Tooltip {
  readonly #element = html("div", { class: "tooltip", hidden: true, "aria-hidden": "true" });

  constructor(private readonly area: HTMLElement) {
    area.append(this.#element);
  }

  hide(): void {
    this.#element.hidden = true;
  }

  show(shown: Shown): void {
    const { axis, cursor, dots } = shown;
    const { rows, more } = this.#rows(shown);
    const near = dots[0];
    const place = near && dots.length === 1 ? near.series.curve.place[near.at]! + near.series.shift : cursor.place;
    const about = dots.find(({ series }) => series.about)?.series.about;
    const title = `${placeText(place, axis)}${about ? ` · ${about}` : ""}`;
    fill(this.#element, html("div", { class: "tooltip-title" }, title), shown.anomaly && html("div", { class: "tooltip-anomaly" }, html("span", { class: "name" }, nameOf(shown.anomaly.series.run)), ` ${anomalyText(shown.anomaly, axis)}${shown.anomaly.line ? " · click for its line" : ""}`), ...flagged(shown), ...rows, more > 0 && html("div", { class: "tooltip-more" }, `and ${grouped(more)} more`));
    this.#element.hidden = false;
    this.#put(shown);
  }

  /** The runs whose values are next to the pointer, from the top down as the curves are. */
  #rows({ plot, cursor, dots, hovered, isColoured }: Shown): { rows: HTMLElement[]; more: number } {
    const { down } = placers(plot);
    const valued = dots.map((dot) => ({ ...dot, value: drawn(dot.series, dot.at) }));
    const distance = ({ value }: { value: number }) => (Number.isNaN(value) ? Infinity : Math.abs(down(value) - (cursor.pointer?.y ?? 0)));
    const near = [...valued].sort((a, b) => distance(a) - distance(b)).slice(0, MOST_ROWS);
    near.sort((a, b) => (Number.isNaN(a.value) ? 1 : Number.isNaN(b.value) ? -1 : b.value - a.value));
    const names = cutShared(near.map(({ series }) => seriesName(series)), MOST_LETTERS);
    return { rows: near.map((dot) => row(dot, { name: names.get(seriesName(dot.series))!, isHovered: dot.series.run.id === hovered, isGrey: isGrey(dot.series, { isColoured }), isBrief: valued.length > MOST_SPANS })), more: valued.length - near.length };
  }

  #put({ plot, cursor }: Shown): void {
    const { box } = plot;
    const x = placers(plot).across(cursor.place);
    const { offsetWidth: width, offsetHeight: height } = this.#element;
    // It may cover the neighbours of the chart, but not leave the window.
    const room = document.documentElement.clientWidth - this.area.getBoundingClientRect().left;
    const left = x + 16 + width <= room ? x + 16 : Math.max(x - 16 - width, room - width - 8 < x ? -8 : room - width - 8);
    const wanted = (cursor.pointer?.y ?? box.top + box.height / 2) - height / 2;
    const top = Math.max(Math.min(wanted, this.area.clientHeight - height), -40);
    Object.assign(this.#element.style, { left: `${Math.round(left)}px`, top: `${Math.round(top)}px` });
  }
}

/** Flags that the pointer is nearer to than this are spelled out, in pixels. */
const REACH = 9;
const MOST_FLAGS = 3;
/** Longer names do without what the others beside them have too. */
const MOST_LETTERS = 36;

function flagged({ plot, cursor }: Shown): HTMLElement[] {
  const { across: x } = placers(plot);
  const near = plot.flags.filter(({ place }) => Math.abs(x(place) - x(cursor.place)) < REACH).slice(0, MOST_FLAGS);
  return near.map(({ kind, text }) => html("div", { class: `tooltip-flag flag-${kind}` }, plain(text, 120)));
}

function row({ series, at, value }: { series: Series; at: number; value: number }, { name, ...is }: { name: string; isHovered: boolean; isGrey: boolean; isBrief: boolean }): HTMLElement {
  const { curve } = series;
  const [low, high, count, nan] = [curve.min[at]!, curve.max[at]!, curve.count[at]!, curve.nan[at]!];
  const span = !is.isBrief && (count > 1 || isGroup(series.run)) && low < high ? ` (${short(low, 4)} – ${short(high, 4)})` : "";
  const lost = nan > 0 ? (count === 1 ? "not finite" : `${grouped(nan)} not finite`) : "";
  const text = Number.isNaN(value) ? "" : short(value);
  const missing = missingText(series, at);
  return html(
    "div",
    { class: is.isHovered ? "tooltip-row is-hovered" : "tooltip-row" },
    swatch(series.look, is.isGrey),
    html("span", { class: "name tooltip-name" }, name),
    html("span", { class: "tooltip-value" }, text, html("small", {}, span)),
    lost !== "" && html("span", { class: "tooltip-lost" }, lost),
    missing !== "" && html("span", { class: "tooltip-lost" }, missing),
  );
}
