/** What was dropped, picked or pasted, and the streams in it: see spec/bundle.md. */

import { rankOf, streamName } from "../src/profiles.js";
import { SIDECARS, type Sidecar } from "../src/sidecars.js";
import { SEAL, type SealedBundle } from "./seals.js";

/** A file, and its path from what was dropped or picked. */
export interface PickedFile {
  path: string;
  blob: Blob;
}

/** Files of their own, and folders with everything in them; a folder can be empty. */
export interface Selection {
  files: PickedFile[];
  folders: { name: string; files: PickedFile[] }[];
}

/** A file beside a stream; the blob is null where it is not a regular file. */
export interface SidecarFile {
  name: Sidecar["name"];
  blob: Blob | null;
}

/** Where the stream of a rank is. */
export interface RunPlace {
  rank: number;
  /** The stream of rank 0. */
  ofRankZero: Blob;
  /** Names of the files in the folder media of its bundle. */
  media: ReadonlySet<string>;
}

/** A stream to be checked, with what takes part in its verdict. */
export interface Stream {
  path: string;
  /** Null for a folder in which there is no stream. */
  blob: Blob | null;
  /** Name of the file, which helps to determine the profile. */
  name: string;
  /** Path of the folder in which it was found; absent for a file of its own. */
  root?: string;
  /** True where it was found below that folder, so that it is skipped if it is not a log. */
  isBelow?: boolean;
  /** For a folder without a stream: true where other files of a run are in it. */
  isBundle?: boolean;
  /** Name of the directory that the run's id is compared with. */
  directory?: string | undefined;
  /** What the rules on ranks and media ask for; absent where its name implies no rank. */
  place?: RunPlace;
  /** They take part in the verdict on events.jsonl; beside others they help to determine the profile. */
  sidecars: SidecarFile[];
  /** The seal of its bundle and what it may name, where there is one; absent for a rank from 1 on. */
  sealed?: SealedBundle;
  /** What people and programs say about the run afterwards, where there is such a file. */
  annotations?: Blob;
  /** The report of the import that made the run, where there is one. */
  imported?: Blob;
  /** Names of the logs that later starts of the run moved away, newest first; absent where there is none. */
  earlier?: string[];
}

/** The hash of a viewer that asks the page that opened it for a selection. */
export const HANDED = "#handed";
const EVENTS = "events.jsonl";
export const MEDIA_FOLDER = "media";
export const ANNOTATIONS = "annotations.jsonl";
const IMPORTED = "import.json";
const CHECKPOINTED = "trainer_state.json";
const STREAM_NAMES: ReadonlySet<string> = new Set([EVENTS, "metrics.jsonl", `${EVENTS}.gz`, "metrics.jsonl.gz"]);
const SIDECAR_NAMES: ReadonlySet<string> = new Set(SIDECARS);

/** Returns whether a file of this name is a stream; that of a rank from 1 on is one beside an events.jsonl. */
export function isStreamName(name: string): boolean {
  return STREAM_NAMES.has(name) || rankOf(name) !== undefined;
}

/** Which other files of a folder may be logs, by their names; their content has to confirm it. */
export interface Hints {
  isLog(name: string): boolean;
}

const NO_HINTS: Hints = { isLog: () => false };

/** Returns the streams of a selection in the order in which `toyspec check` lists them. */
export function streamsIn(selection: Selection, hints: Hints = NO_HINTS): Stream[] {
  const found = looseStreams(selection.files);
  for (const folder of selection.folders) {
    const below = streamsBelow(folder.files, hints);
    const root = folder.name;
    for (const stream of below) found.push({ ...stream, root, isBelow: stream.isBelow || stream.path !== `${root}/${stream.name}` });
    const isBundle = folder.files.some(({ path }) => [...SIDECARS, SEAL].some((name) => path === `${root}/${name}`));
    if (below.length === 0) found.push({ path: root, blob: null, name: "", sidecars: [], isBundle });
  }
  return found;
}

/** Checks files as if each was named; those that belong beside an events.jsonl take part in its verdict. */
function looseStreams(files: readonly PickedFile[]): Stream[] {
  const hasEvents = files.some((file) => streamName(file.path) === EVENTS);
  const beside = hasEvents ? files.filter((file) => SIDECAR_NAMES.has(nameOf(file.path))) : [];
  return files
    .filter((file) => !beside.includes(file))
    .map((file) => ({ path: file.path, blob: file.blob, name: nameOf(file.path), sidecars: streamName(file.path) === EVENTS ? sidecarsOf(beside) : [] }));
}

interface Directory {
  name: string;
  files: Map<string, PickedFile>;
  directories: Map<string, Directory>;
}

