/** What a run printed: the end of its text files, which follows while they grow. */

import { fill, html } from "../../../typescript/page/elements.js";
import type { Detail } from "../protocol.js";
import type { Store } from "../store.js";
import { plain, prose, size } from "../text.js";
import type { Part } from "./run-view.js";

const TEXTS = /(?:^|\/)(?:[^/]+\.(?:log|out|err)|stdout|stderr)$/i;
const MOST_FILES = 4;
/** Bytes of the end of a file that are shown. */
const MOST_BYTES = 1 << 16;
/** Colours and moves of a terminal. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** A text that is there: the page of a run that is written is made again and again. */
interface Kept {
  element: HTMLElement;
  bytes: number;
  /** Whether the end is in sight, and what else was. */
  isAtEnd: boolean;
  top: number;
}

const KEPT = new Map<string, Kept>();

/** Returns the text files beside the log; null without any. */
export function consoleSection({ id, files }: Detail, store: Store): Part | null {
  const texts = files.filter(({ path }) => TEXTS.test(path)).slice(0, MOST_FILES);
  if (texts.length === 0 || store.backend.kind === "embedded") return null;
  return { title: "Console", element: html("div", {}, ...texts.map(({ path, bytes }) => html("figure", {}, html("figcaption", { class: "count" }, `${plain(path, 200)}, ${size(bytes)}`), textOf(id, { path, bytes }, store)))) };
}

function textOf(run: string, { path, bytes }: { path: string; bytes: number }, store: Store): HTMLElement {
  const key = `${run} ${path}`;
  const known = KEPT.get(key) ?? { element: html("pre", { class: "raw console", tabindex: 0, "aria-label": plain(path, 200) }), bytes: -1, isAtEnd: true, top: 0 };
  const { element } = known;
  const place = () => (element.scrollTop = known.isAtEnd ? element.scrollHeight : known.top);
  if (!KEPT.has(key)) element.addEventListener("scroll", () => {
    known.top = element.scrollTop;
    known.isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 8;
  });
  KEPT.set(key, known);
  // What is put into the page again begins at its top.
  requestAnimationFrame(place);
  if (known.bytes === bytes) return element;
  known.bytes = bytes;
  const from = Math.max(0, bytes - MOST_BYTES);
  store.backend.bytes(run, path, from, bytes - from).then(
    (data) => {
      const text = new TextDecoder().decode(data).replace(CONTROLS, "");
      // Of a line that was written over, as that of a progress bar, the last text is seen.
      const lines = text.split("\n").map((line) => line.replace(/\r+$/, "").replace(/^.*\r/s, ""));
      const { isAtEnd } = known;
      fill(element, from > 0 && "…\n", prose(lines.slice(from > 0 ? 1 : 0).join("\n"), MOST_BYTES));
      known.isAtEnd = isAtEnd;
      place();
    },
    (error: unknown) => fill(element, (error as Error).message),
  );
  return element;
}
