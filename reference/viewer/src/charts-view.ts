/** The charts beside the list of runs. */

import { html } from "../../typescript/page/elements.js";
import type { Showing } from "./app.js";
import type { Setting } from "./charts/chart.js";
import { SelectedFlags } from "./charts/flags.js";
import { Grid } from "./charts/grid.js";
import { Toolbar } from "./charts/toolbar.js";
import type { Changed } from "./store.js";
import { RunTable } from "./table.js";

export class ChartsView implements Showing {
  readonly element: HTMLElement;
  private readonly table: RunTable;
  private readonly toolbar: Toolbar;
  private readonly grid: Grid;

  constructor(setting: Setting) {
    this.table = new RunTable(setting.store, setting.pointing, true);
    this.toolbar = new Toolbar(setting.store);
    const flags = new SelectedFlags(setting.store, () => this.grid.update());
    this.grid = new Grid(setting.store, { ...setting, flags: () => flags.shown() });
    this.element = html(
      "div",
      { class: "charts-view" },
      html("aside", { class: "side", "aria-label": "Runs" }, this.table.element),
      html("div", { class: "charts-main" }, this.toolbar.element, this.grid.element),
    );
  }

  update({ runs, state }: Changed): void {
    if (runs || state) this.table.update();
    this.toolbar.update();
    this.grid.update();
  }

  show(isShown: boolean): void {
    this.grid.show(isShown);
  }
}
