/** Shows the curves of a run, one at a time, with what chooses among them. */

import type { Curve } from "./curve.js";
import { Drawing, LEAST_WIDTH } from "./curve-drawing.js";
import { fill, html } from "./elements.js";
import { figure, grouped } from "./figures.js";
import type { Mark, RunFacts } from "./run-facts.js";
import { counted } from "./text-report.js";

/** Returns the curves with what chooses among them, null where the run has none; one value is not a curve. */
export function curvesView(facts: RunFacts): HTMLElement | null {
  const drawn = facts.curves.filter((curve) => curve.count > 1 && curve.least !== null);
  if (drawn.length === 0) return null;
  const { marks, axis } = facts;
  let curve = drawn[0]!;
  const canvas = html("div", { class: "tc-canvas" });
  const readout = html("output", { class: "tc-readout" });
  const words = html("p", { class: "tc-extremes" });
  const choose = chooser(drawn, (index) => {
    curve = drawn[index]!;
    draw();
  });
  const log = html("input", { type: "checkbox", class: "tc-log" });
  const draw = () => {
    log.disabled = !canBeLogarithmic(curve);
    const text = extremes(curve, axis);
    const setting = { axis, marks, width: Math.max(canvas.clientWidth || 640, LEAST_WIDTH), isLogarithmic: log.checked && !log.disabled, text };
    fill(words, text);
    fill(canvas, new Drawing(curve, setting, (shown) => fill(readout, shown)).element);
    fill(readout, "\u00a0");
  };
  log.addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas);
  return html(
    "section",
    { class: "tc-section" },
    html("h3", {}, "Curve"),
    html("div", { class: "tc-controls" }, choose, html("label", {}, log, " logarithmic")),
    words,
    canvas,
    legend(drawn, marks),
    readout,
  );
}

function chooser(curves: readonly Curve[], choose: (index: number) => void): HTMLElement {
  if (curves.length === 1) return html("span", { class: "tc-measure" }, curves[0]!.name);
  const options = curves.map((curve, index) => html("option", { value: index }, curve.name));
  const select = html("select", { "aria-label": "measure" }, ...options);
  select.addEventListener("change", () => choose(Number(select.value)));
  return select;
}

function legend(curves: readonly Curve[], marks: readonly Mark[]): HTMLElement | null {
  const count = (kind: Mark["kind"]) => marks.filter((mark) => mark.kind === kind).length;
  const entries: [kind: string, text: string][] = [];
  if (curves.some((curve) => curve.parts.some((part) => part.finite > 1))) entries.push(["mean", "mean"], ["band", "lowest to highest"]);
  if (count("gap") > 0) entries.push(["missing", `${counted(count("gap"), "place")} where lines cannot be read`]);
  if (count("resume") > 0) entries.push(["resumed", counted(count("resume"), "resume")]);
  if (curves.some((curve) => curve.earlier.length > 0)) entries.push(["earlier", "earlier attempts"]);
  if (entries.length === 0) return null;
  return html("ul", { class: "tc-legend" }, ...entries.map(([kind, text]) => html("li", { class: `tc-key tc-key-${kind}` }, text)));
}

function canBeLogarithmic(curve: Curve): boolean {
  return curve.least !== null && curve.least.value! > 0;
}

/** Says in words what the curve shows. */
function extremes(curve: Curve, axis: string): string {
  const at = (step: number) => `at ${axis} ${grouped(step)}`;
  const shown = (value: number | null) => (value === null ? "not finite" : figure(value));
  const parts = [`first ${shown(curve.first!.value)}`];
  if (curve.last) parts.push(`last ${shown(curve.last.value)} ${at(curve.last.step)}`);
  parts.push(`lowest ${shown(curve.least!.value)} ${at(curve.least!.step)}`);
  if (curve.notFinite > 0) parts.push(`${grouped(curve.notFinite)} not finite`);
  return parts.join(", ");
}