function streamsBelow(files: readonly PickedFile[], hints: Hints): Stream[] {
  const root: Directory = { name: "", files: new Map(), directories: new Map() };
  for (const file of files) {
    const parts = file.path.split("/");
    let directory = root;
    for (const name of parts.slice(0, -1)) {
      let inner = directory.directories.get(name);
      if (!inner) directory.directories.set(name, (inner = { name, files: new Map(), directories: new Map() }));
      directory = inner;
    }
    directory.files.set(parts.at(-1)!, file);
  }
  const found: Stream[] = [];
  const pending = [{ directory: root, hints }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { directory } = next;
    const names = [...directory.files.keys()].sort();
    const own = ownStreams(names).map((name) => streamIn(directory, directory.files.get(name)!));
    found.push(...(own.length > 0 ? own : hintedStreams(directory, names, next.hints)));
    // What a run shows, tables among it, is not a log.
    const inner = [...directory.directories.keys()].filter((name) => own.length === 0 || name !== MEDIA_FOLDER).sort().reverse();
    const older = olderCheckpoints(inner, directory.files.has(CHECKPOINTED));
    pending.push(...inner.map((name) => ({ directory: directory.directories.get(name)!, hints: older.has(name) ? NO_HINTS : next.hints })));
  }
  return found;
}

/** Returns the names of streams; those of the other ranks come after that of rank 0, in the order of their numbers. */
function ownStreams(names: readonly string[]): string[] {
  const ranks = names.filter((name) => (rankOf(name) ?? 0) > 0).sort((a, b) => rankOf(a)! - rankOf(b)!);
  return names.filter((name) => STREAM_NAMES.has(name)).flatMap((name) => (name === EVENTS ? [name, ...ranks] : [name]));
}

/** Returns the checkpoints of Hugging Face's Trainer whose logs are in a later one, or in the directory itself. */
function olderCheckpoints(names: readonly string[], isInDirectory: boolean): ReadonlySet<string> {
  const stepOf = (name: string) => Number(name.slice(name.indexOf("-") + 1));
  const all = names.filter((name) => /^checkpoint-\d{1,18}$/.test(name)).sort((a, b) => stepOf(a) - stepOf(b));
  return new Set(isInDirectory ? all : all.slice(0, -1));
}

/** Returns the logs of other programs in a directory without a stream, as far as their names say. */
function hintedStreams(directory: Directory, names: readonly string[], hints: Hints): Stream[] {
  const annotations = directory.files.get(ANNOTATIONS);
  const said = annotations ? { annotations: annotations.blob } : {};
  const logs = names.filter((name) => hints.isLog(name) && name !== ANNOTATIONS).map((name) => directory.files.get(name)!);
  return logs.map(({ path, blob }) => ({ path, blob, name: nameOf(path), isBelow: true, sidecars: [], ...said }));
}

function streamIn(directory: Directory, file: PickedFile): Stream {
  const name = nameOf(file.path);
  const stream: Stream = { path: file.path, blob: file.blob, name, sidecars: [] };
  const rank = rankOf(name);
  const first = directory.files.get(EVENTS);
  const media = new Set(directory.directories.get(MEDIA_FOLDER)?.files.keys());
  if (rank !== undefined && first) stream.place = { rank, ofRankZero: first.blob, media };
  // The seal is compared once, not again with the streams of other ranks.
  const sealed = STREAM_NAMES.has(name) ? sealedBundle(directory) : undefined;
  if (sealed) stream.sealed = sealed;
  const annotations = directory.files.get(ANNOTATIONS);
  if (annotations) stream.annotations = annotations.blob;
  const imported = streamName(name) === EVENTS ? directory.files.get(IMPORTED) : undefined;
  if (imported) stream.imported = imported.blob;
  const earlier = earlierLogs(directory, name);
  if (earlier.length > 0) stream.earlier = earlier;
  const sidecars = SIDECARS.flatMap((sidecar): SidecarFile[] => {
    const beside = directory.files.get(sidecar);
    if (beside) return [{ name: sidecar, blob: beside.blob }];
    return directory.directories.has(sidecar) ? [{ name: sidecar, blob: null }] : [];
  });
  return streamName(name) === EVENTS ? { ...stream, directory: directory.name, sidecars } : { ...stream, sidecars };
}

function earlierLogs(directory: Directory, stream: string): string[] {
  const isThere = (name: string) => directory.files.has(name) || directory.directories.has(name);
  const last = `${stream}.prev`;
  if (!isThere(last)) return [];
  const numbered: string[] = [];
  while (isThere(`${last}-${numbered.length + 1}`)) numbered.push(`${last}-${numbered.length + 1}`);
  return [last, ...numbered.reverse()];
}

function sealedBundle(bundle: Directory): SealedBundle | undefined {
  const seal = bundle.files.get(SEAL)?.blob ?? (bundle.directories.has(SEAL) ? null : undefined);
  if (seal === undefined) return undefined;
  const files = new Map<string, Blob>();
  const directories = new Set<string>();
  const pending: [string, Directory][] = [["", bundle]];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const [path, directory] = next;
    for (const [name, file] of directory.files) if (name !== "") files.set(path + name, file.blob);
    for (const [name, inner] of directory.directories) {
      directories.add(path + name);
      pending.push([`${path}${name}/`, inner]);
    }
  }
  return { seal, files, directories };
}

function sidecarsOf(files: readonly PickedFile[]): SidecarFile[] {
  return SIDECARS.flatMap((name) => {
    const file = files.find((candidate) => nameOf(candidate.path) === name);
    return file ? [{ name, blob: file.blob }] : [];
  });
}

function nameOf(path: string): string {
  return path.split("/").at(-1)!;
}
