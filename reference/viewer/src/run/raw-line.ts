/** The raw line of a log, got when the user asks for it. */

import { button, fill, html } from "../../../typescript/page/elements.js";
import { printableBytes } from "../../../typescript/src/escaping.js";
import type { Store } from "../store.js";
import { grouped } from "../text.js";

/** Of a longer line the start is shown, in bytes. */
const MOST_BYTES = 4000;
/** How much is fetched where the length of the line is unknown. */
const GUESS = 4096;

interface LinePlace {
  run: string;
  file: string;
  line: number;
  offset: number;
  /** Without its LF; undefined where it is unknown. */
  length?: number | undefined;
}

/** Returns a button that shows the line below itself; null where raw lines are not at hand. */
export function rawLine(store: Store, place: LinePlace): HTMLElement | null {
  if (store.backend.kind === "embedded") return null;
  const shown = html("pre", { class: "raw", hidden: true, tabindex: 0 });
  const open = button(`Line ${grouped(place.line)}`, { class: "plain line-link", "aria-expanded": "false", title: "Show the line of the log" }, () => {
    shown.hidden = !shown.hidden;
    open.setAttribute("aria-expanded", String(!shown.hidden));
    if (!shown.hidden && shown.textContent === "") void show(store, place, shown);
  });
  return html("div", { class: "raw-line" }, open, shown);
}

/** Fills an element with a line of a log. */
export async function show(store: Store, place: LinePlace, into: HTMLElement): Promise<void> {
  fill(into, "Loading …");
  try {
    const { bytes, isCut } = await lineAt(store, place);
    fill(into, printableBytes(bytes), isCut && html("span", { class: "count" }, " … the line goes on"));
  } catch (error) {
    fill(into, (error as Error).message);
  }
}

async function lineAt(store: Store, { run, file, offset, length }: LinePlace): Promise<{ bytes: Uint8Array; isCut: boolean }> {
  if (length !== undefined) {
    const bytes = await store.backend.bytes(run, file, offset, Math.min(length, MOST_BYTES));
    return { bytes, isCut: length > MOST_BYTES };
  }
  // A finding names a place within the line: its start is the LF before.
  const from = Math.max(0, offset - GUESS);
  const around = await store.backend.bytes(run, file, from, offset - from + GUESS);
  const at = offset - from;
  const start = around.lastIndexOf(10, at - 1) + 1;
  const end = around.indexOf(10, at);
  return { bytes: around.subarray(start, end < 0 ? undefined : end).subarray(0, MOST_BYTES), isCut: end < 0 || end - start > MOST_BYTES };
}
