/** Dialects: how the tables of other programs are read, as data. See schemas/meta/dialect.json. */

export type TimeUnit = "unix" | "unix-seconds" | "unix-milliseconds" | "run-seconds" | "run-clock" | "date-time" | "any";

export interface TimeKey {
  key: string;
  unit: TimeUnit;
}

export interface Dialect {
  name: string;
  rank: "program" | "shape" | "guess";
  files?: readonly string[];
  form: { type: "lines" | "document" | "csv"; rows?: string; delimiter?: string; index?: string };
  recognize: { keys?: readonly string[]; any?: readonly string[]; absent?: readonly string[]; text?: string; equals?: { readonly [key: string]: string | number } };
  step: readonly string[];
  time?: readonly TimeKey[];
  epoch?: readonly string[];
  phase?: readonly string[];
  values?: { prefix?: string; except?: readonly string[]; name?: string; value?: string; texts?: boolean; lists?: boolean };
  /** A key that only intermediate results have: a record with it says nothing. */
  skip?: string;
  config?: string;
  config_except?: readonly string[];
  run?: string;
  /** Members of run_start, each with the key of its value in the run.json beside the log. */
  manifest?: { readonly [member: string]: string };
  end?: { key: string; equals: string; reason: string; reasons: { readonly [word: string]: string } };
  define?: { key: string; equals: string; name: string; goal: string; goals: { readonly [word: string]: string } };
  planned?: readonly string[];
  non_finite?: readonly ("bare" | "text" | "null")[];
}

/** How a file is read: its dialect, and the keys that were chosen among those that it allows. */
export interface ReadAs {
  dialect: Dialect;
  /** Null where the records have none. */
  step: string | null;
  time: TimeKey | null;
  epoch: string | null;
  phase: string | null;
}

/** Returns the regular expression of a pattern for file names, as a shell has them. */
export function namePattern(pattern: string): RegExp {
  const parts = pattern.replace(/\[[^\]]+\]|[*?]|[^\w]/g, (part) => (part === "*" ? ".*" : part === "?" ? "." : part.length > 1 ? part : `\\${part}`));
  return new RegExp(`^${parts}$`, "s");
}

/** Returns a regular expression of a dialect, which is written as Python has them. */
export function expressionOf(pattern: string): RegExp {
  const [start, flags] = /^\(\?([ims]+)\)/.exec(pattern) ?? ["", ""];
  // Without the flag m, a circumflex is the start of the text alone.
  return new RegExp(pattern.slice(start.length).replaceAll("(?P<", "(?<").replace(/^\\A/, "^"), flags);
}
