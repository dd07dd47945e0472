/** The field that filters runs. */

import { fill, html } from "../../typescript/page/elements.js";
import { TITLES } from "./generated/runs.js";
import { lowered } from "./lowered.js";
import { questionOf } from "./run-fields.js";
import type { Store } from "./store.js";
import { counted } from "./text.js";

/** More completions are found by more letters. */
const MOST_OFFERED = 20;
/** What is typed now, and the comparison before it. */
const [WORD, COMPARED] = [/[^\s()<>=!~"']*$/, /([^\s()<>=!~"']+)\s*(?:=|==|!=|~)\s*$/];
/** Between the last key and the search, so that typing is not held up. */
const PAUSE_MS = 120;

export class FilterField {
  readonly element: HTMLElement;
  readonly #field = html("input", {
    type: "search", class: "field", placeholder: "Filter: llama  lr < 1e-3 and val/acc > .7", "aria-label": "Filter runs by words or comparisons",
    spellcheck: "false", autocomplete: "off", "aria-describedby": "filter-error", list: "filter-completions",
  });
  readonly #offered = html("datalist", { id: "filter-completions" });
  readonly #note = html("span", { class: "filter-note", role: "status" });
  readonly #error = html("span", { class: "filter-error", id: "filter-error", role: "status" });
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly store: Store) {
    this.element = html("div", { class: "filter" }, this.#field, this.#offered, this.#error, this.#note);
    this.#field.addEventListener("focus", () => this.#offer());
    this.#field.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#offer();
        store.update({ filter: this.#field.value }, { isSmall: true });
      }, PAUSE_MS);
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#field.blur();
    });
  }

  focus(): void {
    this.#field.focus();
    this.#field.select();
  }

  update(): void {
    const { state, filterError } = this.store;
    // What was typed stays until it is searched for, even if the field has lost the focus.
    if (document.activeElement !== this.#field && this.#timer === undefined) this.#field.value = state.filter;
    this.#error.textContent = filterError ? `At character ${filterError.at + 1}: ${filterError.message}` : "";
    this.#note.textContent = filterError || this.store.uncounted === 0 ? "" : this.#noteText();
    this.#field.setAttribute("aria-invalid", filterError ? "true" : "false");
  }

  /** Offers fields, and after a comparison the values that runs have, each with the number of runs. */
  #offer(): void {
    const text = this.#field.value;
    const word = WORD.exec(text)![0];
    const before = text.slice(0, text.length - word.length);
    const runs = [...this.store.all.values()];
    const field = COMPARED.exec(before)?.[1];
    const found = new Map<string, number>();
    const add = (value: string) => lowered(value).startsWith(lowered(word)) && found.set(value, (found.get(value) ?? 0) + 1);
    for (const run of runs) {
      if (field !== undefined) for (const value of [questionOf(run).field(field)].flat()) add(/^[^\s()<>=!~"',]+$/.test(String(value)) ? String(value) : `"${String(value)}"`);
      else for (const name of new Set([...Object.keys(TITLES), ...Object.keys(run.config).map((key) => key.slice(key.lastIndexOf(".") + 1)), ...Object.keys(run.metrics)])) add(name);
    }
    const most = [...found].sort(([, a], [, b]) => b - a).slice(0, MOST_OFFERED);
    fill(this.#offered, ...most.map(([value, count]) => html("option", { value: before + value }, counted(count, "run"))));
  }

  #noteText(): string {
    return `The alerts of ${counted(this.store.uncounted, "run")} are not counted here: \`toyspec ls\` counts them.`;
  }
}
