/** What people and programs say about a run afterwards, in annotations.jsonl: see ../../../../spec/annotations.md. */

import { chunks } from "../../../typescript/page/unpacking.js";
import { LIMITS } from "../../../typescript/src/tables.js";
import type { Json, Run } from "../protocol.js";

/** What all annotations of a run say together: the last one that has a key counts. */
export interface Annotations {
  name: string;
  group: string;
  notes: string;
  starred: boolean;
  hidden: boolean;
  /** True for a tag that the run gets, false for one that it loses. */
  tags: Map<string, boolean>;
}

const TEXTS = ["name", "group", "notes"] as const;
const FLAGS = ["starred", "hidden"] as const;

/** Returns what the file says about the stream of a name; a line that is not an annotation is ignored, and so is what follows the last LF. */
export async function readAnnotations(file: Blob, stream: string): Promise<Annotations> {
  const found: Annotations = { name: "", group: "", notes: "", starred: false, hidden: false, tags: new Map() };
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let pending = new Uint8Array();
  for await (const chunk of chunks(file, () => {})) {
    const data = new Uint8Array(pending.length + chunk.length);
    data.set(pending);
    data.set(chunk, pending.length);
    let start = 0;
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, start)) {
      take(found, lineOf(decoder, data.subarray(start, end)), stream);
      start = end + 1;
    }
    // A line that is too long is not kept whole; its end is not an annotation either.
    pending = data.slice(Math.max(start, data.length - LIMITS.max_line_bytes - 1));
  }
  return found;
}

function lineOf(decoder: TextDecoder, data: Uint8Array): Json {
  if (data.length > LIMITS.max_line_bytes) return null;
  try {
    return JSON.parse(decoder.decode(data)) as Json;
  } catch {
    return null;
  }
}

function take(found: Annotations, entry: Json, stream: string): void {
  if (entry === null || typeof entry !== "object" || Array.isArray(entry)) return;
  if (Object.hasOwn(entry, "stream") && entry["stream"] !== stream) return;
  for (const key of TEXTS) if (typeof entry[key] === "string") found[key] = entry[key];
  for (const key of FLAGS) if (typeof entry[key] === "boolean") found[key] = entry[key];
  const changes = entry["tags"];
  if (changes === null || changes === undefined || typeof changes !== "object" || Array.isArray(changes)) return;
  for (const [key, isAdded] of [["remove", false], ["add", true]] as const) {
    const tags = changes[key];
    for (const tag of Array.isArray(tags) ? tags : []) {
      if (typeof tag !== "string") continue;
      found.tags.delete(tag);
      found.tags.set(tag, isAdded);
    }
  }
}

/** Returns the row of a run with what its annotations say. */
export function annotated(row: Run, said: Annotations): Run {
  const kept = row.tags.filter((tag) => said.tags.get(tag) !== false);
  const added = [...said.tags].filter(([tag, isAdded]) => isAdded && !kept.includes(tag)).map(([tag]) => tag);
  const now = { name: said.name || row.name, group: said.group || row.group, notes: said.notes || row.notes, tags: [...kept, ...added] };
  const own: Run["said"] = {};
  if (now.name !== row.name) own.name = row.name;
  if (now.group !== row.group) own.group = row.group;
  if (now.notes !== row.notes) own.notes = row.notes;
  if (JSON.stringify(now.tags) !== JSON.stringify(row.tags)) own.tags = row.tags;
  return { ...row, ...now, starred: said.starred, hidden: said.hidden, ...(Object.keys(own).length > 0 ? { said: own } : {}) };
}
