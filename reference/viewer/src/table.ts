/** The table of runs: only the rows that are seen exist. */

import { button, html } from "../../typescript/page/elements.js";
import type { Setting } from "./charts/chart.js";
import type { Pointing } from "./charts/cursor.js";
import { cutShared, nameOf } from "./names.js";
import { type Column, columnOf, rankingOf, settingsThatDiffer, usualColumns } from "./columns.js";
import type { Run } from "./protocol.js";
import { stateText, warningsOf } from "./run-fields.js";
import { Sparks } from "./sparks.js";
import type { Store } from "./store.js";
import { swatch } from "./swatch.js";
import { counted, grouped, plain } from "./text.js";

/** Pixels of a row: beside the charts a name has its settings below it. */
const ROWS = { wide: 34, narrow: 44 };
/** On a phone what is beside the name is seen too. */
const MOST_NAME = "52vw";
/** Pixels of the narrowest and the widest column, and of the padding of a cell with the mark of the order. */
const [LEAST, MOST, PADDING] = [64, 300, 36];
/** Pixels of the widest name, and of the mark of a state. */
const [MOST_NAME_WIDTH, STATE_MARK] = [560, 26];
/** Pixels of the number beside the charts. */
const NARROW_WIDTH = 90;
const CURVE_WIDTH = 110;
/** Runs whose texts are measured. */
const MEASURED = 200;
/** Names beside the charts may have two lines, of which the first ends at a word. */
const LINES = 1.8;
/** Rows beyond the border, so that scrolling shows no empty place. */
const SPARE = 8;
/** Pixels of the cell of a name that its swatch and padding take. */
const BESIDE_NAME = { wide: 46, narrow: 40 };
/** A row that exists, and the run in it. */
interface Drawn {
  element: HTMLElement;
  run: Run;
}

export class RunTable {
  readonly element: HTMLElement;
  readonly #head = html("div", { class: "table-head", role: "row", "aria-rowindex": 1 });
  readonly #body = html("div", { class: "table-body", role: "rowgroup" });
  readonly #rows = new Map<number, Drawn>();
  readonly #store: Store;
  readonly #pointing: Pointing;
  readonly #rowHeight: number;
  readonly #sparks: Sparks;
  readonly #pen = document.createElement("canvas").getContext("2d")!;
  /** The settings below names. */
  #settings: readonly Column[] = [];
  #columns: readonly Column[] = [];
  #active = 0;
  #anchor = 0;
  #frame = 0;
  /** Whether the rows are written again in the next frame. */
  #isNew = false;
  #cuts: ReadonlyMap<string, string> = new Map();
  /** What the names were cut from, and to. */
  #cut: { room: number; listed: readonly Run[] } = { room: 0, listed: [] };
  /** True once the first selected run was scrolled to. */
  #isPlaced = false;
  /** What the rows were made from. */
  #drawn: readonly unknown[] = [];

