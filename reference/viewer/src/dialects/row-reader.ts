/** Makes rows from the log of another program, which is read as a dialect says. */

import { chunks } from "../../../typescript/page/unpacking.js";
import type { Environment } from "../../../typescript/src/profiles.js";
import type { Json } from "../protocol.js";
import type { ReadAs } from "./dialect.js";
import { type Cut, DocumentCutter } from "./documents.js";
import { formOf, type RowForm } from "./forms.js";
import { isMembers, Mapping, memberAt, type Members, type Neutral, numberIn } from "./mapping.js";
import { HEAD_BYTES, recognize } from "./recognition.js";

/** One record, and what it says. */
export interface Row extends Neutral {
  config: Members | null;
  /** The name that the record has for its run. */
  run: string | null;
  /** How the run ended, as run_end names it. */
  end: string | null;
  /** The last step that was planned. */
  planned: number | null;
  /** A metric, and which values of it are better. */
  goal: readonly [string, string] | null;
}

/** Reads the lines of one file, or the objects of one document, in their order. */
export class RowReader {
  private readonly form: RowForm;
  private readonly mapping: Mapping;
  private readonly cutter: DocumentCutter | null;

  constructor(readonly readAs: ReadAs) {
    const { dialect } = readAs;
    this.form = formOf(dialect);
    this.mapping = new Mapping(readAs);
    this.cutter = dialect.form.type === "document" ? new DocumentCutter(dialect.form.rows ?? "", dialect.form.rows ? dialect.planned : []) : null;
  }

  get name(): string {
    return this.readAs.dialect.name;
  }

  /** The cutter of a document; null for lines. */
  get document(): DocumentCutter | null {
    return this.cutter;
  }

  /** True where a part of the file can be read without what is before it, but for a header. */
  get canBegin(): boolean {
    // What is in one line may depend on the lines before.
    return this.cutter === null && this.readAs.dialect.form.index === undefined;
  }

  /** Returns the objects that a chunk of a document completes. */
  cut(chunk: Uint8Array): Cut[] {
    return this.cutter?.feed(chunk) ?? [];
  }

  /** Returns the row of a line, the rule by which it cannot be read, or null for what is not a record. */
  read(data: Uint8Array, isFirst: boolean): Row | { reason: string } | null {
    const found = this.form.read(data, isFirst);
    return found === null || "reason" in found ? found : this.rowOf(found.value);
  }

  private plannedIn(value: Members): number | null {
    const { planned = [] } = this.readAs.dialect;
    return planned.map((key) => numberIn(memberAt(value, key))).find((found) => found !== null) ?? null;
  }

  private rowOf(value: Members): Row {
    const { config, config_except: except = [], run, end, define } = this.readAs.dialect;
    const [settings, name] = [config === undefined ? undefined : memberAt(value, config), run === undefined ? undefined : memberAt(value, run)];
    const ending = end && value[end.key] === end.equals ? wordIn(end.reasons, memberAt(value, end.reason)) : null;
    const metric = define && value[define.key] === define.equals ? memberAt(value, define.name) : null;
    const goal = define && typeof metric === "string" ? wordIn(define.goals, memberAt(value, define.goal)) : null;
    return {
      ...this.mapping.neutral(value), config: isMembers(settings) ? without(settings, except) : null,
      run: typeof name === "string" && name !== "" ? name : null, end: ending, planned: this.plannedIn(value), goal: goal === null ? null : [metric as string, goal],
    };
  }
}

function without(members: Members, names: readonly string[]): Members {
  return Object.fromEntries(Object.entries(members).filter(([name]) => !names.includes(name)));
}

function wordIn(words: { readonly [word: string]: string }, word: Json | undefined): string | null {
  return typeof word === "string" && Object.hasOwn(words, word) ? words[word]! : null;
}

/** Returns how a file of another program is read; null for one of toyspec's own profiles, and for all others. */
export async function readAsOf(blob: Blob, environment: Environment): Promise<ReadAs | null> {
  return recognize(await headOf(blob), environment);
}

/** Returns the bytes by which a file is recognized, unpacked. */
export async function headOf(blob: Blob): Promise<Uint8Array> {
  const head = new Uint8Array(HEAD_BYTES);
  let length = 0;
  for await (const chunk of chunks(blob, () => {})) {
    head.set(chunk.subarray(0, HEAD_BYTES - length), length);
    length = Math.min(HEAD_BYTES, length + chunk.length);
    if (length === HEAD_BYTES) break;
  }
  return head.subarray(0, length);
}
