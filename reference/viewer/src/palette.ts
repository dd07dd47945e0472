/** Gives each run a colour and a dash, which it keeps while it is shown. */

/** How a run is drawn; `colour` counts the colours of the style sheet, from 0. */
export interface Look {
  colour: number;
  dash: readonly number[];
  /** A colour of its own, in place of one of the style sheet. */
  tint?: string;
}

/** As many `--run-N` has the style sheet: those of Okabe and Ito, which colour-blind readers can distinguish. */
export const COLOURS = 7;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2]];

export class Palette {
  private readonly slots = new Map<string, number>();

  /** Frees the slots of runs that are no longer shown, and gives the others the first that are free. */
  give(ids: readonly string[]): void {
    const shown = new Set(ids);
    for (const id of this.slots.keys()) if (!shown.has(id)) this.slots.delete(id);
    const taken = new Set(this.slots.values());
    let free = 0;
    for (const id of ids) {
      if (this.slots.has(id)) continue;
      while (taken.has(free)) free++;
      this.slots.set(id, free++);
    }
  }

  look(id: string): Look {
    const slot = this.slots.get(id) ?? 0;
    return { colour: slot % COLOURS, dash: DASHES[Math.floor(slot / COLOURS) % DASHES.length]! };
  }
}
