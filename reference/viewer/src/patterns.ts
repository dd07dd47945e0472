/**
 * Regular expressions of filters: the part of the syntax that all languages read alike, matched in linear time.
 *
 * A filter comes with a link, and names come from logs: with backtracking, a few characters of one could keep the page busy for
 * hours. Python has the same matcher, `toyspec.runs.patterns`.
 */

import { lowered } from "./lowered.js";

const [MOST_STATES, MOST_REPEATS, MOST_KNOWN, DEEPEST] = [2000, 200, 5000, 50];
const SPECIAL = "\\^$.|?*+()[]{}/-";
const CLASSES: { readonly [letter: string]: readonly Range[] } = { d: [["0", "9"]], w: [["0", "9"], ["_", "_"], ["a", "z"]], s: [["\t", "\r"], [" ", " "]] };

type Range = readonly [low: string, high: string];
/** A character in ranges, or, with `isOther`, one that is not. */
interface Letters {
  ranges: readonly Range[];
  isOther: boolean;
}
type Node = { type: "letters"; letters: Letters } | { type: "sequence"; parts: Node[] } | { type: "choice"; parts: Node[] } | { type: "repeat"; part: Node; least: number; most: number } | { type: "edge"; isEnd: boolean };

/** Reads a pattern, whose letters are compared in lower case. */
class Parser {
  private at = 0;
  private depth = 0;
  private readonly text: readonly string[];

  constructor(text: string) {
    this.text = [...text];
  }

  whole(): Node {
    const node = this.choice();
    if (this.at < this.text.length) throw new Error("a ) without its (");
    return node;
  }

  private get next(): string {
    return this.text[this.at] ?? "";
  }

  private take(): string {
    return this.text[this.at++] ?? "";
  }

  private isNext(letters: string): boolean {
    return this.next !== "" && letters.includes(this.next);
  }

  private choice(): Node {
    if (++this.depth > DEEPEST) throw new Error(`more than ${DEEPEST} levels of parentheses`);
    const parts = [this.sequence()];
    while (this.next === "|") {
      this.at++;
      parts.push(this.sequence());
    }
    this.depth--;
    return parts.length === 1 ? parts[0]! : { type: "choice", parts };
  }

  private sequence(): Node {
    const parts: Node[] = [];
    while (this.next !== "" && !this.isNext("|)")) parts.push(this.repeated(this.one()));
    return { type: "sequence", parts };
  }

  private repeated(part: Node): Node {
    if (!this.isNext("*+?{")) return part;
    if (part.type === "edge") throw new Error(`${this.next} after ^ or $`);
    const sign = this.take();
    const [least, most] = sign === "{" ? this.bounds() : sign === "*" ? [0, Infinity] : sign === "+" ? [1, Infinity] : [0, 1];
    // As little as possible: whether there is a match is the same.
    if (this.next === "?") this.at++;
    if (this.isNext("*+?{")) throw new Error(`${this.next} after ${sign}`);
    return { type: "repeat", part, least, most };
  }

  private bounds(): [number, number] {
    const end = this.text.indexOf("}", this.at);
    // Databases read a number that begins with 0 as characters.
    const inside = end < 0 ? "" : this.text.slice(this.at, end).join("");
    const [, least, comma, most] = /^(0|[1-9]\d{0,3})(,?)((?:0|[1-9]\d{0,3})?)$/.exec(inside) ?? [];
    if (least === undefined || (comma === "" && most !== "")) throw new Error("{ without numbers; write \\{ for the character");
    this.at = end + 1;
    const found: [number, number] = [Number(least), most !== "" ? Number(most) : comma === "" ? Number(least) : Infinity];
    if (found[0] > MOST_REPEATS || (found[1] !== Infinity && found[1] > MOST_REPEATS) || found[1] < found[0]) throw new Error(`{${inside}}: the numbers must ascend, up to ${MOST_REPEATS}`);
    return found;
  }

  private one(): Node {
    const letter = this.take();
    if (letter === "(") return this.group();
    if (letter === "[") return { type: "letters", letters: this.letters() };
    if (letter === "\\") return { type: "letters", letters: this.escaped() };
    if (letter === ".") return { type: "letters", letters: { ranges: [], isOther: true } };
    if (letter === "^" || letter === "$") return { type: "edge", isEnd: letter === "$" };
    if ("*+?{}]".includes(letter)) throw new Error(`${letter} repeats nothing; write \\${letter} for the character`);
    return { type: "letters", letters: { ranges: [[low(letter), low(letter)]], isOther: false } };
  }

  private group(): Node {
    if (this.next === "?" && this.text[this.at + 1] === ":") this.at += 2;
    else if (this.next === "?") throw new Error("(? is not supported; write ( or (?:");
    const node = this.choice();
    if (this.take() !== ")") throw new Error("a ( is not closed");
    return node;
  }

  private escaped(): Letters {
    const letter = this.take();
    const known = CLASSES[letter.toLowerCase()];
    if (known) return { ranges: known, isOther: letter !== letter.toLowerCase() };
    if (letter === "" || !SPECIAL.includes(letter)) throw new Error(`\\${letter} is not supported`);
    return { ranges: [[letter, letter]], isOther: false };
  }

