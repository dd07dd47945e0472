/** A pen that writes SVG: what `drawing.ts` does to a canvas becomes text. */

import type { Pen } from "./drawing.js";

const ESCAPES: { [character: string]: string } = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const ANCHORS: { [align: string]: string } = { left: "start", center: "middle", right: "end" };
const BASELINES: { [baseline: string]: string } = { top: "0.8em", middle: "0.32em" };

export class SvgPen implements Pen {
  strokeStyle: string | CanvasGradient | CanvasPattern = "#000";
  fillStyle: string | CanvasGradient | CanvasPattern = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "12px sans-serif";
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  lineJoin: CanvasLineJoin = "round";
  lineCap: CanvasLineCap = "round";
  readonly #parts: string[] = [];
  #path: string[] = [];
  #dash = "";
  #clips = 0;
  #groups = 0;

  constructor(
    private readonly width: number,
    private readonly height: number,
  ) {}

  beginPath(): void {
    this.#path = [];
  }

  moveTo(x: number, y: number): void {
    this.#path.push(`M${round(x)} ${round(y)}`);
  }

  lineTo(x: number, y: number): void {
    this.#path.push(`L${round(x)} ${round(y)}`);
  }

  closePath(): void {
    this.#path.push("Z");
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.#path.push(`M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}Z`);
  }

  arc(x: number, y: number, radius: number): void {
    this.#path.push(`M${round(x - radius)} ${round(y)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`);
  }

  save(): void {
    this.#groups++;
  }

  /** Ends the group that a clip has opened. */
  restore(): void {
    this.#groups--;
    this.#parts.push("</g>");
  }

  clip(): void {
    const id = `clip-${this.#clips++}`;
    this.#parts.push(`<clipPath id="${id}"><path d="${this.#path.join("")}"/></clipPath><g clip-path="url(#${id})">`);
  }

  translate(x: number, y: number): void {
    this.#parts.push(`<g transform="translate(${round(x)} ${round(y)})`);
  }

  /** Turns what follows around the place that was last translated to. */
  rotate(angle: number): void {
    this.#parts.push(` rotate(${round((angle * 180) / Math.PI)})">`);
  }

  setLineDash(segments: Iterable<number>): void {
    this.#dash = [...segments].join(" ");
  }

  stroke(): void {
    if (this.#path.length === 0) return;
    const dash = this.#dash === "" ? "" : ` stroke-dasharray="${this.#dash}"`;
    this.#parts.push(
      `<path d="${this.#path.join("")}" fill="none" stroke="${escaped(String(this.strokeStyle))}" stroke-width="${this.lineWidth}" stroke-opacity="${this.globalAlpha}" stroke-linejoin="${this.lineJoin}" stroke-linecap="${this.lineCap}"${dash}/>`,
    );
  }

  fill(): void {
    if (this.#path.length === 0) return;
    this.#parts.push(`<path d="${this.#path.join("")}" fill="${escaped(String(this.fillStyle))}" fill-opacity="${this.globalAlpha}"/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const [, weight = "400", size, family] = /^(?:(\d+) )?([\d.]+)px (.+)$/.exec(this.font) ?? [];
    this.#parts.push(
      `<text x="${round(x)}" y="${round(y)}" dy="${BASELINES[this.textBaseline] ?? "0"}" text-anchor="${ANCHORS[this.textAlign] ?? "start"}" font-family="${escaped(family ?? "sans-serif")}" font-size="${size}" font-weight="${weight}" fill="${escaped(String(this.fillStyle))}">${escaped(text)}</text>`,
    );
  }

  /** Returns the whole image. */
  text(): string {
    const { width, height } = this;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${this.#parts.join("")}</svg>\n`;
  }
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ESCAPES[character]!);
}
