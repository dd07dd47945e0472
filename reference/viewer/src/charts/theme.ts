/** The colours of the style sheet, for what is drawn. */

import { COLOURS } from "../palette.js";
import type { Colours } from "./drawing.js";

let known: Colours | null = null;

/** Returns the colours that hold now. */
export function colours(): Colours {
  if (known) return known;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  known = {
    text: colour("--muted"), grid: colour("--grid"), quiet: colour("--quiet"), spike: colour("--spike"), surface: colour("--surface"),
    flags: { note: colour("--accent"), error: colour("--bad"), warning: colour("--warn") },
    runs: Array.from({ length: COLOURS }, (_, index) => colour(`--run-${index}`)),
  };
  return known;
}

/** Calls *changed* when light turns to dark or back. */
export function watchColours(changed: () => void): void {
  const look = () => {
    known = null;
    changed();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  new MutationObserver(look).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}
