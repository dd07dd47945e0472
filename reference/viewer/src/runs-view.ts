/** The table of all runs with every column that the user wants. */

import { button, fill, html } from "../../typescript/page/elements.js";
import type { Showing } from "./app.js";
import type { Setting } from "./charts/chart.js";
import { firstRun } from "./charts/grid.js";
import { columnOf, possibleColumns, usualColumns } from "./columns.js";
import type { Store } from "./store.js";
import { RunTable } from "./table.js";
import { counted } from "./text.js";

/** More columns to choose from are found by words. */
const MOST_CHOICES = 200;

export class RunsView implements Showing {
  readonly element: HTMLElement;
  readonly #table: RunTable;
  readonly #store: Store;
  readonly #hiddenRuns = button("", { class: "button plain", title: "Show the runs that an annotation leaves out", hidden: true }, () => this.#store.update({ filter: "hidden = true" }, { isSmall: true }));
  readonly #nothing = html("div", { class: "nothing", hidden: true });
  readonly #clear: HTMLButtonElement;
  readonly #pin = button("Pin", { class: "button", title: "List the selected runs first, or no longer", hidden: true }, () => this.#store.pin(this.#store.state.selected));

  constructor(setting: Setting) {
    const { store } = setting;
    this.#store = store;
    this.#table = new RunTable(setting);
    this.#clear = button("Clear selection", { class: "button" }, () => store.update({ selected: [] }, { isSmall: true }));
    const compare = button("Compare", { class: "button" }, () => store.open("compare"));
    this.element = html(
      "div",
      { class: "runs-view" },
      html("div", { class: "toolbar", role: "toolbar", "aria-label": "Table" }, this.#chooser(), compare, this.#pin, this.#clear, this.#hiddenRuns),
      html("div", { class: "table-frame" }, this.#table.element),
      this.#nothing,
    );
  }

  update(): void {
    const { listed, all, state } = this.#store;
    this.#table.update();
    this.#pin.hidden = this.#store.state.selected.length === 0;
    this.#clear.hidden = state.selected.length === 0;
    this.#table.element.hidden = listed.length === 0;
    const { hidden } = this.#store;
    this.#hiddenRuns.hidden = hidden === 0;
    this.#hiddenRuns.textContent = hidden === 0 ? "" : `${counted(hidden, "run")} hidden`;
    this.#nothing.hidden = listed.length > 0 || !this.#store.isLoaded;
    if (this.#nothing.hidden) return;
    fill(this.#nothing, hidden > 0 && hidden === all.size ? "All runs are hidden by annotation." : all.size > 0 ? "No run passes the filter." : this.#store.backend.kind === "folder" ? "No file in this folder is a run." : firstRun(this.#store));
  }

  show(isShown: boolean): void {
    if (isShown) this.#table.focus();
  }

  #chooser(): HTMLElement {
    const words = html("input", { type: "search", class: "field", placeholder: "Find columns", "aria-label": "Find columns" });
    const list = html("div", { class: "choices" });
    const menu = html("details", { class: "menu" }, html("summary", { class: "button" }, "Columns"), html("div", { class: "menu-items menu-wide" }, words, list, button("As at the start", { class: "button" }, () => {
      this.#store.update({ columns: null }, { isSmall: true });
      show();
    })));
    const show = () => this.#choices(list, words.value);
    menu.addEventListener("toggle", show);
    words.addEventListener("input", show);
    return menu;
  }

  #choices(list: HTMLElement, words: string): void {
    const shown = this.#store.state.columns ?? usualColumns(this.#store.listed);
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const ids = [...possibleColumns(this.#store.all.values()).keys()].filter((id) => wanted.every((word) => id.toLowerCase().includes(word)));
    const boxes = ids.slice(0, MOST_CHOICES).map((id) => {
      const box = html("input", { type: "checkbox", disabled: id === "name" });
      box.checked = shown.includes(id);
      box.addEventListener("change", () => {
        const now = this.#store.state.columns ?? usualColumns(this.#store.listed);
        this.#store.update({ columns: box.checked ? [...now, id] : now.filter((other) => other !== id) }, { isSmall: true });
      });
      return html("label", { class: "check" }, box, titleOf(id));
    });
    fill(list, ...boxes, ids.length > MOST_CHOICES && html("p", { class: "count" }, `and ${ids.length - MOST_CHOICES} more: type words of their names`));
  }
}

function titleOf(id: string): string {
  const { title } = columnOf(id)!;
  if (id.startsWith("config.")) return `${title} (setting)`;
  if (id.startsWith("last.")) return `${title} (last)`;
  return title;
}
