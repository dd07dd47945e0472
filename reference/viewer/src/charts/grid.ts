/** The charts of all metrics, in sections by the first part of their names. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import type { Run } from "../protocol.js";
import { lowered } from "../lowered.js";
import { MINOR, rankedMetrics, RESULT } from "../metric-ranks.js";
import type { Store } from "../store.js";
import { counted, grouped, plain } from "../text.js";
import { Chart, type Setting } from "./chart.js";
import { withMetricsElsewhere } from "./relatives.js";

/** Charts of a section that exist before the user asks for more. */
const FIRST_CHARTS = 24;
/** More sections are found by words. */
const MOST_SECTIONS = 60;
/** Charts that keep their curves when they are not seen. */
const MOST_KEPT = 30;

/** A section and its metrics, in order. */
export interface Section {
  title: string;
  metrics: string[];
}

/** Titles of sections that are not part of a name: none begins like this. */
const [PINNED, RESULTS, LITTLE] = ["\0pinned", "\0results", "\0little"];
/** Charts of results, which are larger. */
const MOST_RESULTS = 5;
/** Fewer charts get no section of their own: they would leave most of its row empty. */
const FEWEST_IN_SECTION = 3;

/**
 * Returns the sections for the metrics of runs: those that are pinned, the results, the others by the first part of their names, and those
 * that say little. *words* must all be in a name; an asterisk is any text.
 */
export function sectionsOf(runs: Iterable<Run>, words: string, pins: readonly string[] = []): Section[] {
  const isWanted = namesWith(words);
  const ranked = rankedMetrics(runs).filter(({ name }) => isWanted(name));
  const names = new Set(ranked.map(({ name }) => name));
  const rest = ranked.filter(({ name }) => !pins.includes(name));
  const [main, ...more] = rest.filter(({ rank }) => rank <= RESULT);
  const results = main ? [main, ...more.sort((a, b) => b.runs - a.runs)].slice(0, MOST_RESULTS) : [];
  const sections = new Map<string, string[]>([[PINNED, pins.filter((name) => names.has(name))], [RESULTS, results.map(({ name }) => name)], ["", []]]);
  const others = rest.filter((each) => each.rank < MINOR && !results.includes(each)).map(({ name }) => name);
  const partOf = (name: string) => name.slice(0, Math.max(name.indexOf("/"), 0));
  const sizes = new Map<string, number>();
  for (const name of others) sizes.set(partOf(name), (sizes.get(partOf(name)) ?? 0) + 1);
  for (const name of others) {
    const title = sizes.get(partOf(name))! < FEWEST_IN_SECTION ? "" : partOf(name);
    const known = sections.get(title);
    if (known) known.push(name);
    else sections.set(title, [name]);
  }
  sections.set(LITTLE, rest.filter(({ rank }) => rank === MINOR).map(({ name }) => name));
  return [...sections].flatMap(([title, metrics]) => (metrics.length > 0 ? { title, metrics } : []));
}

/** Returns whether a name has all of some words, in small or capital letters, and the parts of each between asterisks in their order. */
function namesWith(words: string): (name: string) => boolean {
  const wanted = lowered(words).split(/\s+/).map((word) => word.split("*"));
  return (name) => {
    const whole = lowered(name);
    return wanted.every((parts) => parts.reduce((from, part) => (from < 0 || whole.indexOf(part, from) < 0 ? -1 : whole.indexOf(part, from) + part.length), 0) >= 0);
  };
}

/** Returns what to do where there is no run yet: three lines that write one. */
export function firstRun({ root, backend, message }: Store): HTMLElement {
  if (message !== "") return html("p", { class: "nothing" }, "No run can be shown: see the message above.");
  const lines = `import toyspec\nrun = toyspec.start_run(${JSON.stringify(backend.kind === "served" ? plain(root, 200) : "runs")})\nrun.log({"loss": 1.0}, step=1)`;
  const copy = button("Copy", { class: "button" }, () => {
    void navigator.clipboard?.writeText(lines).then(() => {
      copy.textContent = "Copied";
    });
  });
  return html("div", { class: "nothing first-run" }, html("p", {}, "No runs yet. Three lines of Python write the first one:"), html("pre", { class: "raw", tabindex: 0 }, lines), copy, html("p", {}, "It appears here while it is written. Logs of other programs in the folder are shown too."));
}

export class Grid {
  readonly element = html("div", { class: "grid" });
  readonly #charts = new Map<string, Chart>();
  readonly #rest = html("p", { class: "nothing", hidden: true });
  readonly #more = new Map<string, number>();
  /** Sections that are not as at first: open, but for the metrics that say little. */
  readonly #turned = new Set<string>();
  readonly #kept: Chart[] = [];
  /** Those whose place on the page was looked at. */
  readonly #placed = new WeakSet<Chart>();
  readonly #seen: IntersectionObserver;
  readonly #owners = new WeakMap<Element, Chart>();
  #shape = "";

