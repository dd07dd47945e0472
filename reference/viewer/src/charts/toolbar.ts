/** What all charts share: axis, smoothing, scales, zoom and the filter of metrics. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import type { Store } from "../store.js";
import { GRADIENT } from "../palette.js";
import { swatch } from "../swatch.js";
import { rankingOf } from "../columns.js";
import { MINOR, rankedMetrics } from "../metric-ranks.js";
import { counted, plain, short } from "../text.js";
import { type Band, BANDS, groupKeys, runGroups } from "../groups.js";
import { colourKeys } from "./colouring.js";
import { MOST_GROUPS } from "./grouping.js";
import { AXES, AXIS_TITLES, START, type ViewState, type XAxis } from "../view-state.js";
import { nameOf } from "../names.js";

/** The slider has equal steps in the length of the average: 1 - 10^-place. */
const FINEST = 3;
const MOST_KEYS = 60;
const MOST_OFFERS = 4;
/** A run that ends so near to the end of the longest is whole. */
const SAME_END = 0.98;

/** What the name of a metric that is the axis comes after, as a choice. */
const OVER = "over ";

export class Toolbar {
  readonly element: HTMLElement;
  readonly #words = html("input", { type: "search", class: "field", placeholder: "Find metrics", "aria-label": "Words in the names of metrics", spellcheck: "false" });
  readonly #axis = html("select", { class: "field axis-field", "aria-label": "Axis x" });
  readonly #group = html("select", { class: "field", "aria-label": "Mean of groups" });
  readonly #band = html("select", { class: "field", "aria-label": "Band around means" }, ...Object.entries(BANDS).map(([value, text]) => html("option", { value }, text)));
  readonly #colour = html("select", { class: "field", "aria-label": "What colours runs" });
  readonly #legend = html("div", { class: "legend", hidden: true });
  readonly #base = html("select", { class: "field", "aria-label": "Run that the others are shown above" });
  #groupRuns: unknown = null;
  #keys: readonly string[] = [];
  /** What a crowd of grey runs may be coloured by: the result that ranks them, and their first settings. */
  #offers: readonly string[] = [];
  #axisRuns: unknown = null;
  readonly #smoothing = html("input", { type: "range", min: 0, max: FINEST, step: 0.05, "aria-label": "Smoothing" });
  readonly #weight = html("output", {});
  readonly #boxes: readonly { box: HTMLInputElement; key: "logX" | "logY" }[];
  readonly #reset: HTMLButtonElement;
  /** On a narrow page the rest is behind this button. */
  readonly #opener: HTMLButtonElement;

