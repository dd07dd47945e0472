/** Names that are cut to fit and stay different. */

const ELLIPSIS = "…";
/** A point is part of a number. */
const WORDS = /([-_/ ]+)/;
const LEAST = 8;
/** Fewer letters of a start say nothing. */
const LEAST_KEPT = 3;

/** Returns *text*, cut in its middle to *limit* characters. */
export function cutMiddle(text: string, limit: number): string {
  const letters = [...text];
  if (letters.length <= limit) return text;
  const end = Math.floor((limit - 1) / 2);
  return letters.slice(0, limit - 1 - end).join("") + ELLIPSIS + letters.slice(letters.length - end).join("");
}

/**
 * Returns the cut of each of *names* to *limit* characters, at least 8; those that cuts would make alike are whole. If one
 * does not fit, the folder that all share is left out, and each is cut in its middle; where that makes two alike, what
 * all names share is cut, word by word, or else what the alike ones share.
 */
export function cutApart(names: Iterable<string>, limit: number): Map<string, string> {
  const most = Math.max(limit, LEAST);
  const whole = [...new Set(names)];
  if (whole.every((name) => [...name].length <= most)) return new Map(whole.map((name) => [name, name]));
  const folder = sharedFolder(whole);
  const cuts = cutNames(whole.map((name) => name.slice(folder)), most);
  return new Map(whole.map((name) => [name, cuts.get(name.slice(folder))!]));
}

/** Returns the length of the folder that all names begin with. */
function sharedFolder(names: readonly string[]): number {
  const first = names[0]!;
  let end = first.lastIndexOf("/") + 1;
  while (end > 0 && !names.every((name) => name.startsWith(first.slice(0, end)))) end = end < 2 ? 0 : first.lastIndexOf("/", end - 2) + 1;
  return end;
}

function cutNames(different: readonly string[], most: number): Map<string, string> {
  const middle = new Map(different.map((name) => [name, cutMiddle(name, most)]));
  if (isApart(middle)) return middle;
  const shorter = withoutSharedWords(different, most);
  if (shorter && isApart(shorter)) return shorter;
  for (const group of alikeOf(middle)) for (const [name, cut] of withoutSharedWords(group, most) ?? group.map((name) => [name, name])) middle.set(name!, cut!);
  return isApart(middle) ? middle : new Map(different.map((name) => [name, name]));
}

/** Returns the names whose cuts are alike, together. */
function alikeOf(cuts: ReadonlyMap<string, string>): string[][] {
  const found = new Map<string, string[]>();
  for (const [name, cut] of cuts) {
    const known = found.get(cut);
    if (known) known.push(name);
    else found.set(cut, [name]);
  }
  return [...found.values()].filter(({ length }) => length > 1);
}

function isApart(cuts: ReadonlyMap<string, string>): boolean {
  return new Set(cuts.values()).size === cuts.size;
}

/** Returns the cuts of names that differ in some of equally many words; null if they do not fit so. */
function withoutSharedWords(names: readonly string[], limit: number): Map<string, string> | null {
  const words = names.map((name) => name.split(WORDS));
  const first = words[0]!;
  if (words.some(({ length }) => length !== first.length)) return null;
  const shared = first.map((word, at) => words.every((each) => each[at] === word));
  // The start of a name says most; a date and a number at its end say least.
  for (let end = shared.length; end > 0; end--) {
    if (!shared[end - 1]) continue;
    let begin = end - 1;
    while (begin > 0 && shared[begin - 1]) begin--;
    const cut = [...first.slice(begin, end).join("")];
    if (cut.length > 1) {
      for (const each of words) each.fill(ELLIPSIS, begin, begin + 1).fill("", begin + 1, end);
      const found = words.map((each) => each.join(""));
      const room = limit - Math.max(...found.map((each) => [...each].length));
      // Of a shared start as much is kept as fits.
      const kept = begin > 0 || room < LEAST_KEPT ? "" : cut.slice(0, room).join("");
      if (room >= 0) return new Map(names.map((name, at) => [name, kept + found[at]!]));
    }
    end = begin + 1;
  }
  return null;
}
