/** Reads the files beside a stream. */

import { sidecarNotAFile, sidecarTooLong } from "../src/messages.js";
import type { Sidecar } from "../src/sidecars.js";
import { LIMITS } from "../src/tables.js";
import type { SidecarFile } from "./selection.js";

/** Returns a file beside a stream with its content, or with the reason why it has none. */
export async function readSidecar({ name, blob }: SidecarFile): Promise<Sidecar> {
  if (blob === null) return { name, data: null, failure: sidecarNotAFile };
  if (blob.size > LIMITS.max_line_bytes) return { name, data: null, failure: sidecarTooLong({ limit: LIMITS.max_line_bytes }) };
  return { name, data: new Uint8Array(await blob.arrayBuffer()) };
}