  private letters(): Letters {
    const isOther = this.next === "^";
    if (isOther) this.at++;
    const ranges: Range[] = [];
    while (this.next !== "]") {
      const from = this.member(ranges);
      if (from === null) continue;
      let to: string = from;
      const after = this.text[this.at + 1];
      if (this.next === "-" && after !== undefined && after !== "]") {
        this.at++;
        to = this.member([]) ?? "";
      }
      if (isAfter(from, to)) throw new Error(`${from}-${to} is not a range`);
      ranges.push([from, to]);
    }
    this.at++;
    if (ranges.length === 0) throw new Error("[] is empty");
    return { ranges, isOther };
  }

  /** Returns the next character of a class; null after one like \d, which is added to the ranges. */
  private member(ranges: Range[]): string | null {
    const letter = this.take();
    if (letter === "" || letter === "[") throw new Error("a [ is not closed; within it, write \\[ for the character");
    if (letter !== "\\") return low(letter);
    const found = this.escaped();
    if (found.isOther) throw new Error("\\D, \\W and \\S are not supported within [ ]");
    if (SPECIAL.includes(this.text[this.at - 1]!)) return found.ranges[0]![0];
    ranges.push(...found.ranges);
    return null;
  }
}

function low(letter: string): string {
  return letter === "\u0130" ? "i" : letter.toLowerCase();
}

/** Compares by code points: UTF-16 units order some planes otherwise. */
function isAfter(a: string, b: string): boolean {
  return (a.codePointAt(0) ?? -1) > (b.codePointAt(0) ?? -1);
}

/** A state of the matcher: a character to the next state, or to others without one. */
interface Step {
  letters: Letters | null;
  edge: boolean | null;
  to: number[];
}

class Pattern {
  private readonly steps: Step[] = [];
  private readonly last: number;
  private readonly first: Set<number>;
  private readonly again: Set<number>;
  private known = new Map<Set<number>, Map<string, Set<number>>>();
  private readonly sets = new Map<string, Set<number>>();
  private count = 0;

  constructor(text: string) {
    this.last = this.add(new Parser(text).whole(), this.step(null, null));
    this.first = this.kept(this.reached([0], true, false));
    this.again = this.reached([0], false, false);
  }

  isIn(text: string): boolean {
    let states = this.first;
    for (const letter of text) {
      if (states.has(this.last)) return true;
      states = this.after(states, letter);
    }
    return this.reached(states, text === "", true).has(this.last);
  }

  private after(states: Set<number>, letter: string): Set<number> {
    const known = this.known.get(states)?.get(letter);
    if (known) return known;
    if (++this.count > MOST_KNOWN) {
      this.known.clear();
      this.count = 0;
    }
    const point = letter.codePointAt(0)!;
    const met = [...states].flatMap((at) => {
      const { letters, to } = this.steps[at]!;
      return letters && letters.ranges.some(([from, end]) => from.codePointAt(0)! <= point && point <= end.codePointAt(0)!) !== letters.isOther ? to : [];
    });
    const found = this.kept(new Set([...this.reached(met, false, false), ...this.again]));
    if (!this.known.has(states)) this.known.set(states, new Map());
    this.known.get(states)!.set(letter, found);
    return found;
  }

  /** Returns one object for equal sets. */
  private kept(states: Set<number>): Set<number> {
    const key = [...states].sort((a, b) => a - b).join();
    if (this.sets.size > MOST_KNOWN) this.sets.clear();
    const same = this.sets.get(key) ?? states;
    this.sets.set(key, same);
    return same;
  }

  /** Returns states and those that are reached from them without a character. */
  private reached(states: Iterable<number>, isStart: boolean, isEnd: boolean): Set<number> {
    const found = new Set<number>();
    const waiting = [...states];
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      if (found.has(at)) continue;
      found.add(at);
      const { letters, edge, to } = this.steps[at]!;
      if (letters === null && (edge === null || (edge ? isEnd : isStart))) waiting.push(...to);
    }
    return found;
  }

  private step(letters: Letters | null, edge: boolean | null): number {
    if (this.steps.length >= MOST_STATES) throw new Error("it is too long, or repeats too much");
    return this.steps.push({ letters, edge, to: [] }) - 1;
  }

  private link(from: number, to: number): void {
    this.steps[from]!.to.push(to);
  }

  /** Adds a node after a state; returns the state after it. */
  private add(node: Node, begin: number): number {
    if (node.type === "sequence") return node.parts.reduce((at, part) => this.add(part, at), begin);
    if (node.type === "repeat") return this.addRepeat(node, begin);
    if (node.type === "choice") {
      const end = this.step(null, null);
      for (const part of node.parts) {
        const first = this.step(null, null);
        this.link(begin, first);
        this.link(this.add(part, first), end);
      }
      return end;
    }
    const at = node.type === "letters" ? this.step(node.letters, null) : this.step(null, node.isEnd);
    this.link(begin, at);
    const end = this.step(null, null);
    this.link(at, end);
    return end;
  }

  private addRepeat({ part, least, most }: Extract<Node, { type: "repeat" }>, start: number): number {
    let begin = start;
    for (let count = 0; count < least; count++) begin = this.add(part, begin);
    const end = this.step(null, null);
    if (most === Infinity) {
      const again = this.step(null, null);
      this.link(begin, again);
      this.link(this.add(part, again), again);
      this.link(again, end);
      return end;
    }
    for (let count = least; count < most; count++) {
      this.link(begin, end);
      begin = this.add(part, begin);
    }
    this.link(begin, end);
    return end;
  }
}

/** Returns whether a text has a match of a regular expression, in small or capital letters; throws where it cannot be read. */
export function patternOf(text: string): (value: string) => boolean {
  const pattern = new Pattern(text);
  return (value) => pattern.isIn(lowered(value));
}
