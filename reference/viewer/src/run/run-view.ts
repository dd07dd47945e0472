/** One run whole: its facts, curves, findings and everything else that it recorded. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import type { Showing } from "../app.js";
import type { Setting } from "../charts/chart.js";
import { flagsOf } from "../charts/flags.js";
import { Grid } from "../charts/grid.js";
import { NONE, type Relatives, withMetricsElsewhere } from "../charts/relatives.js";
import { Toolbar } from "../charts/toolbar.js";
import type { Detail, Run } from "../protocol.js";
import type { Changed, Store } from "../store.js";
import { stateChip } from "../table.js";
import { duration, findingsLine, grouped, moment, plain, prose, size } from "../text.js";
import { consoleSection } from "./console.js";
import { configSection, filesSection, metadataSection } from "./facts.js";
import { alertsSection } from "./alerts.js";
import { findingsSection } from "./findings.js";
import { ancestryOf, forkOf, listed } from "./forks.js";
import { histogramsSection } from "./histograms.js";
import { incompleteText, leftOutSection } from "./left-out.js";
import { mediaSections } from "./media.js";
import { ranksChip, ranksSection, RelativesLine } from "./ranks.js";
import { comparisonsSection, evaluationsSection, notesSection, samplesSection, textsSection } from "./records.js";
import { regionsSection, timingsSection } from "./timings.js";

/** A part of the page; null where the run has nothing of it. */
export interface Part {
  title: string;
  count?: number;
  element: HTMLElement;
}

/** A run that grows is asked for again at most this often, in ms. */
const REFRESH_MS = 2000;

/** Returns a run without the part of its state on other ranks, which has a mark of its own. */
function withoutRanks({ unended_ranks: _, ...run }: Run): Run {
  return run;
}

