/** Lists of any length: a part first, the rest when the user asks. */

import { button, html } from "../../../typescript/page/elements.js";
import { grouped } from "../text.js";

/** Returns a list of the first *some* items, and a button that adds as many again. */
export function longList<Item>(items: readonly Item[], make: (item: Item) => HTMLElement, some: number): HTMLElement {
  const list = html("ul", { class: "items" });
  const more = button("", { class: "button" }, add);
  let shown = 0;
  function add(): void {
    list.append(...items.slice(shown, shown + some).map(make));
    shown = Math.min(shown + some, items.length);
    more.hidden = shown === items.length;
    more.textContent = `Show ${grouped(Math.min(some, items.length - shown))} more of ${grouped(items.length - shown)}`;
  }
  add();
  return html("div", {}, list, more);
}

/** Rows of a table before the user asks for more. */
const FIRST_ROWS = 200;

/** Returns a table with a head; each row is a list of cells, those that are numbers to the right. A button adds the rows after the first ones. */
export function dataTable(heads: readonly string[], rows: readonly (readonly (string | HTMLElement)[])[], numbers: ReadonlySet<number> = new Set()): HTMLElement {
  const kind = (at: number) => (numbers.has(at) ? { class: "number" } : {});
  const head = html("tr", {}, ...heads.map((text, at) => html("th", { scope: "col", ...kind(at) }, text)));
  const body = html("tbody", {});
  const more = button("", { class: "button" }, add);
  let shown = 0;
  function add(): void {
    body.append(...rows.slice(shown, shown + FIRST_ROWS).map((cells) => html("tr", {}, ...cells.map((cell, at) => html("td", kind(at), cell)))));
    shown = Math.min(shown + FIRST_ROWS, rows.length);
    more.textContent = `Show ${grouped(Math.min(FIRST_ROWS, rows.length - shown))} more of ${grouped(rows.length - shown)}`;
    if (shown === rows.length) more.remove();
  }
  const element = html("div", { class: "scroll", tabindex: 0 }, html("table", { class: "data" }, html("thead", {}, head), body), more);
  add();
  return element;
}
