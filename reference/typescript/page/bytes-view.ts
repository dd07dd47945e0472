/** Shows what became of each byte of a stream as a bar. */

import type { ByteMap } from "./byte-map.js";
import { html, svg } from "./elements.js";
import { counted, grouped, size } from "./figures.js";

const WIDTH = 1000;
const HEIGHT = 28;
/** A gap of one line in a hundred megabytes has to be seen too. */
const LEAST_WIDTH = 6;

/** Returns the bar with its legend. */
export function bytesView(bytes: ByteMap): HTMLElement {
  const { size: total, committed, gapBytes, fragment, gaps } = bytes;
  const entries: [kind: string, text: string][] = [["committed", `committed ${amount(committed)}`]];
  if (gaps > 0) entries.push(["gap", `${counted(gaps, "gap")} ${amount(gapBytes)}`]);
  if (fragment > 0) entries.push(["fragment", `fragment ${amount(fragment)}`]);
  const legend = entries.map(([kind, text]) => html("li", { class: `tc-key tc-key-${kind}` }, text));
  return html(
    "section",
    { class: "tc-section" },
    html("h3", {}, "Bytes"),
    total === 0 ? html("p", { class: "tc-none" }, "The stream is empty.") : bar(bytes, entries.map(([, text]) => text).join(", ")),
    total > 0 && html("ul", { class: "tc-legend" }, ...legend),
  );
}

function amount(bytes: number): string {
  return bytes < 1000 ? size(bytes) : `${size(bytes)} (${grouped(bytes)} bytes)`;
}

function bar(bytes: ByteMap, label: string): SVGSVGElement {
  const scale = WIDTH / bytes.size;
  const piece = (from: number, to: number, kind: string) => {
    const width = Math.max((to - from) * scale, kind === "committed" ? 0 : LEAST_WIDTH);
    return svg("rect", { x: Math.min(from * scale, WIDTH - width), y: 0, width, height: HEIGHT, class: `tc-piece tc-piece-${kind}` });
  };
  return svg(
    "svg",
    { class: "tc-bytes", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    piece(0, bytes.size - bytes.fragment, "committed"),
    ...bytes.stretches.map(({ from, to }) => piece(from, to, "gap")),
    bytes.fragment > 0 && piece(bytes.size - bytes.fragment, bytes.size, "fragment"),
  );
}
