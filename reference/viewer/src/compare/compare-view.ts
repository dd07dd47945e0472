/** Runs in columns: the settings that differ, and their results with the best marked. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import type { Showing } from "../app.js";
import type { Setting } from "../charts/chart.js";
import { rankingOf, sorted } from "../columns.js";
import type { MetricFacts, Parting, Run, Scalar } from "../protocol.js";
import type { Store } from "../store.js";
import { swatch } from "../swatch.js";
import { MediaWall } from "./media-wall.js";
import { Relations } from "./relations.js";
import { cutShared, nameOf } from "../names.js";
import { varietyOf } from "../run-fields.js";
import { nameLink, stateChip } from "../table.js";
import { counted, duration, grouped, plain, short, valueText } from "../text.js";

/** More columns do not fit on any page. */
const MOST_RUNS = 24;
const MOST_ROWS = 400;
/** Longer names do without what the others have too. */
const MOST_LETTERS = 28;

export class CompareView implements Showing {
  readonly element = html("div", { class: "compare-view" });
  readonly #store: Store;
  #showsAll = false;
  #partings: { of: string; found: readonly Parting[] | null } = { of: "", found: null };

  readonly #relations: Relations;
  readonly #wall: MediaWall;

  constructor({ store }: Setting) {
    this.#store = store;
    this.#relations = new Relations(store);
    this.#wall = new MediaWall(store);
  }

  show(): void {}

