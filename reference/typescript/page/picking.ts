/** Takes what a person drops, picks or pastes. */

import { SIDECARS } from "../src/sidecars.js";
import { SEAL } from "./seals.js";
import { ANNOTATIONS, isStreamName, MEDIA_FOLDER, type PickedFile, type Selection } from "./selection.js";

const SIDECAR_NAMES: ReadonlySet<string> = new Set(SIDECARS);

/** Which files of a folder are wanted besides those of bundles, by their names. */
type AlsoWanted = (name: string) => boolean;

/** Returns what was dropped. Call it while the event is handled: the browser forgets the files afterwards. */
export function dropped(transfer: DataTransfer, isAlsoWanted: AlsoWanted = () => false): Promise<Selection> {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const found = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  return fromEntries(found, isAlsoWanted);
}

async function fromEntries(found: { entry: FileSystemEntry | null; file: File | null }[], isAlsoWanted: AlsoWanted): Promise<Selection> {
  const selection: Selection = { files: [], folders: [] };
  for (const { entry, file } of found) {
    if (entry?.isDirectory) selection.folders.push({ name: entry.name, files: await filesBelow(entry as FileSystemDirectoryEntry, isAlsoWanted) });
    else if (file) selection.files.push({ path: file.name, blob: file });
  }
  return selection;
}

/** Returns the files of bundles below a directory, and what else is wanted; others are not opened. */
async function filesBelow(root: FileSystemDirectoryEntry, isAlsoWanted: AlsoWanted): Promise<PickedFile[]> {
  const found: PickedFile[] = [];
  const pending = [{ directory: root, path: root.name, isSealed: false }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const entries = await entriesOf(next.directory);
    // A seal may name every file below it.
    const isSealed = next.isSealed || entries.some((entry) => entry.name === SEAL);
    for (const entry of entries) {
      const path = `${next.path}/${entry.name}`;
      const isWanted = isSealed || isBundleName(entry.name);
      if (entry.isDirectory) pending.push({ directory: entry as FileSystemDirectoryEntry, path, isSealed });
      // A directory with the name of a sidecar is one that cannot be read.
      if (entry.isDirectory && isWanted) found.push({ path: `${path}/`, blob: new Blob() });
      if (entry.isFile && (isWanted || isAlsoWanted(entry.name))) found.push({ path, blob: await fileOf(entry as FileSystemFileEntry) });
      // A check only asks whether a file of media is there.
      else if (entry.isFile && next.directory.name === MEDIA_FOLDER) found.push({ path, blob: new Blob() });
    }
  }
  return found;
}

async function entriesOf(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // A reader gives a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** Returns what was picked in a dialog, files or a folder. */
export function picked(files: Iterable<File>, isAlsoWanted: AlsoWanted = () => false): Selection {
  const selection: Selection = { files: [], folders: [] };
  const folders = new Map<string, PickedFile[]>();
  const sealed = [...files].map((file) => file.webkitRelativePath).filter((path) => path.endsWith(`/${SEAL}`));
  const isSealed = (path: string) => sealed.some((seal) => path.startsWith(seal.slice(0, -SEAL.length)));
  for (const file of files) {
    const path = file.webkitRelativePath;
    if (path === "") {
      selection.files.push({ path: file.name, blob: file });
      continue;
    }
    const root = path.split("/")[0]!;
    const inside = folders.get(root) ?? [];
    folders.set(root, inside);
    if (isWanted(path) || isSealed(path) || isAlsoWanted(file.name)) inside.push({ path, blob: file });
  }
  selection.folders.push(...[...folders].map(([name, inside]) => ({ name, files: inside })));
  return selection;
}

function isWanted(path: string): boolean {
  const names = path.split("/").slice(1);
  return names.at(-2) === MEDIA_FOLDER || names.some(isBundleName);
}

/** Returns whether a name is that of a stream or of a file beside it. */
function isBundleName(name: string): boolean {
  return isStreamName(name) || name === ANNOTATIONS || SIDECAR_NAMES.has(name);
}

/** Returns text as a file; a last line without line feed gets one, since copying text often loses it. */
export function pasted(text: string): Selection {
  const whole = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return { files: [{ path: "pasted.jsonl", blob: new Blob([whole]) }], folders: [] };
}
