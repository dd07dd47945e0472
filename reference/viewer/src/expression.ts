/** Filters runs: words are looked for in the texts of a run, comparisons look at its values. The same language as in `toyspec ls`. */

import { lowered } from "./lowered.js";

export type Value = string | number | boolean | null;
/** Returns the value of a field of a run; undefined where it has none. */
export type Lookup = (field: string) => Value | readonly Value[] | undefined;

/** What is asked of a run. */
export interface Question {
  field: Lookup;
  /** Everything that words are looked for in, as lowered text. */
  text: string;
}

type Holds = (question: Question) => boolean;

export interface Filter {
  holds: Holds;
  /** The fields that are compared, each with the number of characters before its name. */
  fields: ReadonlyMap<string, number>;
}

/** Thrown for an expression that cannot be read; *at* counts characters from 0. */
export class ExpressionError extends Error {
  constructor(
    message: string,
    readonly at: number,
  ) {
    super(message);
  }
}

interface Token {
  type: "word" | "text" | "operator" | "open" | "close" | "end";
  text: string;
  at: number;
}

const TOKEN = /\s*(?:(<=|>=|!=|==|=|<|>|~)|(\()|(\))|"([^"]*)"|'([^']*)'|([^\s()<>=!~"']+))/y;
/** What other languages compare and join by. */
const FOREIGN: ReadonlySet<string> = new Set(["&&", "&", "||", "|", ",", "is", "in", "like", "contains", "matches", "regexp", "between"]);
/** Nested deeper, an expression is a mistake or an attack. */
const DEEPEST = 100;

/** Returns a filter; an empty expression lets every run pass. Throws ExpressionError. */
export function filterOf(expression: string): Filter {
  if (expression.trim() === "") return { holds: () => true, fields: new Map() };
  const parser = new Parser(tokens(expression));
  return { holds: parser.whole(), fields: parser.fields };
}

function tokens(expression: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < expression.trimEnd().length) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(expression);
    if (!match) {
      const rest = expression.trimEnd().slice(start).trimStart();
      throw new ExpressionError(`${JSON.stringify(rest[0])} was not expected here`, expression.trimEnd().length - rest.length);
    }
    const [whole, operator, open, close, double, single, word] = match;
    const at = start + whole.length - whole.trimStart().length;
    if (operator !== undefined) found.push({ type: "operator", text: operator, at });
    else if (open !== undefined) found.push({ type: "open", text: open, at });
    else if (close !== undefined) found.push({ type: "close", text: close, at });
    else if (word !== undefined) found.push({ type: "word", text: word, at });
    else found.push({ type: "text", text: double ?? single ?? "", at });
  }
  found.push({ type: "end", text: "", at: expression.length });
  return found;
}

class Parser {
  #at = 0;
  #depth = 0;
  readonly fields = new Map<string, number>();

  constructor(private readonly tokens: readonly Token[]) {}

  whole(): Holds {
    const filter = this.#either();
    if (this.#next.type !== "end") throw new ExpressionError(`${JSON.stringify(this.#next.text)} was not expected here`, this.#next.at);
    return filter;
  }

  get #next(): Token {
    return this.tokens[this.#at]!;
  }

  #isWord(word: string): boolean {
    return this.#next.type === "word" && this.#next.text.toLowerCase() === word;
  }

