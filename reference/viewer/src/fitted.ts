/** Drawings that are as wide as their place, so that their text has the same size on every screen. */

import { fill, html } from "../../typescript/page/elements.js";

/** Returns an element that *draw* fills for its width in pixels, at least *least*, again whenever that changes. */
export function fitted(draw: (width: number) => Element, least = 240): HTMLElement {
  const element = html("div", {});
  let drawn = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.max(Math.round(entry!.contentRect.width), least);
    if (width === drawn) return;
    drawn = width;
    fill(element, draw(width));
  }).observe(element);
  return element;
}