  constructor(
    setting: Setting,
    private readonly isNarrow = false,
  ) {
    const { store, pointing } = setting;
    this.#store = store;
    this.#pointing = pointing;
    this.#rowHeight = isNarrow || matchMedia("(max-width: 700px)").matches ? ROWS.narrow : ROWS.wide;
    this.#sparks = new Sparks(setting, () => this.#drawSoon(true));
    this.element = html(
      "div",
      { class: isNarrow ? "table table-narrow" : "table", role: "grid", tabindex: 0, "aria-multiselectable": "true", "aria-label": "Runs" },
      html("div", { role: "rowgroup", class: "table-heads" }, this.#head),
      this.#body,
    );
    this.element.addEventListener("scroll", () => this.#drawSoon());
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("focus", () => this.#mark());
    pointing.listen((isRunChanged) => isRunChanged && this.#markPointed());
    new ResizeObserver(() => this.#drawSoon()).observe(this.element);
    // That of the page, which the table has: it is not in the page yet.
    this.#pen.font = `14px ${getComputedStyle(document.documentElement).fontFamily}`;
  }

  /** Redraws after the runs or the state have changed. */
  update(): void {
    const { listed, state } = this.#store;
    const drawn = [listed, state.selected, state.columns, state.sort, state.group, state.colour, state.top];
    if (drawn.every((part, at) => part === this.#drawn[at])) return;
    this.#drawn = drawn;
    this.#columns = this.#wantedColumns().flatMap((id) => columnOf(id) ?? []);
    this.#settings = this.isNarrow ? settingsThatDiffer(listed.slice(0, MEASURED)).flatMap((id) => columnOf(id) ?? []) : [];
    this.#active = Math.min(this.#active, Math.max(0, listed.length - 1));
    const widths = this.#columns.map((column) => (this.isNarrow ? (column.id === "name" ? "minmax(100px, 1fr)" : `${NARROW_WIDTH}px`) : this.#widthOf(column)));
    this.element.style.setProperty("--columns", ["34px", ...widths].join(" "));
    this.element.style.setProperty("--least", this.isNarrow ? "0px" : `calc(34px + ${widths.join(" + ")})`);
    this.element.setAttribute("aria-rowcount", String(listed.length + 1));
    this.element.setAttribute("aria-colcount", String(this.#columns.length + 1));
    this.#body.style.height = `${listed.length * this.#rowHeight}px`;
    refill(this.#head, this.#selector(), ...this.#columns.map((column) => this.#heading(column)));
    this.#markSelector();
    this.#draw(true);
  }

  /** Returns the width of a column by what is in it. */
  #widthOf({ id, title, text }: Column): string {
    if (id === "curve") return `${CURVE_WIDTH}px`;
    const some = this.#store.listed.slice(0, MEASURED);
    const texts = id === "name" ? some.map((run) => nameOf(run)) : id === "state" ? some.map((run) => stateChip(run).textContent) : some.map(text);
    const widest = Math.max(this.#measure(title), ...texts.map((each) => this.#measure(each)));
    const beside = id === "name" ? BESIDE_NAME.wide + PADDING / 2 : id === "state" ? PADDING / 2 + STATE_MARK : PADDING;
    const found = Math.ceil(Math.min(Math.max(widest + beside, LEAST), id === "name" ? MOST_NAME_WIDTH : MOST));
    return id === "name" ? `min(${found}px, ${MOST_NAME})` : `${found}px`;
  }

  /** Returns the pixels of a text in the font of the table. */
  #measure(text: string): number {
    return this.#pen.measureText(text).width;
  }

  /** Cuts the names of the listed runs again when they or the width of their column have changed; returns whether it did. */
  #cutNames(): boolean {
    const { listed } = this.#store;
    const at = this.#columns.findIndex(({ id }) => id === "name");
    const room = ((this.#head.children[at + 1] as HTMLElement | undefined)?.offsetWidth ?? 0) - (this.isNarrow ? BESIDE_NAME.narrow : BESIDE_NAME.wide);
    if (room <= 0 || (room === this.#cut.room && listed === this.#cut.listed)) return false;
    this.#cut = { room, listed };
    this.#cuts = cutShared(listed.map((run) => nameOf(run)), this.isNarrow ? LINES * room : room, (text) => this.#measure(text));
    return true;
  }

  focus(): void {
    this.element.focus();
  }

  #wantedColumns(): readonly string[] {
    const { state, listed } = this.#store;
    if (!this.isNarrow) return state.columns ?? usualColumns(listed);
    const order = state.sort.replace(/^-/, "");
    return ["name", /^(config|last|best)\./.test(order) ? order : (usualColumns(listed).find((id) => /^(best|last)\./.test(id)) ?? "state")];
  }

  get #isAllSelected(): boolean {
    const { listed, state } = this.#store;
    return listed.length > 0 && state.selected.length >= listed.length;
  }

  /** The box that selects every run that is listed. */
  #selector(): HTMLElement {
    const label = this.#isAllSelected ? "Select no run" : `Select all ${counted(this.#store.listed.length, "run")}`;
    const box = html("input", { type: "checkbox", "aria-label": label, tabindex: -1 });
    box.addEventListener("change", () => this.#store.update({ selected: this.#isAllSelected ? [] : this.#store.listed.map(({ id }) => id) }, { isSmall: true }));
    return html("div", { role: "columnheader", class: "cell cell-box" }, box);
  }

  #markSelector(): void {
    const box = this.#head.querySelector("input")!;
    box.checked = this.#isAllSelected;
    box.indeterminate = !box.checked && this.#store.state.selected.length > 0;
  }

  #heading(column: Column): HTMLElement {
    const { sort } = this.#store.state;
    const isOrder = sort.replace(/^-/, "") === column.id;
    const order = !isOrder ? "none" : sort.startsWith("-") ? "descending" : "ascending";
    const sorter = button(column.title, { class: "plain heading", title: column.title, tabindex: this.isNarrow ? -1 : 0, "data-column": column.id }, () => {
      const first = column.id.startsWith("last.") || column.id.startsWith("best.") ? this.#bestFirst(column.id) : column.isNumber || column.id === "started" ? "-" : "";
      this.#store.update({ sort: isOrder ? (sort.startsWith("-") ? column.id : `-${column.id}`) : `${first}${column.id}` }, { isSmall: true });
    });
    return html("div", { role: "columnheader", class: column.isNumber ? "cell cell-number" : "cell", "aria-sort": order }, sorter);
  }

  /** Returns the order of a metric in which the best run comes first. */
  #bestFirst(id: string): string {
    const name = id.replace(/^(last|best)\./, "");
    return this.#store.listed.some(({ metrics }) => Object.hasOwn(metrics, name) && metrics[name]!.goal === "min") ? "" : "-";
  }

  #drawSoon(isNew = false): void {
    this.#isNew ||= isNew;
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw(this.#isNew);
      this.#isNew = false;
    });
  }

  /** Scrolls to the first run that the address selects, one row before it. */
  #place(): void {
    const { listed } = this.#store;
    if (this.#isPlaced || listed.length === 0 || this.element.clientHeight === 0) return;
    this.#isPlaced = true;
    const at = listed.findIndex(({ id }) => this.#store.isSelected(id));
    if (at <= 0) return;
    this.#active = this.#anchor = at;
    this.element.scrollTop = (at - 1) * this.#rowHeight;
  }

  /** Draws the rows that are seen; those that are there change only if what they show *isNew*. */
  #draw(isNew = false): void {
    this.#place();
    const isAgain = this.#cutNames() || isNew;
    const { listed } = this.#store;
    const { scrollTop, scrollLeft, scrollWidth, clientHeight, clientWidth } = this.element;
    // Cells that stay in sight cost time in each frame: only a table that was moved to the side has them.
    this.element.classList.toggle("is-moved", scrollLeft > 0);
    this.element.classList.toggle("has-more", scrollLeft + clientWidth < scrollWidth - 1);
    const first = Math.max(0, Math.floor(scrollTop / this.#rowHeight) - SPARE);
    const last = Math.min(listed.length, Math.ceil((scrollTop + clientHeight) / this.#rowHeight) + SPARE);
    const { metric } = this.#columns.some(({ id }) => id === "curve") ? rankingOf(listed) : { metric: null };
    if (metric !== null) this.#sparks.want(metric, listed.slice(first, last).map(({ id }) => id));
    for (const [index, row] of this.#rows) {
      if (index >= first && index < last) continue;
      row.element.remove();
      this.#rows.delete(index);
    }
    for (let index = first; index < last; index++) {
      const known = this.#rows.get(index);
      if (known && !isAgain) continue;
      const row = known ?? this.#emptyRow(index);
      row.run = listed[index]!;
      this.#write(row);
      if (!known) this.#body.append(row.element);
    }
    this.#mark();
    this.#markPointed();
  }

  #emptyRow(index: number): Drawn {
    const element = html("div", { class: "row", role: "row", id: this.#rowId(index), "aria-rowindex": index + 2 });
    const row = { element, run: this.#store.listed[index]! };
    element.style.transform = `translateY(${index * this.#rowHeight}px)`;
    element.addEventListener("click", (event) => this.#click(event, row.run, index));
    element.addEventListener("pointerenter", () => this.#pointing.hover(row.run.id));
    element.addEventListener("pointerleave", () => this.#pointing.hover(null));
    this.#rows.set(index, row);
    return row;
  }

  #write({ element, run }: Drawn): void {
    const isSelected = this.#store.isSelected(run.id);
    const isShown = isSelected || this.#store.state.selected.length === 0;
    const box = html("input", { type: "checkbox", tabindex: -1, "aria-label": `Select ${nameOf(run)}` });
    const mark = isShown ? swatch(this.#store.look(run.id), this.#store.isGrey(run.id)) : html("span", { class: "swatch is-off" });
    refill(element, html("div", { class: "cell cell-box", role: "gridcell" }, box), ...this.#columns.map((column, at) => this.#cell(run, column, at === 0 ? mark : null)));
    element.querySelector("input")!.checked = isSelected;
    element.classList.toggle("is-selected", isSelected);
    element.setAttribute("aria-selected", String(isSelected));
  }

  #cell(run: Run, column: Column, mark: HTMLElement | null): HTMLElement {
    const kind = column.isNumber ? "cell cell-number" : "cell";
    if (column.id === "name") return html("div", { class: "cell cell-name", role: "gridcell" }, mark, this.#store.state.top.includes(run.id) && pin(run), html("span", { class: "named" }, nameLink(run, this.#cuts.get(nameOf(run))), this.#settings.length > 0 && html("small", {}, this.#settingsText(run))));
    if (column.id === "curve") return html("div", { class: kind, role: "gridcell" }, this.#sparks.of(run.id, this.#store.look(run.id), this.#store.isGrey(run.id)));
    const text = column.text(run);
    if (column.id === "state") return html("div", { class: kind, role: "gridcell" }, stateChip(run));
    if (column.id === "progress" && run.progress !== null) return html("div", { class: kind, role: "gridcell" }, html("progress", { max: 1, value: run.progress, "aria-label": text }));
    const tone = column.id === "findings" ? (run.findings && run.findings.error > 0 ? " tone-bad" : " tone-warn") : "";
    return html("div", { class: `${kind}${tone}`, role: "gridcell", title: column.hint?.(run) ?? text }, text);
  }

  #settingsText(run: Run): string {
    const values = this.#settings.map((column) => [column.title.slice(column.title.lastIndexOf(".") + 1), column.text(run)]);
    return values.flatMap(([title, text]) => (text === "" ? [] : `${title} ${text}`)).join(" · ");
  }

  #rowId(index: number): string {
    return `${this.isNarrow ? "narrow" : "wide"}-row-${index}`;
  }

  /** Marks the row that keys act on. */
  #mark(): void {
    const id = this.#rowId(this.#active);
    for (const [index, { element }] of this.#rows) element.classList.toggle("is-active", index === this.#active);
    if (this.#rows.has(this.#active)) this.element.setAttribute("aria-activedescendant", id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #click(event: MouseEvent, run: Run, index: number): void {
    const target = event.target as HTMLElement;
    if (target.closest("a")) return;
    if (target.closest(".pin")) return this.#store.pin([run.id]);
    if (event.shiftKey) this.#extend(index);
    else {
      this.#anchor = index;
      this.#store.toggle(run.id);
    }
    this.#active = index;
    this.#mark();
  }

  /** Marks the row of the run that is pointed at, here or in a chart. */
  #markPointed(): void {
    for (const { element, run } of this.#rows.values()) element.classList.toggle("is-pointed", run.id === this.#pointing.run);
  }

  /** Selects everything from where the selection began to a row. */
  #extend(index: number): void {
    const [from, to] = [Math.min(this.#anchor, index), Math.max(this.#anchor, index)];
    const added = this.#store.listed.slice(from, to + 1).map(({ id }) => id);
    this.#store.update({ selected: [...new Set([...this.#store.state.selected, ...added])] }, { isSmall: true });
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.element || event.altKey) return;
    const { listed } = this.#store;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#rowHeight) - 2);
    const isCommand = event.ctrlKey || event.metaKey;
    const moves: { [key: string]: number } = {
      ArrowDown: this.#active + 1, ArrowUp: this.#active - 1, PageDown: this.#active + page, PageUp: this.#active - page, Home: 0, End: listed.length - 1,
      j: this.#active + 1, k: this.#active - 1,
    };
    const run = listed[this.#active];
    const next = isCommand ? undefined : moves[event.key];
    if (next !== undefined) this.#moveTo(Math.min(Math.max(next, 0), listed.length - 1), event.shiftKey);
    else if (event.key === "a" && isCommand) this.#store.update({ selected: listed.map(({ id }) => id) }, { isSmall: true });
    else if (isCommand) return;
    else if ((event.key === " " || event.key === "x") && run) {
      this.#anchor = this.#active;
      this.#store.toggle(run.id);
    } else if (event.key === "p" && run) this.#store.pin([run.id]);
    else if (event.key === "Enter" && run) this.#store.open("run", run.id);
    else return;
    event.preventDefault();
  }

  #moveTo(index: number, isExtending: boolean): void {
    this.#active = index;
    if (isExtending) this.#extend(index);
    else this.#anchor = index;
    const top = index * this.#rowHeight;
    const { scrollTop, clientHeight } = this.element;
    const seen = clientHeight - this.#head.offsetHeight;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.#rowHeight > scrollTop + seen) this.element.scrollTop = top + this.#rowHeight - seen;
    this.#draw();
    const run = this.#store.listed[index];
    this.#pointing.hover(run?.id ?? null);
  }
}

/** Puts children in the place of those that an element has. One that is the same stays: a click on it may have begun. */
function refill(element: Element, ...children: readonly Element[]): void {
  for (const [at, child] of children.entries()) {
    const known = element.children[at];
    if (!known) element.append(child);
    else if (!known.isEqualNode(child)) known.replaceWith(child);
  }
  while (element.children.length > children.length) element.lastElementChild!.remove();
}

/** The mark of a pinned run; a click on it unpins the run. */
function pin(run: Run): HTMLElement {
  return html("button", { type: "button", class: "tc-button plain pin", tabindex: -1, title: "Pinned: listed first. Click to unpin", "aria-label": `Unpin ${nameOf(run)}` }, "▲");
}

/** Returns a link to a run, whose text may be a cut of its name. */
export function nameLink(run: Run, text?: string): HTMLElement {
  const name = nameOf(run);
  const shown = text ?? name;
  const label = shown === name ? undefined : name;
  return html("a", { href: `#run/${encodeURIComponent(run.id)}`, class: "name", title: plain(run.id === "." ? run.name : run.id, 1000), "aria-label": label, tabindex: -1 }, html("span", { class: "name-text" }, shown));
}

/** The tone of each word for a log, and what it means. */
const LOGS: { readonly [text: string]: readonly [string, string] } = {
  running: ["running", "writing now"], complete: ["complete", "the log is whole"], torn: ["torn", "stopped without an end"], damaged: ["damaged", "some lines cannot be read"],
  unread: ["unread", "not read yet"], "no end mark": ["other", "the log is whole; its format does not say whether the run ended"], "not ended": ["torn", "the log is whole; fewer steps were made than were planned"],
};

/** Returns the state of a run as a word with a mark. */
export function stateChip(run: Run): HTMLElement {
  if (run.message !== null) return html("span", { class: "chip chip-damaged", title: plain(run.message, 500) }, "unreadable");
  const { text, tone, title } = endOf(run);
  return html("span", { class: `chip chip-${tone}`, title }, text);
}

/** The tone of ends that are not a success; one that is not here has none. */
const ENDS: { [reason: string]: string } = { errored: "damaged", aborted: "damaged", diverged: "damaged", failed: "damaged", crashed: "damaged", interrupted: "torn" };

/** Returns how a run ended, which is another question than whether its log is whole: an error in a whole log is not green. */
function endOf(run: Run): { text: string; tone: string; title: string } {
  const { state, error } = run;
  const [text, warnings] = [stateText(run), warningsOf(run)];
  const reason = Object.hasOwn(LOGS, text) ? null : run.reason!;
  const [log, meaning] = LOGS[reason === null ? text : state]!;
  // An end by another name with the text of an error is an error too.
  const tone = reason === null || log === "damaged" ? log : Object.hasOwn(ENDS, reason) ? ENDS[reason]! : error ? "damaged" : "other";
  const title = reason === null ? meaning : `ended: ${plain(reason, 32)}${error ? `: ${plain(error, 300)}` : ""}; ${meaning}`;
  return warnings.length === 0 || tone === "damaged" ? { text, tone, title } : { text: [text, ...warnings].join(", "), tone: "torn", title: [title, ...warnings].join("; ") };
}

/** Returns how many runs pass the filter, and how many are selected. */
export function countText(store: Store): string {
  const { listed, all, state } = store;
  const shown = listed.length === all.size ? counted(all.size, "run") : `${grouped(listed.length)} of ${counted(all.size, "run")}`;
  const read = store.unread === 0 ? shown : `${shown}, ${grouped(all.size - store.unread)} read`;
  return state.selected.length > 0 ? `${read}, ${grouped(state.selected.length)} selected` : read;
}
