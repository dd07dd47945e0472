/** The mark beside a name: the colour and the dash by which the run is drawn. */

import { html } from "../../typescript/page/elements.js";
import type { Look } from "./palette.js";

/** Returns the mark of a look. That of a curve which *isGrey* is grey too, but in the row of the run that is pointed at. */
export function swatch({ colour, dash, tint }: Look, isGrey = false): HTMLElement {
  const style = dash.length === 0 ? 0 : dash[0]! > 3 ? 1 : 2;
  const found = html("span", { class: `swatch run-${colour} dash-${style}${isGrey ? " is-grey" : ""}` });
  if (tint !== undefined) found.style.color = tint;
  return found;
}
