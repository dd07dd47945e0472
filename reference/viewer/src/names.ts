/** What each of several runs is called, and how names that are too long are cut: as toyspec.core.runs.names, with the same vectors. */

import type { Run } from "./protocol.js";
import { plain } from "./text.js";

const ELLIPSIS = "…";
/** A point is part of a number. */
const WORDS = /([-_/ ,=:]+)/;

/** By id, among all runs: a filter changes no name. */
let called: ReadonlyMap<string, { own: string; shown: string }> = new Map();

/** Gives names to the runs of a place, which are all that it has. */
export function callRuns(runs: Iterable<Run>): void {
  const all = [...runs];
  const names = namesAmong(all.map(({ name }) => name), all.map(({ id }) => id));
  called = new Map(all.map(({ id, name }, at) => [id, { own: name, shown: names[at]! }]));
}

/** Returns what a run is called everywhere, inert; the mean of a group and a rank have the names that they came with. */
export function nameOf({ id, name }: Run, limit?: number): string {
  const known = called.get(id);
  return plain(known?.own === name ? known.shown : name, limit);
}

/** Returns what to call each of several runs: its own name, or its path where the name ends that, or another has it. */
export function namesAmong(names: readonly string[], paths: readonly string[]): string[] {
  const taken = new Map<string, number>();
  for (const each of [...names, ...paths]) taken.set(each, (taken.get(each) ?? 0) + 1);
  return names.map((name, at) => (taken.get(name)! > 1 || `/${paths[at]!}`.endsWith(`/${name}`) ? paths[at]! : name));
}

/**
 * Returns each of *names* whole, or, where one is longer than *limit*, without words that all have at the same place. An
 * ellipsis is where words were. As few as suffice are cut, those at the end first. What differs is never cut: a name may
 * stay longer. *measure* returns the length of a text.
 */
export function cutShared(names: Iterable<string>, limit: number, measure = (text: string) => [...text].length): Map<string, string> {
  const whole = [...new Set(names)];
  let best = whole;
  const words = aligned(whole.map((name) => name.split(WORDS)));
  const columns = words.length > 1 ? words[0]!.length : 0;
  const isShared = (at: number) => words.every((each) => each[at] === words[0]![at]);
  const shared = Array.from({ length: columns }, (_, at) => isShared(at));
  for (let end = columns; end > 0 && best.some((name) => measure(name) > limit); end--) {
    if (!shared[end - 1]) continue;
    const begin = shared.lastIndexOf(false, end - 1) + 1;
    if ([...words[0]!.slice(begin, end).join("")].length > 1) for (const each of words) each.fill("", begin, end).splice(begin, 1, ELLIPSIS);
    const shorter = words.map((each) => each.join(""));
    if (new Set(shorter).size === whole.length) best = shorter;
    end = begin + 1;
  }
  return new Map(whole.map((name, at) => [name, best[at]!]));
}

/** Returns words, as many of each name: what is between those that all begin and end with is one, where it is not. */
function aligned(words: string[][]): string[][] {
  const least = Math.min(...words.map(({ length }) => length));
  if (words.every(({ length }) => length === least)) return words;
  const begin = alike(words, least - 1);
  const end = alike(words.map((each) => [...each].reverse()), least - 1 - begin);
  return words.map((each) => [...each.slice(0, begin), each.slice(begin, each.length - end).join(""), ...each.slice(each.length - end)]);
}

/** Returns the number of words, *most* at most, that all begin with. */
function alike(words: readonly (readonly string[])[], most: number): number {
  let at = 0;
  while (at < most && words.every((each) => each[at] === words[0]![at])) at++;
  return at;
}