  update(): void {
    const shown = this.#store.shown;
    const { metric, goal } = rankingOf(shown);
    const ranked = metric === null ? [...shown] : sorted(shown, `${goal === "max" ? "-" : ""}best.${metric}`);
    const runs = ranked.slice(0, MOST_RUNS);
    if (runs.length === 0) {
      fill(this.element, html("p", { class: "nothing" }, this.#store.isLoaded ? "No run to compare: nothing passes the filter." : ""));
      return;
    }
    const order = metric === null ? "" : `${goal === "max" ? "Highest" : "Lowest"} ${plain(metric, 60)} first. `;
    const note = order + (shown.length > runs.length ? `The first ${runs.length} of ${counted(shown.length, "run")}; select those that you want to compare.` : this.#store.state.selected.length === 0 ? "All listed runs; select those that you want to compare." : "");
    this.#relations.update(shown);
    const top = html("div", { class: "toolbar" }, note !== "" && html("p", { class: "count" }, note), runs.length > 1 && this.#differences(runs[0]!));
    this.#wall.update(runs);
    fill(this.element, top, this.#difference(runs), this.#relations.element, this.#metrics(runs), this.#settings(runs), this.#wall.element);
  }

  /** Says where two runs part, once the server has compared them. */
  #difference(runs: readonly Run[]): HTMLElement | false {
    const [a, b] = runs;
    const of = runs.length === 2 ? JSON.stringify([a!.id, a!.last_step, b!.id, b!.last_step]) : "";
    if (of !== this.#partings.of) {
      this.#partings = { of, found: null };
      const take = (found: readonly Parting[] | null) => {
        if (this.#partings.of !== of) return;
        this.#partings = { of, found };
        this.update();
      };
      if (of !== "") this.#store.backend.partings(a!.id, b!.id).then(take, () => undefined);
    }
    const { found } = this.#partings;
    if (found === null) return false;
    const first = found[0];
    return html("p", { class: "parting" }, first === undefined ? "No value differs." : `First differs at step ${grouped(first.step)}: ${plain(first.metric, 80)}`);
  }

  /** Leads to the charts of what each run has above the first one. */
  #differences(first: Run): HTMLElement {
    return button(`Chart differences to ${nameOf(first)}`, { class: "button" }, () => this.#store.update({ view: "charts", base: first.id, group: "" }));
  }

  #metrics(runs: readonly Run[]): HTMLElement {
    const names = new Set(runs.flatMap(({ metrics }) => Object.keys(metrics)));
    const rows = [...names].slice(0, MOST_ROWS).map((name) => metricRow(name, runs, this.#partings.found?.find(({ metric }) => metric === name)));
    const own: HTMLElement[] = [
      plainRow("state", runs.map(stateChip)),
      plainRow("took", runs.map(({ seconds }) => (seconds === null ? "" : duration(seconds)))),
      plainRow("last step", runs.map(({ last_step }) => (last_step === null ? "" : grouped(last_step)))),
    ];
    return html("section", {}, html("h2", {}, "Results"), table(runs, this.#store, [...own, ...rows]), names.size > MOST_ROWS && html("p", { class: "count" }, `${grouped(names.size - MOST_ROWS)} more metrics`));
  }

  #settings(runs: readonly Run[]): HTMLElement {
    const names = [...new Set(runs.flatMap(({ config }) => Object.keys(config)))];
    const differs = (name: string) => varietyOf(runs, `config.${name}`) > 1;
    const different = names.filter(differs);
    const shown = this.#showsAll ? names : different;
    const box = html("input", { type: "checkbox" });
    box.checked = this.#showsAll;
    box.addEventListener("change", () => {
      this.#showsAll = box.checked;
      this.update();
    });
    const rows = shown.slice(0, MOST_ROWS).map((name) => settingRow(name, runs));
    const nothing = names.length === 0 ? "The runs have no settings." : "All settings are the same.";
    return html(
      "section",
      {},
      html("h2", {}, "Config", html("span", { class: "count" }, `${grouped(different.length)} of ${counted(names.length, "setting")} differ`)),
      html("label", { class: "check" }, box, "Show those that are the same"),
      rows.length === 0 ? html("p", { class: "nothing" }, nothing) : table(runs, this.#store, rows),
    );
  }
}

function table(runs: readonly Run[], store: Store, rows: readonly HTMLElement[]): HTMLElement {
  const cuts = cutShared(runs.map((run) => nameOf(run)), MOST_LETTERS);
  const heads = runs.map((run) => {
    const link = nameLink(run, cuts.get(nameOf(run)));
    link.removeAttribute("tabindex");
    return html("th", { scope: "col" }, html("span", { class: "compare-head" }, swatch(store.look(run.id)), link));
  });
  return html("div", { class: "scroll", tabindex: 0 }, html("table", { class: "data compare" }, html("thead", {}, html("tr", {}, html("td", {}), ...heads)), html("tbody", {}, ...rows)));
}

function plainRow(name: string, cells: readonly (string | HTMLElement)[]): HTMLElement {
  return html("tr", {}, html("th", { scope: "row" }, name), ...cells.map((cell) => html("td", { class: "is-fact" }, cell)));
}

function metricRow(name: string, runs: readonly Run[], parting: Parting | undefined): HTMLElement {
  const facts = runs.map(({ metrics }) => (Object.hasOwn(metrics, name) ? metrics[name]! : null));
  const goal = facts.find((each) => each?.goal)?.goal ?? null;
  const last = (each: MetricFacts) => (each.last_not_finite ? null : each.last);
  const values = facts.map((each) => (each === null ? null : goal === null ? last(each) : (each.best ?? last(each))));
  const finite = values.filter((value) => value !== null);
  const best = goal === "min" ? Math.min(...finite) : goal === "max" ? Math.max(...finite) : NaN;
  const cells = values.map((value, at) => {
    const isBest = value === best && finite.length > 1;
    const lost = facts[at]?.nan ?? 0;
    const text = value === null ? (lost > 0 ? "not finite" : "") : short(value, 6);
    return html("td", { class: isBest ? "number is-best" : "number" }, text, isBest && html("span", { class: "best-mark", title: "best" }, " best"), lost > 0 && value !== null && html("small", { title: "values that are not finite" }, ` × ${grouped(lost)}`));
  });
  const title = html("th", { scope: "row" }, plain(name, 80), html("small", {}, goal === null ? " last" : ` ${goal === "min" ? "lowest" : "highest"}`), parting !== undefined && html("small", {}, `, differs from step ${grouped(parting.step)} on`));
  return html("tr", {}, title, ...cells);
}

function settingRow(name: string, runs: readonly Run[]): HTMLElement {
  const values: (Scalar | undefined)[] = runs.map(({ config }) => (Object.hasOwn(config, name) ? config[name] : undefined));
  const counts = new Map<string, number>();
  for (const value of values) counts.set(JSON.stringify(value) ?? "", (counts.get(JSON.stringify(value) ?? "") ?? 0) + 1);
  // Without a value that most runs have none is unusual.
  const usual = [...counts].find(([, count]) => count > runs.length / 2)?.[0];
  const cells = values.map((value) => {
    const isUsual = usual === undefined || (JSON.stringify(value) ?? "") === usual;
    return html("td", { class: isUsual ? "" : "is-different" }, value === undefined ? html("span", { class: "absent", title: "absent", role: "img", "aria-label": "absent" }, "–") : valueText(value, 120));
  });
  return html("tr", {}, html("th", { scope: "row" }, plain(name, 120)), ...cells);
}
