/** Finds the name that was probably meant. */

import { LIMITS } from "./tables.js";

const CUTOFF = 0.7;

/** Returns the one of *known* that a name was probably meant to be, undefined where there is none. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  const characters = [...name];
  if (characters.length > LIMITS.max_suggestion_chars) return undefined;
  let best: { name: string; ratio: number } | undefined;
  for (const candidate of known) {
    const ratio = similarity([...candidate], characters);
    if (ratio < CUTOFF) continue;
    if (!best || ratio > best.ratio || (ratio === best.ratio && candidate > best.name)) best = { name: candidate, ratio };
  }
  return best?.name;
}

/** Twice the characters in common over all of them, where what is in common are the longest blocks from the left. */
function similarity(a: readonly string[], b: readonly string[]): number {
  return a.length + b.length === 0 ? 1 : (2 * matching(a, b)) / (a.length + b.length);
}

function matching(a: readonly string[], b: readonly string[]): number {
  let best = { a: 0, b: 0, size: 0 };
  let lengths: number[] = [];
  for (let i = 0; i < a.length; i++) {
    const next: number[] = [];
    for (let j = 0; j < b.length; j++) {
      if (a[i] !== b[j]) continue;
      const size = (next[j] = (lengths[j - 1] ?? 0) + 1);
      if (size > best.size) best = { a: i - size + 1, b: j - size + 1, size };
    }
    lengths = next;
  }
  if (best.size === 0) return 0;
  const before = matching(a.slice(0, best.a), b.slice(0, best.b));
  return best.size + before + matching(a.slice(best.a + best.size), b.slice(best.b + best.size));
}
