/** The field that filters runs. */

import { html } from "../../typescript/page/elements.js";
import type { Store } from "./store.js";
import { counted } from "./text.js";

/** Between the last key and the search, so that typing is not held up. */
const PAUSE_MS = 120;

export class FilterField {
  readonly element: HTMLElement;
  private readonly field = html("input", {
    type: "search", class: "field", placeholder: "Filter: llama  lr < 1e-3 and val/acc > .7", "aria-label": "Filter runs by words or comparisons",
    spellcheck: "false", autocomplete: "off", "aria-describedby": "filter-error",
  });
  private readonly note = html("span", { class: "filter-note", role: "status" });
  private readonly error = html("span", { class: "filter-error", id: "filter-error", role: "status" });
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly store: Store) {
    this.element = html("div", { class: "filter" }, this.field, this.error, this.note);
    this.field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.timer = undefined;
        store.update({ filter: this.field.value }, { isSmall: true });
      }, PAUSE_MS);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.field.blur();
    });
  }

  focus(): void {
    this.field.focus();
    this.field.select();
  }

  update(): void {
    const { state, filterError } = this.store;
    // What was typed stays until it is searched for, even if the field has lost the focus.
    if (document.activeElement !== this.field && this.timer === undefined) this.field.value = state.filter;
    this.error.textContent = filterError ? `At character ${filterError.at + 1}: ${filterError.message}` : "";
    this.note.textContent = filterError || this.store.uncounted === 0 ? "" : this.noteText();
    this.field.setAttribute("aria-invalid", filterError ? "true" : "false");
  }

  private noteText(): string {
    return `The alerts of ${counted(this.store.uncounted, "run")} are not counted here: \`toyspec ls\` counts them.`;
  }
}
