/** Makes places in an editor of what `toyspec check --format json` reports. */

/** A finding of a file, or of the whole file where it is compressed. */
export interface Finding {
  rule: string;
  severity: "error" | "warning" | "info";
  line: number;
  /** Of the first byte that is wrong. */
  offset: number;
  pointer: string;
  message: string;
  help: string;
}

export interface CheckedFile {
  path: string;
  findings: Finding[];
  /** How many more findings of each rule there are. */
  suppressed: Record<string, number>;
}

/** What one call of the checker gave. */
export interface CheckReport {
  files: CheckedFile[];
  /** What could not be read. */
  errors: { path: string; message: string }[];
}

/** A finding at its place: lines and characters from 0, as an editor counts them. */
export interface Marked {
  from: { line: number; character: number };
  to: { line: number; character: number };
  severity: Finding["severity"];
  rule: string;
  text: string;
}

const FOUND = [0, 1];

/** Returns what the checker printed; throws with the reason if it did not check. */
export function reportOf(stdout: string, stderr: string, status: number | null): CheckReport {
  try {
    const { files, errors } = JSON.parse(stdout) as CheckReport;
    if (Array.isArray(files) && Array.isArray(errors)) return { files, errors };
  } catch {
    // What it printed on standard error says why.
  }
  const reason = stderr.trim() || (FOUND.includes(status ?? -1) ? "it printed no report" : `it ended with ${status ?? "a signal"}`);
  throw new Error(`toyspec check: ${reason}`);
}

/** Returns the findings of *file*, whose bytes are *bytes*, at their places; null for a file that is not text. */
export function marked(file: CheckedFile, bytes: Uint8Array | null): Marked[] {
  const lines = bytes === null ? null : new Lines(bytes);
  const start = { line: 0, character: 0 };
  const found = file.findings.map(({ rule, severity, message, help, offset }) => ({
    ...(lines?.range(offset) ?? { from: start, to: start }),
    severity,
    rule,
    text: `${message}. Help: ${help}`,
  }));
  const more = Object.entries(file.suppressed).map(([rule, count]): Marked => ({ from: start, to: start, severity: "info", rule, text: `${count} more findings of ${rule} are not listed` }));
  return [...found, ...more];
}

const [LF, CR, QUOTE, BACKSLASH] = [10, 13, 34, 92];
const BOM = [0xef, 0xbb, 0xbf];
const ENDS: ReadonlySet<number> = new Set([LF, CR, ...[",", "}", "]", " ", "\t"].map((text) => text.charCodeAt(0))]);

/** Lines as an editor counts them: they end at CR LF, LF, or CR alone. */
class Lines {
  private readonly starts = [0];

  constructor(private readonly bytes: Uint8Array) {
    if (BOM.every((byte, index) => bytes[index] === byte)) this.starts[0] = BOM.length;
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at] === LF || (bytes[at] === CR && bytes[at + 1] !== LF)) this.starts.push(at + 1);
    }
  }

  /** Returns the value that begins at *offset*, or the whole line where one begins there. */
  range(offset: number): { from: Marked["from"]; to: Marked["to"] } {
    const place = Math.min(Math.max(offset, this.starts[0]!), this.bytes.length);
    const line = this.lineAt(place);
    const end = place === this.starts[line] ? this.endOfLine(place) : this.endOfValue(place);
    return { from: { line, character: this.character(line, place) }, to: { line, character: this.character(line, end) } };
  }

  private lineAt(offset: number): number {
    let [low, high] = [0, this.starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private endOfLine(offset: number): number {
    let end = offset;
    while (end < this.bytes.length && this.bytes[end] !== LF && this.bytes[end] !== CR) end++;
    return end;
  }

  private endOfValue(offset: number): number {
    const last = this.endOfLine(offset);
    let end = offset + 1;
    if (this.bytes[offset] === QUOTE) {
      for (; end < last && this.bytes[end] !== QUOTE; end++) if (this.bytes[end] === BACKSLASH) end++;
      return Math.min(end + 1, last);
    }
    while (end < last && !ENDS.has(this.bytes[end]!)) end++;
    return Math.min(end, last);
  }

  /** Returns the characters, in units of UTF-16, from the start of the line to *offset*. */
  private character(line: number, offset: number): number {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytes.subarray(this.starts[line]!, offset)).length;
  }
}