export class RunView implements Showing {
  readonly element: HTMLElement;
  private readonly store: Store;
  readonly #head = html("div", { class: "run-head" });
  readonly #index = html("nav", { class: "run-index", "aria-label": "Parts of the run" });
  readonly #parts = html("div", { class: "run-parts" });
  readonly #charts = html("section", { class: "run-part", id: "part-charts" });
  readonly #toolbar: Toolbar;
  readonly #relativesLine: RelativesLine;
  #relatives: Relatives = NONE;
  /** The run id of an ancestor that was not listed when it was looked for. */
  #missing: string | null = null;
  #grid: Grid | null = null;
  private detail: Detail | null = null;
  #shownRun: Run | null = null;
  private shownId = "";
  #error = "";
  #isShown = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly setting: Setting) {
    this.store = setting.store;
    this.#toolbar = new Toolbar(this.store, true);
    this.#relativesLine = new RelativesLine(this.store);
    this.element = html("div", { class: "run-view" }, this.#head, html("div", { class: "run-body" }, this.#index, this.#parts));
    this.store.listenToGrowth((id) => {
      if (id === this.shownId && this.#isShown) this.#loadSoon();
    });
  }

  show(isShown: boolean): void {
    this.#isShown = isShown;
    this.#grid?.show(isShown);
  }

  update(_changed: Changed): void {
    const run = this.store.all.get(this.store.state.run);
    this.#toolbar.update();
    this.#relativesLine.update(this.#relatives);
    if (!run) {
      if (this.store.isLoaded) this.#nothing();
      return;
    }
    if (run.id !== this.shownId) this.#open(run);
    else if (run !== this.#shownRun) {
      this.#shownRun = run;
      this.#writeHead(run);
      if (this.#grid) this.#setRun(run);
    }
    if (this.#missing !== null && listed(this.store, this.#missing)) this.#loadAncestors();
    this.#grid?.update();
  }

  #nothing(): void {
    this.shownId = "";
    this.#shownRun = null;
    fill(this.#head, html("h2", {}, "This run is not here"), html("p", { class: "nothing" }, `No run below ${plain(this.store.root)} has the id ${plain(this.store.state.run)}.`));
    fill(this.#index);
    fill(this.#parts);
  }

  #open(run: Run): void {
    this.#grid?.show(false);
    this.shownId = run.id;
    this.#shownRun = run;
    this.detail = null;
    this.#relatives = NONE;
    this.#missing = null;
    this.#relativesLine.update(NONE);
    this.#error = "";
    this.#setRun(run);
    this.#grid = new Grid(this.store, this.#own);
    this.#writeHead(run);
    fill(this.#charts, html("h2", {}, "Charts"), this.#toolbar.element, this.#relativesLine.element, this.#grid.element);
    this.#grid.show(this.#isShown);
    this.#write();
    void this.#load();
  }

  #own!: Setting;

  #setRun(run: Run): void {
    // The charts of this page keep their setting, whose run is replaced as it grows.
    const only = withMetricsElsewhere(run, this.#relatives);
    if (this.#own?.only?.id === run.id) this.#own.only = only;
    else this.#own = { ...this.setting, only, relatives: () => this.#relatives, flags: () => (this.detail ? flagsOf(this.detail) : []) };
  }

  #loadSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#load();
    }, REFRESH_MS);
  }

  async #load(): Promise<void> {
    const id = this.shownId;
    try {
      const detail = await this.store.backend.detail(id);
      if (id !== this.shownId) return;
      this.detail = detail;
      this.#error = "";
      if (this.#shownRun) this.#writeHead(this.#shownRun);
      this.#grid?.update();
      // Each of these reads further streams whole.
      this.store.backend.ranks(id).then((ranks) => this.#take(id, { ranks }), () => undefined);
      this.#loadAncestors();
    } catch (error) {
      if (id !== this.shownId) return;
      this.#error = (error as Error).message;
    }
    this.#write();
  }

  #loadAncestors(): void {
    const { detail, shownId } = this;
    if (!detail) return;
    this.#missing = null;
    void ancestryOf(detail, this.store).then(({ ancestors, missing }) => {
      if (shownId !== this.shownId) return;
      this.#missing = missing;
      this.#take(shownId, { ancestors });
    });
  }

  #take(id: string, found: Partial<Relatives>): void {
    if (id !== this.shownId || !this.#shownRun) return;
    this.#relatives = { ...this.#relatives, ...found };
    this.#relativesLine.update(this.#relatives);
    this.#setRun(this.#shownRun);
    this.#grid?.update();
    this.#writeHead(this.#shownRun);
    if (found.ranks) this.#write();
  }

  #writeHead(run: Run): void {
    const listed = Object.keys(run.metrics).length;
    const fork = this.detail && forkOf(this.detail, this.store);
    const incomplete = this.detail ? incompleteText(this.detail) : "";
    const facts: [string, string][] = [
      ["Name by the run", run.said?.name === undefined ? "" : plain(run.said.name, 200)],
      ["Group", plain(run.group ?? "", 200)],
      ["Notes", plain(run.notes ?? "", 1000)],
      ["Hidden", run.hidden ? "yes, from lists" : ""],
      ["Started", moment(run.started_at)],
      ["Took", run.seconds === null ? "" : duration(run.seconds)],
      ["Last step", run.last_step === null ? "" : grouped(run.last_step)],
      ["Ended", run.reason === null ? "" : plain(run.reason, 60)],
      ["Id", plain(run.id, 200)],
      ["Run id", run.run_id === null || run.run_id === run.id ? "" : plain(run.run_id, 200)],
      ["Size", size(run.bytes)],
      ["Format", plain(run.profile ?? run.dialect ?? "")],
      ["Findings", run.findings ? findingsLine(run.findings, ["error", "warning", "info"]) || "none" : ""],
      ["Metrics", run.left_out.metrics > 0 ? `the first ${grouped(listed)} of ${grouped(listed + run.left_out.metrics)}` : ""],
    ];
    const isWritten = run.state === "running" && run.progress !== null;
    const progress = isWritten && html("div", { class: "run-progress" }, html("progress", { max: 1, value: run.progress!, "aria-label": "Progress" }), `${Math.round(run.progress! * 100)} %${run.remaining ? `, ${duration(run.remaining)} left` : ""}`);
    const back = html("a", { href: "#runs", class: "back" }, "All runs");
    back.addEventListener("click", (event) => {
      event.preventDefault();
      this.store.open("runs");
    });
    const folder = run.id.includes("/") ? run.id.slice(0, run.id.lastIndexOf("/") + 1) : "";
    fill(
      this.#head,
      html("p", { class: "crumbs" }, back, folder !== "" && ` / ${plain(folder, 200)}`),
      html("div", { class: "run-title" }, html("h2", { title: plain(run.name, 1000) }, plain(run.name)), run.starred && html("span", { class: "star", title: "Starred" }, "★"), stateChip(withoutRanks(run)), ranksChip(this.#relatives.ranks), ...run.tags.slice(0, 20).map((tag) => html("span", { class: "tag" }, plain(tag, 40)))),
      progress,
      run.message !== null && html("p", { class: "message" }, prose(run.message, 1000)),
      incomplete !== "" && html("p", { class: "message run-incomplete" }, incomplete),
      run.error !== null && run.error !== "" && html("p", { class: "message run-error" }, html("strong", {}, "Error: "), prose(run.error, 4000)),
      html("dl", { class: "facts" }, fork && html("div", {}, html("dt", {}, "Fork of"), html("dd", {}, fork)), ...facts.filter(([, text]) => text !== "").map(([name, text]) => html("div", {}, html("dt", {}, name), html("dd", {}, text)))),
    );
  }

  #write(): void {
    const { detail, store } = this;
    const parts: (Part | null)[] = detail
      ? [
          findingsSection(detail, store), consoleSection(detail, store), leftOutSection(detail), ranksSection(this.#relatives.ranks), alertsSection(detail), ...mediaSections(detail, store), evaluationsSection(detail), samplesSection(detail), textsSection(detail), configSection(detail), metadataSection(detail), notesSection(detail),
          comparisonsSection(detail), histogramsSection(detail), timingsSection(detail), regionsSection(detail), filesSection(detail, store),
        ]
      : [this.#shownRun && Object.keys(this.#shownRun.config).length > 0 ? configSection(this.#shownRun) : null];
    const found = parts.filter((part) => part !== null);
    const sections = found.map(({ title, count, element }) => {
      const id = `part-${title.toLowerCase().replaceAll(" ", "-")}`;
      return { title, count, id, element: html("section", { class: "run-part", id }, html("h2", {}, title, count !== undefined && html("span", { class: "count" }, grouped(count))), element) };
    });
    const charts = { title: "Charts", count: undefined, id: "part-charts", element: this.#charts };
    const all = [charts, ...sections];
    fill(this.#index, ...all.map(({ title, count, element }) => indexLink(title, count, element)));
    const waiting = detail ? false : html("p", { class: "nothing", role: "status" }, this.#error === "" ? "Loading the rest …" : this.#error);
    fill(this.#parts, ...all.map(({ element }) => element), waiting);
  }
}

function indexLink(title: string, count: number | undefined, element: HTMLElement): HTMLElement {
  const link = button(title, { class: "plain index-link" }, () => {
    element.scrollIntoView({ block: "start" });
    element.setAttribute("tabindex", "-1");
    element.focus({ preventScroll: true });
  });
  if (count !== undefined) link.append(html("span", { class: "count" }, grouped(count)));
  return link;
}