  constructor(
    private readonly store: Store,
    private readonly setting: Setting,
  ) {
    this.#seen = new IntersectionObserver((entries) => this.#scrolled(entries), { rootMargin: "200px" });
    setting.pointing.listen((isRunChanged) => this.#point(isRunChanged));
    store.listenToGrowth((run) => {
      for (const chart of this.#charts.values()) chart.grow(run);
    });
  }

  /** Redraws after the runs or the state have changed. */
  update(): void {
    const { only, relatives } = this.setting;
    const runs = only ? [only] : relatives ? this.store.shown.map((run) => withMetricsElsewhere(run, relatives())) : this.store.shown;
    const { metrics, focus, pins } = this.store.state;
    const all = sectionsOf(runs, focus === "" ? metrics : "", pins);
    const sections = all.slice(0, MOST_SECTIONS);
    this.#rest.hidden = focus !== "" || all.length <= MOST_SECTIONS;
    this.#rest.textContent = `${counted(all.length - MOST_SECTIONS, "section")} more: type words of the metrics you look for.`;
    // What is said in place of charts depends on more.
    const why = sections.length === 0 ? this.#nothing().textContent : "";
    const shape = JSON.stringify([focus, why, sections.map(({ title, metrics }) => [title, metrics.length, this.#more.get(title), this.#isOpen(title), metrics.slice(0, this.#limit(title))])]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#arrange(sections, focus);
    }
    for (const chart of this.#charts.values()) chart.update();
    if (this.element.isConnected) this.#seeFirst();
  }

  /** Shows the new charts that are in the window at once: what observes them reports it a frame later. */
  #seeFirst(): void {
    for (const chart of this.#charts.values()) {
      if (this.#placed.has(chart)) continue;
      this.#placed.add(chart);
      const { top, bottom, width } = chart.element.getBoundingClientRect();
      if (width > 0 && bottom > 0 && top < window.innerHeight) chart.see(true);
    }
  }

  /** Is called when the grid is put into the page or taken from it. */
  show(isShown: boolean): void {
    if (!isShown) for (const chart of this.#charts.values()) chart.see(false);
    else for (const chart of this.#charts.values()) {
      this.#seen.unobserve(chart.element);
      this.#seen.observe(chart.element);
    }
  }

  #isOpen(title: string): boolean {
    return this.#turned.has(title) !== (title !== LITTLE || this.store.state.metrics !== "");
  }

  #limit(title: string): number {
    return this.#more.get(title) ?? FIRST_CHARTS;
  }

  #arrange(sections: readonly Section[], focus: string): void {
    const used = new Set<string>();
    const chart = (metric: string, isLarge: boolean) => {
      const key = `${isLarge ? "large" : "small"} ${metric}`;
      used.add(key);
      return (this.#charts.get(key) ?? this.#make(key, metric, isLarge)).element;
    };
    if (focus !== "") fill(this.element, html("h2", { class: "unseen" }, "One chart"), chart(focus, true));
    else fill(this.element, ...sections.map((section) => this.#section(section, chart)), sections.length === 0 && this.#nothing(), this.#rest);
    for (const [key, each] of this.#charts) {
      if (used.has(key)) continue;
      this.#seen.unobserve(each.element);
      each.see(false);
      each.drop();
      this.#charts.delete(key);
    }
  }

  #make(key: string, metric: string, isLarge: boolean): Chart {
    const made = new Chart(metric, this.setting, isLarge);
    this.#charts.set(key, made);
    this.#owners.set(made.element, made);
    this.#seen.observe(made.element);
    return made;
  }

  #section({ title, metrics }: Section, chart: (metric: string, isLarge: boolean) => HTMLElement): HTMLElement {
    const limit = this.#limit(title);
    const isOpen = this.#isOpen(title);
    const name = title === LITTLE ? `${grouped(metrics.length)} that say little` : ({ "": "Metrics", [PINNED]: "Pinned", [RESULTS]: "Results" }[title] ?? plain(title));
    const head = html("summary", {}, html("h2", {}, name), title !== LITTLE && html("span", { class: "count" }, grouped(metrics.length)));
    const charts = isOpen ? metrics.slice(0, limit).map((metric) => chart(metric, false)) : [];
    const rest = metrics.length - limit;
    const more = rest > 0 && button(`Show ${grouped(Math.min(rest, FIRST_CHARTS))} more of ${counted(rest, "chart")}`, { class: "button" }, () => {
      this.#more.set(title, limit + FIRST_CHARTS);
      this.update();
    });
    const element = html("details", { class: "section", open: isOpen }, head, html("div", { class: title === RESULTS ? "charts charts-results" : "charts" }, ...charts), more);
    element.addEventListener("toggle", () => {
      if (element.open === isOpen) return;
      if (!this.#turned.delete(title)) this.#turned.add(title);
      this.update();
    });
    return element;
  }

  #nothing(): HTMLElement {
    const { metrics, filter } = this.store.state;
    if (this.store.isLoaded && this.store.all.size === 0) return firstRun(this.store);
    const text = !this.store.isLoaded ? "" : metrics !== "" ? "No metric has these words in its name." : filter !== "" ? "No run passes the filter." : "The runs have no metrics yet.";
    return html("p", { class: "nothing" }, text);
  }

  #scrolled(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const chart = this.#owners.get(target);
      if (!chart || chart.isSeen === isIntersecting) continue;
      chart.see(isIntersecting);
      const at = this.#kept.indexOf(chart);
      if (at >= 0) this.#kept.splice(at, 1);
      if (!isIntersecting) this.#kept.push(chart);
    }
    while (this.#kept.length > MOST_KEPT) this.#kept.shift()!.drop();
  }

  #point(isRunChanged: boolean): void {
    for (const chart of this.#charts.values()) {
      if (isRunChanged) chart.repaint();
      else chart.point();
    }
  }
}
