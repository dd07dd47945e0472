/** The colours of the style sheet, for what is drawn. */

import { COLOURS } from "../palette.js";
import type { Colours } from "./drawing.js";

let known: Colours | null = null;

/** Returns the colours that hold now. */
export function colours(): Colours {
  if (known) return known;
  known = coloursIn(getComputedStyle(document.documentElement));
  return known;
}

/** Returns the colours of the light page, which the first rule of the style sheet has. */
export function coloursOnPaper(): Colours {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const light = rules.find((rule): rule is CSSStyleRule => rule instanceof CSSStyleRule && rule.selectorText === ":root");
  return light ? coloursIn(light.style) : colours();
}

function coloursIn(style: CSSStyleDeclaration): Colours {
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: colour("--muted"), grid: colour("--grid"), quiet: colour("--quiet"), spike: colour("--spike"), surface: colour("--surface"),
    flags: { note: colour("--accent"), error: colour("--bad"), warning: colour("--warn") },
    runs: Array.from({ length: COLOURS }, (_, index) => colour(`--run-${index}`)),
  };
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
