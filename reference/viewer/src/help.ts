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
  ["Drag up or down", "zoom into a range of the values of this chart"],
  ["Shift drag", "move along"],
  ["Ctrl wheel, pinch", "zoom"],
  ["Click", "on a spike or a tick below a chart, say what it is; of an alert or an unreadable line, show the line of the log"],
  ["Double click", "show everything"],
];
const FILTERS: readonly (readonly [string, string])[] = [
  ["llama baseline", "both words are in the name, id, group, tags, notes, state or format"],
  ["lr < 1e-3 and val/acc > .7", "a setting and the last value of a metric"],
  ["best.loss <= 2 or nan.loss > 0", "the best value; the count of values that are not finite"],
  ["state != complete", "running, complete, torn or damaged"],
  ["took > 2h, size < 5mb, errors > 0", "with units; join them with and"],
  ["starred = true", "runs that `toyspec annotate --star` marks; hidden = true lists the hidden ones"],
  ['name ~ "v2" and not (tag = old)', "~ means contains"],
  ["val*loss", "in the field of metrics: * is any text"],
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
    list([["band", "from the lowest to the highest value of the steps that one point stands for"], ["upright line", "a spike: a value far from those around it, at the height at which it was logged"], ["ticks below", "spikes, values that are not finite, gaps, resumptions and alerts of all runs"], ["×", "values that are not finite"], ["dashed line", "lines of the log that cannot be read"], ["dotted line", "the run was resumed"], ["faint dashes", "an attempt that was abandoned and done again"], ["▸", "a flag on a run's own charts: a note, or a finding of the check"], ["grey area", "all runs that are listed, beside those selected of more than 50"], ["○", "the best value by the goal of the metric"]], "span"),
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
