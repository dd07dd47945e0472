/** Small selections in the fragment of an address, which a browser does not send to any server. */

import type { PickedFile, Selection, Stream } from "./selection.js";

/** Most bytes of files that an address holds, and that one is unpacked to. */
export const MOST_BYTES = 1 << 20;
/** Most characters of a fragment. */
export const LONGEST_FRAGMENT = 1 << 15;

const PACKED = "#z=";
const PLAIN = "#text=";

/** Thrown for a fragment that holds no selection; the message is for a person. */
export class LinkError extends Error {}

/** Returns the fragment for streams and the files beside them, null where they do not fit. */
export async function fragmentOf(streams: readonly Stream[]): Promise<string | null> {
  const files = streams.flatMap(filesOf);
  const total = files.reduce((sum, file) => sum + file.blob.size, 0);
  if (files.length === 0 || total > MOST_BYTES || streams.some((stream) => stream.blob === null)) return null;
  const header = JSON.stringify(files.map((file) => [file.path, file.blob.size])) + "\n";
  const packed = new Blob([header, ...files.map((file) => file.blob)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const fragment = PACKED + base64Url(await bytesOf(packed, MOST_BYTES));
  return fragment.length > LONGEST_FRAGMENT ? null : fragment;
}

/** Returns whether a fragment is meant to hold a selection. */
export function holdsSelection(fragment: string): boolean {
  return fragment.startsWith(PACKED) || fragment.startsWith(PLAIN);
}

/** Returns the selection that a fragment holds; rejects with a LinkError. */
export async function selectionIn(fragment: string): Promise<Selection> {
  if (fragment.length > LONGEST_FRAGMENT) throw new LinkError("the address is longer than this page makes them");
  if (fragment.startsWith(PLAIN)) return { files: [plainFile(fragment)], folders: [] };
  return grouped(await unpacked(fragment.slice(PACKED.length)));
}

function filesOf(stream: Stream): PickedFile[] {
  const folder = stream.path.slice(0, stream.path.length - stream.name.length);
  const beside = stream.sidecars.flatMap(({ name, blob }) => (blob ? [{ path: folder + name, blob }] : []));
  return stream.blob ? [{ path: stream.path, blob: stream.blob }, ...beside] : [];
}

/** `#text=…`, percent-encoded, with `&name=…` for the name of the file: what a page can write without compression. */
function plainFile(fragment: string): PickedFile {
  const values = new URLSearchParams(fragment.slice(1).replaceAll("+", "%2B"));
  return { path: values.get("name")?.split("/").at(-1) || "example.jsonl", blob: new Blob([values.get("text") ?? ""]) };
}

async function unpacked(text: string): Promise<PickedFile[]> {
  if (typeof DecompressionStream === "undefined") throw new LinkError("this browser cannot unpack it");
  let bytes: Uint8Array;
  try {
    const packed = new Blob([bytesFrom(text)]).stream();
    bytes = await bytesOf(packed.pipeThrough(new DecompressionStream("deflate-raw")), MOST_BYTES + LONGEST_FRAGMENT);
  } catch (error) {
    throw error instanceof LinkError ? error : new LinkError("the address was cut or changed");
  }
  const end = bytes.indexOf(0x0a);
  const entries = entriesIn(new TextDecoder().decode(bytes.subarray(0, Math.max(end, 0))));
  let at = end + 1;
  return entries.map(([path, size]) => {
    const blob = new Blob([bytes.slice(at, at + size)]);
    at += size;
    return { path, blob };
  });
}

function entriesIn(header: string): [path: string, size: number][] {
  try {
    const entries = JSON.parse(header) as unknown;
    const right = (entry: unknown): entry is [string, number] =>
      Array.isArray(entry) && typeof entry[0] === "string" && Number.isSafeInteger(entry[1]) && (entry[1] as number) >= 0;
    if (Array.isArray(entries) && entries.every(right)) return entries;
  } catch {
    // What follows says it.
  }
  throw new LinkError("the address holds no files");
}

function grouped(files: readonly PickedFile[]): Selection {
  const folders = new Map<string, PickedFile[]>();
  for (const file of files) {
    if (!file.path.includes("/")) continue;
    const name = file.path.split("/")[0]!;
    folders.set(name, [...(folders.get(name) ?? []), file]);
  }
  return {
    files: files.filter((file) => !file.path.includes("/")),
    folders: [...folders].map(([name, inside]) => ({ name, files: inside })),
  };
}

/** Reads a stream that may be a bomb: stops where it holds more than it may. */
async function bytesOf(stream: ReadableStream<Uint8Array>, limit: number): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const reader = stream.getReader();
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    length += step.value.length;
    if (length > limit) {
      await reader.cancel();
      throw new LinkError(`the address holds more than ${MOST_BYTES} bytes`);
    }
    parts.push(step.value as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function base64Url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function bytesFrom(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
}
