/** Pictures, sounds and films of several runs: a row for each run, a column for each of some steps. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { fitted } from "../fitted.js";
import { cutShared, nameOf } from "../names.js";
import type { Media, Run } from "../protocol.js";
import { familyOf, figureOf } from "../run/media.js";
import type { Store } from "../store.js";
import { swatch } from "../swatch.js";
import { nameLink } from "../table.js";
import { counted, duration, grouped, plain } from "../text.js";

/** Each run is read whole for its media. */
const MOST_RUNS = 12;
const MOST_COLUMNS = 12;
/** Pixels that a column has at least, and the names of runs. */
const [COLUMN, NAMES] = [140, 170];
/** Longer names do without what the others have too. */
const MOST_LETTERS = 28;
/** Files of one step and name that a run shows at once. */
const MOST_FILES = 4;

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
    if (names.length === 0) return this.#fill(html("p", { class: "nothing" }, "None of these runs has logged any."));
    const wall = html("div", {});
    const choose = () => fill(wall, ...this.#wall(media.map((all) => all.filter(({ name }) => name === names.value))));
    names.addEventListener("change", choose);
    this.#fill(names, wall);
    choose();
  }

  /** Returns the slider and the table of one name, whose files each run has in a list. */
  #wall(media: readonly (readonly Media[])[]): HTMLElement[] {
    const hasSteps = media.flat().some(({ step }) => step != null);
    const placeOf = ({ step, t }: Media) => (hasSteps ? step : t) ?? 0;
    const titleOf = (place: number) => (hasSteps ? `step ${grouped(place)}` : duration(place));
    const places = [...new Set(media.flat().map(placeOf))].sort((a, b) => a - b);
    const cuts = cutShared(this.runs.map((run) => nameOf(run)), MOST_LETTERS);
    let [first, count, width] = [0, places.length, 0];

    // What was logged last at the place of a column or before it.
    const cell = (run: Run, all: readonly Media[], at: number) => {
      const place = Math.max(...all.map(placeOf).filter((each) => each <= at));
      const some = all.filter((each) => placeOf(each) === place).sort((a, b) => (a.index ?? 0) - (b.index ?? 0));
      const more = some.length > MOST_FILES && html("small", {}, `and ${grouped(some.length - MOST_FILES)} more`);
      return html("td", {}, ...some.slice(0, MOST_FILES).map((each) => figureOf(run.id, each, this.store, place === at ? "" : titleOf(place))), more);
    };
    const table = () => {
      const columns = Math.min(Math.max(Math.floor((width - NAMES) / COLUMN), 2), MOST_COLUMNS, count);
      const chosen = Array.from({ length: columns }, (_, at) => places[first + Math.round((at * (count - 1)) / Math.max(columns - 1, 1))]!);
      const rows = this.runs.flatMap((run, at) => (media[at]!.length === 0 ? [] : html("tr", {}, html("th", { scope: "row" }, swatch(this.store.look(run.id)), " ", nameLink(run, cuts.get(nameOf(run)))), ...chosen.map((place) => cell(run, media[at]!, place)))));
      return html("table", { class: "data compare wall" }, html("thead", {}, html("tr", {}, html("td", {}), ...chosen.map((place) => html("th", { scope: "col" }, titleOf(place))))), html("tbody", {}, ...rows));
    };

    const slider = html("input", { type: "range", "aria-label": "Steps of all runs" });
    const where = html("output", { class: "count" });
    const board = fitted((now) => {
      width = now;
      return table();
    });
    const show = () => {
      where.textContent = [...new Set([places[first]!, places[first + count - 1]!])].map(titleOf).join(" to ");
      slider.setAttribute("aria-valuetext", where.textContent);
      fill(board, table());
    };
    const zoom = (wanted: number) => {
      const middle = first + count / 2;
      count = Math.min(Math.max(Math.ceil(wanted), 1), places.length);
      const last = places.length - count;
      first = Math.min(Math.max(Math.round(middle - count / 2), 0), last);
      slider.max = String(last);
      slider.value = String(first);
      slider.disabled = last === 0;
      show();
    };
    slider.addEventListener("input", () => {
      first = Number(slider.value);
      show();
    });
    zoom(count);
    const [less, more] = [button("−", { class: "button", "aria-label": "More steps" }, () => zoom(count * 2)), button("+", { class: "button", "aria-label": "Fewer steps" }, () => zoom(count / 2))];
    return [html("div", { class: "media-head wall-bar" }, ...(places.length > 1 ? [less, slider, more] : []), where), board];
  }
}

function isSeen({ media_type }: Media): boolean {
  return ["picture", "sound", "film"].includes(familyOf(media_type));
}
