/** Writes the files that media records name: see spec/bundle.md. */

import { closeSync, fsyncSync, lstatSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { StreamRefusedError, StreamWriteError } from "./append-file.js";

/** Writes a file that is named after its content into a folder of the bundle: it is whole under its name, or not there. */
export function storeOnce(path: string, content: Uint8Array): void {
  const folder = dirname(path);
  const there = lstatSync(folder, { throwIfNoEntry: false });
  if (there && !there.isDirectory()) throw new StreamRefusedError(`${folder}: it must be a folder of the bundle, not a link or a file`);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile() && found.size === content.length) return;
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    mkdirSync(folder, { recursive: true });
    const descriptor = openSync(temporary, "w");
    try {
      writeFileSync(descriptor, content);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new StreamWriteError(path, "the file cannot be written", error);
  }
}
