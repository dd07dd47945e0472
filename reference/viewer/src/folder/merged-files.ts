/** Makes one log of the files of a folder that a program writes at the same time: their lines in the order of their times. */

import type { Stream } from "../../../typescript/page/selection.js";
import { type Dialect, namePattern } from "../dialects/dialect.js";
import { formOf, type RowForm } from "../dialects/forms.js";
import { flattened, numberIn, timeOf } from "../dialects/mapping.js";
import { readAsOf } from "../dialects/row-reader.js";
import { DIALECTS } from "../dialects/tables.js";

/** A line of a file; it ends after its LF. */
interface Line {
  time: number;
  step: number;
  file: number;
  start: number;
  end: number;
}

const TOGETHER = DIALECTS.filter(({ parts }) => parts === "together").map((dialect) => ({ dialect, patterns: (dialect.files ?? []).map(namePattern) }));
const LF = 0x0a;
/** Larger logs are not in memory at once: their files follow one another. */
const MOST_BYTES = 256 << 20;

/** Returns the streams with one in place of the files that are one log; its name is that of the first. Above *mostBytes* its files follow one another. */
export async function merged(streams: readonly Stream[], mostBytes = MOST_BYTES): Promise<Stream[]> {
  const found = [...streams];
  for (const { dialect, patterns } of TOGETHER) {
    const folders = new Map<string, Stream[]>();
    for (const stream of streams) {
      if (stream.blob === null || stream.root === undefined || !patterns.some((pattern) => pattern.test(stream.name))) continue;
      const folder = stream.path.slice(0, -stream.name.length);
      folders.set(folder, [...(folders.get(folder) ?? []), stream]);
    }
    for (const files of folders.values()) {
      const own: Stream[] = [];
      for (const file of files) if (await isOf(dialect, file)) own.push(file);
      if (own.length < 2 || own.every(({ blob }) => blob!.size === 0)) continue;
      const order = ({ name }: Stream) => patterns.findIndex((pattern) => pattern.test(name));
      own.sort((a, b) => order(a) - order(b));
      const blobs = own.map(({ blob }) => blob!);
      const isLarge = blobs.reduce((sum, { size }) => sum + size, 0) > mostBytes;
      found[found.indexOf(own[0]!)] = { ...own[0]!, blob: await (isLarge ? oneAfterAnother(blobs) : mergedBlob(blobs, dialect)) };
      for (const file of own.slice(1)) found.splice(found.indexOf(file), 1);
    }
  }
  return found;
}

/** Returns whether a file has records of a dialect, or may get some: it has no whole line. */
async function isOf(dialect: Dialect, { blob, name }: Stream): Promise<boolean> {
  const readAs = await readAsOf(blob!, { name });
  if (readAs !== null) return readAs.dialect.name === dialect.name;
  return !new Uint8Array(await blob!.slice(0, 1 << 16).arrayBuffer()).includes(LF);
}

/** Returns whole lines in the order of their times, and of their steps within one; then what follows the last LF of each file. */
async function mergedBlob(blobs: readonly Blob[], dialect: Dialect): Promise<Blob> {
  const lines: Line[] = [];
  const ends: number[] = [];
  for (const [file, blob] of blobs.entries()) ends.push(addLines(new Uint8Array(await blob.arrayBuffer()), file, dialect, lines));
  lines.sort((a, b) => a.time - b.time || a.step - b.step || a.file - b.file);
  const pieces: Blob[] = [];
  for (let at = 0; at < lines.length; ) {
    const { file, start } = lines[at]!;
    let end = start;
    // Lines of one file that stay next to each other are one piece.
    while (at < lines.length && lines[at]!.file === file && lines[at]!.start === end) end = lines[at++]!.end;
    pieces.push(blobs[file]!.slice(start, end));
  }
  return new Blob([...pieces, ...blobs.map((blob, file) => blob.slice(ends[file]))]);
}

/** Returns all bytes of the files; one that ends without an LF has one added, so that no line goes on in the next file. */
async function oneAfterAnother(blobs: readonly Blob[]): Promise<Blob> {
  const ends = await Promise.all(blobs.map((blob) => blob.slice(-1).text()));
  return new Blob(blobs.flatMap((blob, file) => (file < blobs.length - 1 && ends[file] !== "\n" && blob.size > 0 ? [blob, "\n"] : [blob])));
}

/** Adds the whole lines of a file, and returns where they end; a line without a time, or with an earlier one, stays after the one before. */
function addLines(data: Uint8Array, file: number, dialect: Dialect, lines: Line[]): number {
  const form = formOf(dialect);
  let before = { time: -Number.MAX_VALUE, step: -Number.MAX_VALUE };
  let start = 0;
  for (let at = data.indexOf(LF); at >= 0; at = data.indexOf(LF, start)) {
    const said = placeOf(data.subarray(start, at), form, dialect);
    if (said && (said.time > before.time || (said.time === before.time && said.step > before.step))) before = said;
    lines.push({ ...before, file, start, end: at + 1 });
    start = at + 1;
  }
  return start;
}

function placeOf(line: Uint8Array, form: RowForm, { step, time = [] }: Dialect): { time: number; step: number } | null {
  const found = form.read(line, false);
  if (found === null || !("value" in found)) return null;
  const members = flattened(found.value);
  const seconds = time.map(({ key, unit }) => timeOf(members.get(key), unit)?.seconds).find((each) => each !== undefined);
  const number = step.map((key) => numberIn(members.get(key))).find((each) => each !== null);
  return seconds === undefined ? null : { time: seconds, step: number ?? -Number.MAX_VALUE };
}