  #either(): Holds {
    const parts = [this.#both()];
    while (this.#isWord("or")) {
      this.#at++;
      parts.push(this.#both());
    }
    return parts.length === 1 ? parts[0]! : (question) => parts.some((part) => part(question));
  }

  #both(): Holds {
    const parts = [this.#one()];
    for (;;) {
      if (this.#isWord("and")) this.#at++;
      else if (this.#isWord("or") || this.#next.type === "close" || this.#next.type === "end") break;
      parts.push(this.#one());
    }
    return parts.length === 1 ? parts[0]! : (question) => parts.every((part) => part(question));
  }

  #one(): Holds {
    if (++this.#depth > DEEPEST) throw new ExpressionError(`more than ${DEEPEST} levels of parentheses and not`, this.#next.at);
    try {
      if (this.#isWord("not") && this.tokens[this.#at + 1]!.type !== "operator") {
        this.#at++;
        const part = this.#one();
        return (question) => !part(question);
      }
      return this.#next.type === "open" ? this.#inner() : this.#comparison();
    } finally {
      this.#depth--;
    }
  }

  #inner(): Holds {
    const { at } = this.#next;
    this.#at++;
    const part = this.#either();
    if (this.#next.type !== "close") throw new ExpressionError("this parenthesis is not closed", at);
    this.#at++;
    return part;
  }

  #comparison(): Holds {
    const left = this.#next;
    if (left.type !== "word" && left.type !== "text") throw new ExpressionError(`a name or a word was expected, found ${shown(left)}`, left.at);
    this.#at++;
    if (this.#next.type !== "operator") return this.#words(left);
    const operator = this.#next.text;
    this.#at++;
    const right = this.#next;
    if (right.type !== "word" && right.type !== "text") throw new ExpressionError(`a value was expected after ${operator}, found ${shown(right)}`, right.at);
    this.#at++;
    const compare = comparisonOf(operator, right);
    if (!this.fields.has(left.text)) this.fields.set(left.text, left.at);
    return ({ field }) => {
      const value = field(left.text);
      if (Array.isArray(value)) return operator === "!=" ? value.every(compare) : value.some(compare);
      return compare(value as Value | undefined);
    };
  }

  /** Returns the search for a word; refuses one that joins, and what another language compares by. */
  #words(token: Token): Holds {
    const word = lowered(token.text);
    if (token.type === "word" && (word === "and" || word === "or")) throw new ExpressionError(`a name or a word was expected, found ${shown(token)}`, token.at);
    const before = this.tokens[this.#at - 2]?.type;
    const isBetween = (before === "word" || before === "text" || before === "close") && ["word", "text", "open"].includes(this.#next.type);
    if (token.type === "word" && isBetween && FOREIGN.has(word))
      throw new ExpressionError(`${shown(token)} is not an operator here; write and, or, not, ~ for contains, and < <= > >= = !=, or quote the word`, token.at);
    return ({ text }) => text.includes(word);
  }
}

function shown(token: Token): string {
  return token.type === "end" ? "the end" : JSON.stringify(token.text);
}

type Compare = (value: Value | undefined) => boolean;

function comparisonOf(operator: string, right: Token): Compare {
  const text = lowered(right.text);
  const isOrder = operator.startsWith("<") || operator.startsWith(">");
  const number = right.type === "text" ? NaN : numberIn(right.text);
  if (isOrder && right.type === "word" && Number.isNaN(number) && NUMBER.test(right.text.replaceAll("_", "")))
    throw new ExpressionError(`${shown(right)} has an unknown unit; use ${Object.keys(SPANS).join(", ")}; quote text`, right.at);
  const order = (holds: (sign: number) => boolean): Compare => {
    if (!Number.isNaN(number)) return (value) => typeof value === "number" && holds(value - number);
    return (value) => typeof value === "string" && holds(compared(lowered(value), text));
  };
  const equal: Compare = (value) => {
    if (value === undefined || value === null) return text === "null";
    return typeof value === "number" ? value === number : lowered(String(value)) === text;
  };
  const contains: Compare = (value) => value !== undefined && lowered(String(value)).includes(text);
  switch (operator) {
    case "<":
      return order((sign) => sign < 0);
    case "<=":
      return order((sign) => sign <= 0);
    case ">":
      return order((sign) => sign > 0);
    case ">=":
      return order((sign) => sign >= 0);
    case "~":
      return contains;
    case "!=":
      return (value) => !equal(value);
    default:
      return equal;
  }
}

/** Returns whether *a* comes before (negative) or after *b* by their code points: UTF-16 units order some planes otherwise. */
export function compared(a: string, b: string): number {
  for (let at = 0; at < a.length && at < b.length; at++) {
    if (a[at] === b[at]) continue;
    const pair = (text: string) => text.codePointAt(at > 0 && isHigh(text.charCodeAt(at - 1)) ? at - 1 : at)!;
    return pair(a) - pair(b);
  }
  return a.length - b.length;
}

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;

const NUMBER = /^([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)([a-z%]*)$/i;
const SPANS: { [unit: string]: number } = { s: 1, min: 60, m: 60, h: 3600, d: 86_400, k: 1e3, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, "%": 0.01 };

/** Returns a number, which may have a unit of time or size; NaN for other text. */
function numberIn(text: string): number {
  const match = NUMBER.exec(text.replaceAll("_", ""));
  if (!match) return NaN;
  const unit = match[2]!.toLowerCase();
  return unit === "" ? Number(match[1]) : Number(match[1]) * (SPANS[unit] ?? NaN);
}
