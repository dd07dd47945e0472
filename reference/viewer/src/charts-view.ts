/** The charts beside the list of runs. */

import { button, html } from "../../typescript/page/elements.js";
import type { Showing } from "./app.js";
import type { Setting } from "./charts/chart.js";
import { SelectedFlags } from "./charts/flags.js";
import { Grid } from "./charts/grid.js";
import { NONE, onlyShown, type Relatives, severalRanks } from "./charts/relatives.js";
import { Toolbar } from "./charts/toolbar.js";
import { RelativesLine } from "./run/ranks.js";
import type { Changed, Store } from "./store.js";
import { RunTable } from "./table.js";

/** Pixels of the list, and the share of the page that it may have. */
const SIDE = { usual: 340, least: 200, step: 20, share: 0.6 };
const KEPT = "toyspec-list-width";

/** Returns the width that the user chose last; a page in a frame may keep nothing. */
function kept(): number | null {
  try {
    return Number(localStorage.getItem(KEPT)) || null;
  } catch {
    return null;
  }
}

function keep(width: number): void {
  try {
    localStorage.setItem(KEPT, String(width));
  } catch {
    // Then it is as wide as usual the next time.
  }
}

/** The ranks of a run that grows are asked for again at most this often, in ms. */
const REFRESH_MS = 2000;

export class ChartsView implements Showing {
  readonly element: HTMLElement;
  readonly #table: RunTable;
  readonly #toolbar: Toolbar;
  readonly #grid: Grid;
  readonly #ranks: ShownRanks;
  readonly #relativesLine: RelativesLine;

  private readonly store: Store;

  constructor(setting: Setting) {
    this.store = setting.store;
    this.#table = new RunTable(setting, true);
    this.#toolbar = new Toolbar(setting.store);
    const flags = new SelectedFlags(setting.store, () => this.#grid.update());
    this.#ranks = new ShownRanks(setting.store, () => this.#draw());
    this.#relativesLine = new RelativesLine(setting.store);
    this.#grid = new Grid(setting.store, { ...setting, flags: () => flags.shown(), relatives: () => this.#ranks.relatives });
    const opener = button("Runs", { class: "button side-opener", "aria-expanded": "false" }, () => opener.setAttribute("aria-expanded", String(this.element.classList.toggle("is-listing"))));
    this.element = html(
      "div",
      { class: "charts-view" },
      opener,
      html("aside", { class: "side", "aria-label": "Runs" }, this.#table.element, this.#grip()),
      html("div", { class: "charts-main" }, this.#toolbar.element, this.#relativesLine.element, this.#grid.element),
    );
  }

  /** Returns the edge of the list, which is dragged or moved by arrows. */
  #grip(): HTMLElement {
    const grip = html("div", { class: "side-grip", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "Width of the list", "aria-valuemin": SIDE.least, title: "Drag to resize; double click to reset" });
    const take = (pixels: number) => {
      const width = Math.round(Math.min(Math.max(pixels, SIDE.least), innerWidth * SIDE.share));
      document.documentElement.style.setProperty("--side", `${width}px`);
      grip.setAttribute("aria-valuenow", String(width));
      return width;
    };
    const choose = (pixels: number) => keep(take(pixels));
    grip.addEventListener("pointerdown", ({ pointerId }) => grip.setPointerCapture(pointerId));
    grip.addEventListener("pointermove", ({ pointerId, clientX }) => grip.hasPointerCapture(pointerId) && choose(clientX));
    grip.addEventListener("dblclick", () => choose(SIDE.usual));
    grip.addEventListener("keydown", ({ key }) => {
      const by = key === "ArrowRight" ? SIDE.step : key === "ArrowLeft" ? -SIDE.step : 0;
      if (by !== 0) choose(Number(grip.getAttribute("aria-valuenow")) + by);
    });
    take(kept() ?? SIDE.usual);
    return grip;
  }

  update({ runs, state }: Changed): void {
    if (runs || state) this.#table.update();
    this.#toolbar.update();
    this.#ranks.update();
    this.#draw();
  }

  show(isShown: boolean): void {
    this.#ranks.isShown = isShown;
    this.#grid.show(isShown);
  }

  #draw(): void {
    const { store } = this;
    const { isCrowded } = store;
    this.#relativesLine.update(this.#ranks.relatives, onlyShown(store) ? undefined : severalRanks(isCrowded ? store.shownOverAll : store.shown, store.state, isCrowded));
    this.#grid.update();
  }
}

/** The ranks of the one run that is shown: of several runs, rank 0 stands for each. */
class ShownRanks {
  relatives: Relatives = NONE;
  isShown = false;
  private run = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly store: Store,
    private readonly changed: () => void,
  ) {
    store.listenToGrowth((id) => {
      if (id !== this.run || this.relatives.ranks === null) return;
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        if (this.isShown) this.#load();
      }, REFRESH_MS);
    });
  }

  update(): void {
    const id = onlyShown(this.store)?.id ?? "";
    if (id === this.run) return;
    this.run = id;
    this.relatives = NONE;
    if (id !== "") this.#load();
  }

  #load(): void {
    const { run } = this;
    const take = (relatives: Relatives) => {
      if (run !== this.run) return;
      this.relatives = relatives;
      this.changed();
    };
    this.store.backend.ranks(run).then((ranks) => take({ ranks, ancestors: [] }), () => undefined);
  }
}
