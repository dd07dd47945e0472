/** Pictures, sounds and films of several runs beside each other, at one step. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { nameOf } from "../names.js";
import type { Media, Run } from "../protocol.js";
import { familyOf, Shown } from "../run/media.js";
import type { Store } from "../store.js";
import { counted, grouped, plain } from "../text.js";

/** Each run is read whole for its media. */
const MOST_RUNS = 12;

export class MediaWall {
  readonly element = html("section", {});
  private runs: readonly Run[] = [];

  constructor(private readonly store: Store) {}

  update(runs: readonly Run[]): void {
    const some = runs.slice(0, MOST_RUNS);
    if (some.map(({ id }) => id).join("\n") === this.runs.map(({ id }) => id).join("\n")) return;
    this.runs = some;
    this.#fill(button(`Show the pictures of ${counted(some.length, "run")}`, { class: "button" }, () => void this.#load()));
  }

  #fill(...children: HTMLElement[]): void {
    fill(this.element, html("h2", {}, "Pictures"), ...children);
  }

  async #load(): Promise<void> {
    const { runs, store } = this;
    this.#fill(html("p", { class: "count", role: "status" }, `Reading ${counted(runs.length, "run")} …`));
    const media = await Promise.all(runs.map((run) => store.backend.detail(run.id).then(({ media = [] }) => media.filter(isSeen), () => [])));
    if (runs !== this.runs) return;
    const names = html("select", { class: "field", "aria-label": "Name" }, ...[...new Set(media.flat().map(({ name }) => name))].map((name) => html("option", { value: name }, plain(name, 80))));
    const [bar, wall] = [html("span", { class: "media-head" }), html("ul", { class: "cards" })];
    const choose = () => {
      const own = media.map((all) => all.filter(({ name }) => name === names.value));
      const steps = [...new Set(own.flat().flatMap(({ step }) => step ?? []))].sort((a, b) => a - b);
      const shown = runs.flatMap((run, at) => (own[at]!.length > 0 ? new Shown(run.id, nameOf(run), own[at]!, store) : []));
      const slider = html("input", { type: "range", max: steps.length - 1, value: steps.length - 1, "aria-label": "Step of all runs" });
      const where = html("output", { class: "count" });
      const show = () => {
        const step = steps[Number(slider.value)]!;
        where.textContent = `step ${grouped(step)}`;
        slider.setAttribute("aria-valuetext", where.textContent);
        for (const each of shown) each.showStep(step);
      };
      slider.addEventListener("input", show);
      fill(bar, steps.length > 1 && slider, where);
      fill(wall, ...shown.map(({ element }) => element));
      if (steps.length > 0) show();
    };
    names.addEventListener("change", choose);
    if (names.length === 0) this.#fill(html("p", { class: "nothing" }, "None of these runs has logged any."));
    else this.#fill(html("div", { class: "media-head" }, names, bar), wall);
    choose();
  }
}

function isSeen({ media_type }: Media): boolean {
  return ["picture", "sound", "film"].includes(familyOf(media_type));
}
