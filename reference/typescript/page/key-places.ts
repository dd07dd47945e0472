/** Finds the key of a value in a part of a line. */

/** Returns the place of the key of the value at a place, null where its start is not at hand. */
export function keyBefore(data: Uint8Array, at: number): { from: number; to: number } | null {
  let to = at;
  while (to > 0 && " \t\r\n:".includes(String.fromCharCode(data[to - 1]!))) to--;
  if (data[to - 1] !== 0x22) return null;
  for (let from = to - 2; from >= 0; from--) {
    if (data[from] !== 0x22) continue;
    let escapes = 0;
    while (data[from - 1 - escapes] === 0x5c) escapes++;
    if (escapes % 2 === 0) return { from, to };
  }
  return null;
}