  constructor(
    private readonly store: Store,
    private readonly isOfOneRun = false,
  ) {
    const small = { isSmall: true };
    this.#words.addEventListener("input", () => store.update({ metrics: this.#words.value }, small));
    this.#axis.addEventListener("change", () => {
      const over = this.#axis.value.startsWith(OVER) ? this.#axis.value.slice(OVER.length) : "";
      store.update({ x: over === "" ? (this.#axis.value as XAxis) : "defined", over, zoom: null }, small);
    });
    this.#smoothing.addEventListener("input", () => store.update({ smoothing: weightOf(Number(this.#smoothing.value)) }, small));
    this.#group.addEventListener("change", () => store.update({ group: this.#group.value }, small));
    this.#band.addEventListener("change", () => store.update({ band: this.#band.value as Band }, small));
    this.#colour.addEventListener("change", () => store.update({ colour: this.#colour.value }, small));
    this.#base.addEventListener("change", () => store.update({ base: this.#base.value }, small));
    this.#boxes = (["logX", "logY"] as const).map((key) => this.#box(key));
    this.#reset = button("Show everything", { class: "button" }, () => store.update({ zoom: null }, small));
    this.#opener = button("Options", { class: "button toolbar-opener", "aria-expanded": "false" }, () => this.#open());
    const options = html(
      "div",
      { class: "toolbar-options" },
      html("label", { title: "A moving average over each curve: 0.9 removes noise, 0.99 leaves slow changes only. Spikes keep their height." }, html("span", { class: "label" }, "Smoothing"), this.#smoothing, this.#weight),
      !isOfOneRun && html("label", { title: "The mean of runs that share a value, or all settings but the seed; dashed where some have no value" }, html("span", { class: "label" }, "Mean"), this.#group, this.#band),
      !isOfOneRun && html("label", { title: "Colours runs by a result or a setting" }, html("span", { class: "label" }, "Colour by"), this.#colour),
      !isOfOneRun && html("label", { class: "toolbar-rare", title: "What each run has above this one, step by step" }, html("span", { class: "label" }, "Difference to"), this.#base),
      ...this.#boxes.map(({ box, key }) => html("label", { class: "check" }, box, key === "logX" ? "Log x" : "Log y")),
    );
    const axis = html("label", {}, html("span", { class: "label" }, "x"), this.#axis);
    this.element = html("div", { class: "toolbar toolbar-long", role: "toolbar", "aria-label": "Charts" }, this.#words, axis, this.#opener, options, this.#reset, this.#legend);
  }

  update(): void {
    const { state } = this.store;
    if (document.activeElement !== this.#words) this.#words.value = state.metrics;
    this.#updateAxes();
    if (!this.isOfOneRun) this.#updateGroups();
    if (document.activeElement !== this.#smoothing) this.#smoothing.value = String(-Math.log10(1 - state.smoothing));
    this.#weight.textContent = state.smoothing === 0 ? "off" : String(Number(state.smoothing.toFixed(3)));
    for (const { box, key } of this.#boxes) box.checked = state[key];
    this.#reset.hidden = state.zoom === null;
    this.#updateLegend();
    const inUse = [state.colour !== "" && !this.isOfOneRun, state.smoothing !== START.smoothing, state.group !== "", state.base !== "", state.logX, state.logY].filter(Boolean).length;
    this.#opener.textContent = inUse === 0 ? "Options" : `Options (${inUse})`;
  }

  /** Offers as axis what every run has, the steps that some define, and the metrics that say little but change. */
  #updateAxes(): void {
    const { listed, state } = this.store;
    if (this.#axisRuns !== listed) {
      this.#axisRuns = listed;
      const isDefined = listed.some(({ metrics }) => Object.values(metrics).some(({ step_name }) => step_name !== undefined));
      const places = rankedMetrics(listed).filter(({ rank, isConstant, name }) => rank === MINOR && !isConstant && !AXES.some((axis) => axis === name));
      const names = new Set([...places.slice(0, MOST_KEYS).map(({ name }) => name), ...(state.over === "" ? [] : [state.over])]);
      const own = AXES.filter((axis) => axis !== "defined" || isDefined || state.x === axis).map((value) => html("option", { value }, AXIS_TITLES[value]));
      fill(this.#axis, ...own, names.size > 0 && html("optgroup", { label: "Metrics" }, ...[...names].map((name) => html("option", { value: OVER + name }, plain(name, 60)))));
    }
    this.#axis.value = state.over === "" ? state.x : OVER + state.over;
  }

  /** Says what the colours mean: a bar for numbers, a swatch for each group. */
  #updateLegend(): void {
    const { colouring, state } = this.store;
    const isByGroup = state.group !== "";
    const isGrey = this.store.isCrowded && state.colour === "" && this.#offers.length > 0;
    this.#legend.hidden = (!colouring && !isByGroup && !isGrey) || this.isOfOneRun;
    if (this.#legend.hidden) return;
    if (isGrey) {
      const choose = (key: string) => button(keyName(key), { class: "button" }, () => this.store.update({ colour: key }, { isSmall: true }));
      fill(this.#legend, html("span", { class: "label" }, `${counted(this.store.listed.length, "run")} in grey. Colour them by`), ...this.#offers.map(choose));
      return;
    }
    if (isByGroup) {
      this.#fillWithGroups();
      return;
    }
    const name = html("span", { class: "label" }, keyName(state.colour));
    if (!colouring) return;
    if (!colouring.scale) {
      fill(this.#legend, name, ...colouring.groups.map(({ text, look }) => legendGroup(swatch(look), plain(text, 40))));
      return;
    }
    const { low, high, isLog } = colouring.scale;
    const bar = html("span", { class: "legend-bar", role: "img", "aria-label": `from ${short(low)} to ${short(high)}${isLog ? ", logarithmic" : ""}` });
    bar.style.background = GRADIENT;
    fill(this.#legend, name, short(low), bar, short(high), isLog && html("small", {}, "logarithmic"));
  }

  /** Names the mean of each group, what is around it, and how many groups have none. */
  #fillWithGroups(): void {
    const { store } = this;
    const groups = runGroups(store.shown, store.grouping.keys);
    const means = groups.slice(0, MOST_GROUPS).map(({ name, runs }) => {
      const last = Math.max(...runs.map(({ last_step }) => last_step ?? 0));
      const whole = runs.filter(({ last_step }) => (last_step ?? 0) >= SAME_END * last).length;
      return legendGroup(swatch(store.look(runs[0]!.id)), `${plain(name)}${whole < runs.length ? `, ${whole} of them to the end` : ""}`);
    });
    const more = groups.length - means.length;
    fill(this.#legend, html("span", { class: "label" }, `mean (${BANDS[store.state.band]})`), ...means, more > 0 && html("span", { class: "tone-warn" }, `${counted(more, "group")} more without a mean`));
  }

  #open(): void {
    this.#opener.setAttribute("aria-expanded", String(this.element.classList.toggle("is-open")));
  }

  #updateGroups(): void {
    const { shown, listed, state } = this.store;
    if (this.#groupRuns !== shown) {
      this.#groupRuns = shown;
      const bases = [...new Map([...shown.slice(0, MOST_KEYS), ...shown.filter(({ id }) => id === state.base)].map((run) => [run.id, run])).values()];
      fill(this.#base, html("option", { value: "" }, "no run"), ...bases.map((run) => html("option", { value: run.id }, nameOf(run))));
      const known = colourKeys(shown);
      const { metric } = rankingOf(shown);
      this.#offers = [...known.filter((key) => key === `best.${metric}`), ...known.filter((key) => key.startsWith("config."))].slice(0, MOST_OFFERS);
      const colours = known.slice(0, MOST_KEYS);
      const fields = state.colour === "" || colours.includes(state.colour) ? colours : [state.colour, ...colours];
      fill(this.#colour, html("option", { value: "" }, "run"), ...fields.map((key) => html("option", { value: key }, keyName(key))));
      this.#keys = groupKeys(listed).slice(0, MOST_KEYS);
    }
    const own = state.group === "" || state.group.startsWith("-") ? [] : state.group.split(",");
    const further = own.length === 0 ? [] : this.#keys.filter((key) => !key.startsWith("-") && !own.includes(key)).map((key) => `${state.group},${key}`);
    const groups = [...new Set([...this.#keys, ...(state.group === "" ? [] : [state.group]), ...further])];
    if (this.#group.dataset["of"] !== groups.join("\n")) {
      this.#group.dataset["of"] = groups.join("\n");
      fill(this.#group, html("option", { value: "" }, "no group"), ...groups.map((key) => html("option", { value: key }, groupText(key))));
    }
    this.#band.hidden = state.group === "";
    this.#band.value = state.band;
    this.#group.value = state.group;
    this.#colour.value = state.colour;
    this.#base.value = state.base;
  }

  #box(key: "logX" | "logY"): { box: HTMLInputElement; key: "logX" | "logY" } {
    const box = html("input", { type: "checkbox" });
    box.addEventListener("change", () => this.store.update({ [key]: box.checked } as Partial<ViewState>, { isSmall: true }));
    return { box, key };
  }
}

function legendGroup(mark: HTMLElement, text: string): HTMLElement {
  return html("span", { class: "legend-group" }, mark, text);
}

/** Returns how a group is asked for in words. */
function groupText(group: string): string {
  return group.startsWith("-") ? `over ${plain(group.slice(1), 40)}` : `by ${group.split(",").map(keyName).join(" and ")}`;
}

function keyName(key: string): string {
  return plain(key.replace(/^config\./, "").replace(/^(best|last)\./, "$1 "), 40);
}

function weightOf(place: number): number {
  return place === 0 ? START.smoothing : Math.min(Number((1 - 10 ** -place).toFixed(4)), 0.999);
}
