/** What all charts share: axis, smoothing, scales, zoom and the filter of metrics. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import type { Store } from "../store.js";
import { plain } from "../text.js";
import { groupKeys } from "./grouping.js";
import { START, type ViewState, type XAxis } from "../view-state.js";

const AXES: readonly (readonly [XAxis, string])[] = [
  ["step", "Step"],
  ["time", "Time since start"],
  ["wall", "Date and time"],
  ["epoch", "Epoch"],
  ["tokens", "Tokens"],
];
/** The slider has equal steps in the length of the average: 1 - 10^-place. */
const FINEST = 3;
const MOST_KEYS = 60;

export class Toolbar {
  readonly element: HTMLElement;
  private readonly words = html("input", { type: "search", class: "field", placeholder: "Find metrics", "aria-label": "Words in the names of metrics", spellcheck: "false" });
  private readonly axis = html("select", { class: "field", "aria-label": "Axis x" }, ...AXES.map(([value, text]) => html("option", { value }, text)));
  private readonly group = html("select", { class: "field", "aria-label": "Mean of groups" });
  private readonly base = html("select", { class: "field", "aria-label": "Run that the others are shown above" });
  private groupRuns: unknown = null;
  private readonly smoothing = html("input", { type: "range", min: 0, max: FINEST, step: 0.05, "aria-label": "Smoothing" });
  private readonly weight = html("output", {});
  private readonly boxes: readonly { box: HTMLInputElement; key: "logX" | "logY" | "clip" }[];
  private readonly reset: HTMLButtonElement;
  /** On a narrow page the rest is behind this button. */
  private readonly opener: HTMLButtonElement;

  constructor(
    private readonly store: Store,
    private readonly isOfOneRun = false,
  ) {
    const small = { isSmall: true };
    this.words.addEventListener("input", () => store.update({ metrics: this.words.value }, small));
    this.axis.addEventListener("change", () => store.update({ x: this.axis.value as XAxis, zoom: null }, small));
    this.smoothing.addEventListener("input", () => store.update({ smoothing: weightOf(Number(this.smoothing.value)) }, small));
    this.group.addEventListener("change", () => store.update({ group: this.group.value }, small));
    this.base.addEventListener("change", () => store.update({ base: this.base.value }, small));
    this.boxes = (["logX", "logY", "clip"] as const).map((key) => this.box(key));
    this.reset = button("Show everything", { class: "button" }, () => store.update({ zoom: null }, small));
    this.opener = button("Options", { class: "button toolbar-opener", "aria-expanded": "false" }, () => this.open());
    const texts: { [key: string]: [string, string] } = {
      logX: ["Log x", "Logarithmic axis x"], logY: ["Log y", "Logarithmic axis y"], clip: ["Clip", "Outliers are cut off: leave the lowest and the highest 2 % out of the range of y"],
    };
    const options = html(
      "div",
      { class: "toolbar-options" },
      html("label", { title: "Exponential moving average, corrected for its start. The weight counts for a thousandth of the axis." }, html("span", { class: "label" }, "Smoothing"), this.smoothing, this.weight),
      !isOfOneRun && html("label", { title: "The mean of the runs that share a value, with one standard deviation on each side" }, html("span", { class: "label" }, "Mean by"), this.group),
      !isOfOneRun && html("label", { title: "The difference of each curve to that of one run" }, html("span", { class: "label" }, "Minus"), this.base),
      ...this.boxes.map(({ box, key }) => html("label", { class: "check", title: texts[key]![1] }, box, texts[key]![0])),
    );
    const axis = html("label", {}, html("span", { class: "label" }, "x"), this.axis);
    this.element = html("div", { class: "toolbar toolbar-long", role: "toolbar", "aria-label": "Charts" }, this.words, axis, this.opener, options, this.reset);
  }

  update(): void {
    const { state } = this.store;
    if (document.activeElement !== this.words) this.words.value = state.metrics;
    this.axis.value = state.x;
    if (!this.isOfOneRun) this.updateGroups();
    if (document.activeElement !== this.smoothing) this.smoothing.value = String(-Math.log10(1 - state.smoothing));
    this.weight.textContent = state.smoothing === 0 ? "off" : String(Number(state.smoothing.toFixed(3)));
    for (const { box, key } of this.boxes) box.checked = state[key];
    this.reset.hidden = state.zoom === null;
    const inUse = [state.smoothing !== START.smoothing, state.group !== "", state.base !== "", state.logX, state.logY, state.clip].filter(Boolean).length;
    this.opener.textContent = inUse === 0 ? "Options" : `Options (${inUse})`;
  }

  private open(): void {
    this.opener.setAttribute("aria-expanded", String(this.element.classList.toggle("is-open")));
  }

  private updateGroups(): void {
    const { shown, state } = this.store;
    if (this.groupRuns !== shown) {
      this.groupRuns = shown;
      const bases = [...new Map([...shown.slice(0, MOST_KEYS), ...shown.filter(({ id }) => id === state.base)].map((run) => [run.id, run])).values()];
      fill(this.base, html("option", { value: "" }, "nothing"), ...bases.map(({ id, name }) => html("option", { value: id }, plain(name, 40))));
      const keys = groupKeys(shown).slice(0, MOST_KEYS);
      const known = state.group === "" || keys.includes(state.group) ? keys : [state.group, ...keys];
      fill(this.group, html("option", { value: "" }, "no group"), ...known.map((key) => html("option", { value: key }, plain(key.replace(/^config\./, ""), 40))));
    }
    this.group.value = state.group;
    this.base.value = state.base;
  }

  private box(key: "logX" | "logY" | "clip"): { box: HTMLInputElement; key: "logX" | "logY" | "clip" } {
    const box = html("input", { type: "checkbox" });
    box.addEventListener("change", () => this.store.update({ [key]: box.checked } as Partial<ViewState>, { isSmall: true }));
    return { box, key };
  }
}

function weightOf(place: number): number {
  return place === 0 ? START.smoothing : Math.min(Number((1 - 10 ** -place).toFixed(4)), 0.999);
}
