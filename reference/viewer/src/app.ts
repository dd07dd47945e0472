/** The frame around the views: the bar on top, and the view that the state asks for. */

import { button, fill, html } from "../../typescript/page/elements.js";
import { Pointing } from "./charts/cursor.js";
import { Queue } from "./charts/loading.js";
import { watchColours } from "./charts/theme.js";
import { ChartsView } from "./charts-view.js";
import { CompareView } from "./compare/compare-view.js";
import { FilterField } from "./filter-field.js";
import { help } from "./help.js";
import type { Backend } from "./protocol.js";
import { RunView } from "./run/run-view.js";
import { RunsView } from "./runs-view.js";
import { type Changed, Store } from "./store.js";
import { countText } from "./table.js";
import { plain } from "./text.js";
import type { View } from "./view-state.js";

/** A view of the whole page. */
export interface Showing {
  readonly element: HTMLElement;
  update(changed: Changed): void;
  /** Is called when the view is put into the page or taken from it. */
  show(isShown: boolean): void;
}

const TABS: readonly (readonly [View, string])[] = [["runs", "Runs"], ["charts", "Charts"], ["compare", "Compare"]];

/** Returns the mark of the project, which the tab of the browser has too. */
export function mark(): HTMLElement {
  return html("img", { class: "mark", alt: "", src: document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href });
}

export class App {
  readonly #store: Store;
  readonly #views: { [view in View]: Showing };
  readonly #main = html("main", { id: "main", tabindex: -1 });
  readonly #title = html("span", { class: "root" });
  readonly #count = html("p", { class: "count", role: "status", "aria-live": "polite" });
  readonly #message = html("p", { class: "message", role: "alert", hidden: true });
  readonly #tabs: readonly { view: View; link: HTMLElement }[];
  readonly #field: FilterField;
  #shown: Showing | null = null;

  constructor(
    private readonly root: HTMLElement,
    backend: Backend,
    private readonly on: { open?: () => void } = {},
  ) {
    this.#store = new Store(backend);
    const common = { store: this.#store, queue: new Queue(), pointing: new Pointing() };
    this.#views = { runs: new RunsView(common), charts: new ChartsView(common), compare: new CompareView(common), run: new RunView(common) };
    this.#field = new FilterField(this.#store);
    this.#tabs = TABS.map(([view, text]) => {
      const link = html("a", { href: `#${view}`, class: "tab" }, text);
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.#store.open(view);
      });
      return { view, link };
    });
  }

  async start(): Promise<void> {
    this.#build();
    this.#store.listen((changed) => this.#update(changed));
    watchColours(() => this.#update({ runs: false, state: true }));
    document.addEventListener("keydown", (event) => this.#key(event));
    try {
      await this.#store.load();
      this.#openOnlyRun();
      this.#update({ runs: true, state: true });
    } catch (error) {
      fill(this.#main, html("p", { class: "nothing" }, `The runs cannot be shown: ${(error as Error).message}`));
    }
  }

  #build(): void {
    const skip = html("a", { class: "skip", href: "#main" }, "Skip to the runs");
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      this.#main.focus();
    });
    const bar = html(
      "header",
      { class: "bar" },
      html("div", { class: "brand" }, mark(), html("h1", {}, "toyspec", this.#title)),
      html("nav", { class: "tabs", "aria-label": "Views" }, ...this.#tabs.map(({ link }) => link)),
      this.#field.element,
      this.#count,
      this.on.open && button("Open", { class: "button open-again", title: "Open another folder, or drop one on the page" }, this.on.open),
      button("?", { class: "button round", "aria-label": "Help", title: "Help and keys" }, help),
    );
    const said = html("div", { id: "announcement", class: "unseen", role: "status", "aria-live": "polite" });
    fill(this.root, skip, bar, this.#message, this.#main, said);
  }

  /** A folder with one run shows that run. */
  #openOnlyRun(): void {
    const [only] = this.#store.all.values();
    if (this.#store.all.size === 1 && location.hash === "" && only) this.#store.update({ view: "run", run: only.id }, { isSmall: true });
  }

  #update(changed: Changed): void {
    const { state, message, root } = this.#store;
    const view = this.#views[state.view];
    this.#title.textContent = plain(root, 80);
    document.title = `${state.view === "run" ? plain(state.run, 60) : plain(root, 60)} – toyspec`;
    this.#count.textContent = this.#store.isLoaded ? countText(this.#store) : "Loading …";
    this.#message.textContent = message;
    this.#message.hidden = message === "";
    for (const { view: each, link } of this.#tabs) {
      if (each === state.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.#field.update();
    if (view !== this.#shown) {
      this.#shown?.show(false);
      fill(this.#main, view.element);
      this.root.dataset["view"] = state.view;
      this.#shown = view;
      view.show(true);
    }
    view.update(changed);
  }

  #key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog")) return;
    const views: { [key: string]: View } = { "1": "runs", "2": "charts", "3": "compare" };
    const view = views[event.key];
    const { focus, selected, view: shown } = this.#store.state;
    if (event.key === "/") this.#field.focus();
    else if (event.key === "?") help();
    else if (view) this.#store.open(view);
    else if (event.key === "Escape" && focus !== "") this.#store.update({ focus: "" });
    // Not a key of the table alone: a view that was just opened has the focus one frame later.
    else if (event.key === "Escape" && shown === "runs" && selected.length > 0) this.#store.update({ selected: [] }, { isSmall: true });
    else return;
    event.preventDefault();
  }
}
