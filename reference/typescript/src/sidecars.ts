/** Checks the files beside a stream, run.json and flow.json: see spec/bundle.md. */

import { byPlace, type Collector } from "./collecting.js";
import { shortened } from "./escaping.js";
import * as messages from "./messages.js";
import { placeInText } from "./places.js";
import { judgeRecord, type RecordFault } from "./record-validation.js";
import type { ObjectNode } from "./scanner.js";
import { PROFILES } from "./tables.js";
import { validateText } from "./line-validation.js";

/** A file beside the stream: its bytes, or why they could not be read. */
export interface Sidecar {
  name: "run.json" | "flow.json";
  data: Uint8Array | null;
  trouble?: string;
}

/** Names of the files that can lie beside a stream, in the order in which they are checked. */
export const SIDECARS = ["run.json", "flow.json"] as const;
const EMPTY = new Uint8Array();

/** Returns the kaun manifest among the files beside a stream, undefined where none can be read. */
export function manifestIn(sidecars: readonly Sidecar[]): ObjectNode | undefined {
  const data = sidecars.find((sidecar) => sidecar.name === "run.json")?.data;
  const manifest = data ? validateText(data, true).value : null;
  return manifest?.members.has("run_id") && !manifest.members.has("kind") ? manifest : undefined;
}

/** Tells whether a kaun manifest is among the files beside a stream. */
export function hasManifest(sidecars: readonly Sidecar[]): boolean {
  return manifestIn(sidecars) !== undefined;
}

/** Reports the sidecars that cannot be read, and what is wrong with a kaun manifest. */
export function judgeSidecars(sidecars: readonly Sidecar[], directory: string | undefined, collector: Collector): void {
  for (const sidecar of sidecars) {
    const value = judgeText(sidecar, collector);
    if (value && sidecar.name === "run.json" && collector.profile === "kaun/v1") judgeManifest(sidecar.data!, value, directory, collector);
  }
}

function judgeText({ name, data, trouble }: Sidecar, collector: Collector): ObjectNode | null {
  const validated = data === null ? null : validateText(data, true);
  if (validated?.value) return validated.value;
  // A repeated key does not make a file unreadable.
  const fault = validated?.faults.find(({ rule }) => rule !== "duplicate-key");
  const message = messages.sidecarUnreadable({ name, reason: trouble ?? fault?.message ?? messages.sidecarEmpty });
  collector.add("sidecar-unreadable", placeInText(data ?? EMPTY, fault?.offset ?? 0), message, { sidecar: name });
  return null;
}

function judgeManifest(data: Uint8Array, manifest: ObjectNode, directory: string | undefined, collector: Collector): void {
  const sidecar = "run.json";
  const faults = judgeRecord(manifest, { kind: "run", fields: PROFILES["kaun/v1"].kinds["run"]!.fields, takesFloats: true, saysSo: true });
  for (const fault of faults.sort(byPlace)) {
    collector.add(fault.rule, placeInText(data, fault.offset), messageOf(fault), { pointer: fault.pointer, sidecar });
  }
  const runId = manifest.members.get("run_id");
  const wrong = faults.some((fault) => fault.pointer === "/run_id");
  if (directory === undefined || wrong || runId?.type !== "string" || runId.value === directory) return;
  const message = messages.runIdMismatch({ found: shortened(runId.value), directory: shortened(directory) });
  collector.add("run-id-mismatch", placeInText(data, runId.offset), message, { pointer: "/run_id", sidecar });
}

function messageOf(fault: RecordFault): string {
  return fault.key ? messages.unknownKeyOfManifest({ key: shortened(fault.key.path) }) : fault.message;
}
