/** Checks the files beside a stream, run.json and flow.json: see spec/bundle.md. */

import { byPlace, type Collector } from "./collecting.js";
import { shortened } from "./escaping.js";
import * as messages from "./messages.js";
import { placeInText } from "./places.js";
import { validateRecord, type RecordProblem } from "./record-validation.js";
import type { ObjectNode } from "./scanner.js";
import { PROFILES } from "./tables.js";
import { validateText } from "./line-validation.js";

/** A file beside the stream: its bytes, or why they could not be read. */
export interface Sidecar {
  name: "run.json" | "flow.json";
  data: Uint8Array | null;
  failure?: string;
}

/** Names of the files that can lie beside a stream, in the order in which they are checked. */
export const SIDECARS = ["run.json", "flow.json"] as const;
const EMPTY = new Uint8Array();

/** Returns the kaun manifest among the files beside a stream, undefined where none can be read. */
export function manifestIn(sidecars: readonly Sidecar[]): ObjectNode | undefined {
  const manifest = objectIn(sidecars);
  return manifest?.members.has("run_id") && !manifest.members.has("kind") ? manifest : undefined;
}

/** Returns the object in run.json, whichever program wrote it. */
export function objectIn(sidecars: readonly Sidecar[]): ObjectNode | undefined {
  const data = sidecars.find((sidecar) => sidecar.name === "run.json")?.data;
  return (data && validateText(data, true).value) || undefined;
}

/** Returns whether a kaun manifest is among the files beside a stream. */
export function hasManifest(sidecars: readonly Sidecar[]): boolean {
  return manifestIn(sidecars) !== undefined;
}

/** Reports the sidecars that cannot be read, and what is wrong with a kaun manifest. */
export function checkSidecars(sidecars: readonly Sidecar[], directory: string | undefined, collector: Collector): void {
  for (const sidecar of sidecars) {
    const value = checkText(sidecar, collector);
    if (value && sidecar.name === "run.json" && collector.profile === "kaun/v1") checkManifest(sidecar.data!, value, directory, collector);
  }
}

function checkText({ name, data, failure }: Sidecar, collector: Collector): ObjectNode | null {
  const validated = data === null ? null : validateText(data, true);
  if (validated?.value) return validated.value;
  // A repeated key does not make a file unreadable.
  const problem = validated?.problems.find(({ rule }) => rule !== "duplicate-key");
  const message = messages.sidecarUnreadable({ name, reason: failure ?? problem?.message ?? messages.sidecarEmpty });
  collector.add("sidecar-unreadable", placeInText(data ?? EMPTY, problem?.offset ?? 0), message, { sidecar: name });
  return null;
}

function checkManifest(data: Uint8Array, manifest: ObjectNode, directory: string | undefined, collector: Collector): void {
  const sidecar = "run.json";
  const problems = validateRecord(manifest, { kind: "run", fields: PROFILES["kaun/v1"].kinds["run"]!.fields, takesFloats: true, reportsFloat: true });
  for (const problem of problems.sort(byPlace)) {
    collector.add(problem.rule, placeInText(data, problem.offset), messageOf(problem), { pointer: problem.pointer, sidecar });
  }
  const runId = manifest.members.get("run_id");
  const wrong = problems.some((problem) => problem.pointer === "/run_id");
  if (directory === undefined || wrong || runId?.type !== "string" || runId.value === directory) return;
  const message = messages.runIdMismatch({ found: shortened(runId.value), directory: shortened(directory) });
  collector.add("run-id-mismatch", placeInText(data, runId.offset), message, { pointer: "/run_id", sidecar });
}

function messageOf(problem: RecordProblem): string {
  return problem.key ? messages.unknownKeyOfManifest({ key: shortened(problem.key.path) }) : problem.message;
}
