/** The keys and the language of filters, in a dialog. */

import { button, html } from "../../typescript/page/elements.js";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "filter runs"],
  ["1 2 3", "runs, charts, compare"],
  ["↑ ↓ or j k", "move in the table of runs"],
  ["Space or x", "select the run; with Shift and an arrow, several"],
  ["Ctrl A", "select all runs that are listed"],
  ["Enter", "open the run"],
  ["p", "pin the run: it is listed first"],
  ["Esc", "clear the selection; in a chart, show everything"],
  ["← →", "in a chart, read values; with Shift, move along"],
  ["+ −", "in a chart, zoom"],
];
const MOUSE: readonly (readonly [string, string])[] = [
  ["Drag", "zoom into a range of all charts"],
  ["Drag up or down", "zoom into a range of this chart's values"],
  ["Shift drag", "move along"],
  ["Ctrl wheel, pinch", "zoom"],
  ["Click", "on a spike or tick, show its line"],
  ["Double click", "show everything"],
];
const FILTERS: readonly (readonly [string, string])[] = [
  ["llama baseline", "words in the name, id, group, tags, notes, state or format"],
  ["lr < 1e-3 and val/acc > .7", "a setting and the last value of a metric"],
  ["best.loss <= 2 or nan.loss > 0", "the best value; values that are not finite"],
  ["state != complete", "running, complete, torn or damaged"],
  ["took > 2h, size < 5mb, errors > 0", "with units; join them with and"],
  ["starred = true", "marked by `toyspec annotate --star`; or hidden = true"],
  ['name ~ "v2" and not (tag = old)', "~ means contains"],
  ["val*loss", "of metrics: * is any text"],
];

const MARKS: readonly (readonly [string, string])[] = [
  ["band", "from the lowest to the highest value of the steps of a point"],
  ["upright line", "a spike, up to the value that was logged; of eight runs or more that have many, a tick at the top"],
  ["ticks below", "spikes, values that are not finite, gaps, resumptions and alerts"],
  ["×", "not finite"],
  ["dashed, dotted line", "lines of the log that cannot be read; a resumption"],
  ["faint dashes", "an abandoned attempt"],
  ["▸", "a note or a finding"],
  ["grey area", "all runs, beside those selected of more than 50"],
  ["○", "the best value"],
];

/** Opens the dialog. */
export function help(): void {
  const dialog = html(
    "dialog",
    { class: "help", "aria-label": "Help" },
    html("div", { class: "help-head" }, html("h2", {}, "Help"), button("Close", { class: "button" }, () => dialog.close())),
    html("h3", {}, "Keys"), list(KEYS, "kbd"),
    html("h3", {}, "Pointer on a chart"), list(MOUSE, "kbd"),
    html("h3", {}, "Filters"), list(FILTERS, "code"),
    html("h3", {}, "Marks"),
    list(MARKS, "span"),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function list(rows: readonly (readonly [string, string])[], tag: "kbd" | "code" | "span"): HTMLElement {
  return html("dl", { class: "pairs" }, ...rows.flatMap(([name, text]) => [html("dt", {}, html(tag, {}, name)), html("dd", {}, text)]));
}
