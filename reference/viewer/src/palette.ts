/** Gives each run a colour and a dash, which it keeps while it is listed. */

/** How a run is drawn; `colour` counts the colours of the style sheet, from 0. */
export interface Look {
  colour: number;
  dash: readonly number[];
  /** A colour of its own, in place of one of the style sheet. */
  tint?: string;
}

/** As many `--run-N` has the style sheet. The first differ in luminance: without hues they need no dashes. */
export const COLOURS = 7;
const SOLID = 4;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2]];

/** Returns how the curve at a place in an order is drawn: dashed from the fifth on. */
export function lookOf(at: number): Look {
  const dash = at < SOLID ? 0 : 1 + Math.floor((at - SOLID) / COLOURS);
  return { colour: at % COLOURS, dash: DASHES[dash % DASHES.length]! };
}

/** From the lowest to the highest; readers who do not see red and green can order them, on light and dark. */
const STOPS: readonly (readonly [number, number, number])[] = [[104, 96, 196], [45, 112, 172], [30, 152, 138], [122, 181, 62], [240, 180, 30]];

/** Returns the colour of a share from 0 to 1. */
export function tintOf(share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const left = Math.min(Math.floor(at), STOPS.length - 2);
  const mix = STOPS[left]!.map((value, channel) => Math.round(value + (STOPS[left + 1]![channel]! - value) * (at - left)));
  return `rgb(${mix.join(", ")})`;
}

/** The scale as a background. */
export const GRADIENT = `linear-gradient(to right, ${STOPS.map((_, at) => tintOf(at / (STOPS.length - 1))).join(", ")})`;

export class Palette {
  readonly #slots = new Map<string, number>();

  /** Frees the slots of runs that are no longer listed, and gives the others the first that are free. */
  give(ids: readonly string[]): void {
    const shown = new Set(ids);
    for (const id of this.#slots.keys()) if (!shown.has(id)) this.#slots.delete(id);
    const taken = new Set(this.#slots.values());
    let free = 0;
    for (const id of ids) {
      if (this.#slots.has(id)) continue;
      while (taken.has(free)) free++;
      this.#slots.set(id, free++);
    }
  }

  look(id: string): Look {
    return lookOf(this.#slots.get(id) ?? 0);
  }
}
