/** What the user looks at: all of it is in the hash of the address, so that a view can be shared. */

import { type Band, BANDS } from "./groups.js";

export type View = "runs" | "charts" | "compare" | "run";
export type XAxis = "step" | "time" | "wall" | "epoch" | "tokens" | "defined";

/** How charts of one run show its ranks: the mean with the range, each of them, or the first alone. */
export type RankManner = "range" | "each" | "first";

export interface ViewState {
  view: View;
  /** Id of the run of the view `run`. */
  run: string;
  filter: string;
  /** Ids of the selected runs, in the order of selection. */
  selected: readonly string[];
  /** Columns of the table; null for those that are chosen by what differs. */
  columns: readonly string[] | null;
  /** Name of a column, after `-` in reverse. */
  sort: string;
  x: XAxis;
  /** The metric whose values the defined steps are, "" for those that the runs define. */
  over: string;
  smoothing: number;
  logX: boolean;
  logY: boolean;
  /** A range of the axis x; null for everything. */
  zoom: readonly [number, number] | null;
  /** Words in the names of metrics. */
  metrics: string;
  /** The one metric that is shown large. */
  focus: string;
  /** A second metric in the large chart, "" for none. */
  also: string;
  /** Metrics whose charts come first. */
  pins: readonly string[];
  /** Metrics whose charts show the curves too that leave the field of the others. */
  opened: readonly string[];
  /** Ids of runs that are listed first. */
  top: readonly string[];
  /** What the runs of a group share: fields after commas, or after `-` the one setting that they differ in; "" for none. */
  group: string;
  /** What is around the mean of a group. */
  band: Band;
  /** The result or setting that colours runs, "" for a colour of each run. */
  colour: string;
  /** Id of the run that the curves of the others are shown above, "" for none. */
  base: string;
  ranks: RankManner;
}

export const START: Readonly<ViewState> = {
  view: "charts", run: "", filter: "", selected: [], columns: null, sort: "-started", x: "step", over: "", smoothing: 0, logX: false, logY: false,
  zoom: null, metrics: "", focus: "", also: "", pins: [], opened: [], top: [], group: "", band: "sd", colour: "", base: "", ranks: "range",
};

const VIEWS: readonly string[] = ["runs", "charts", "compare", "run"] satisfies View[];
/** Titles of the axis x. */
export const AXIS_TITLES: { readonly [axis in XAxis]: string } = { step: "Step", time: "Time since start", wall: "Date and time", epoch: "Epoch", tokens: "Tokens", defined: "Defined step" };
export const AXES: readonly XAxis[] = ["step", "time", "wall", "epoch", "tokens", "defined"];
/** Longer addresses do not survive chats and mails. */
export const LONGEST_HASH = 2000;

/** Returns the hash of a state; selected runs that do not fit are left out, and `isWhole` is false. */
export function hashOf(state: ViewState): { hash: string; isWhole: boolean } {
  const parameters = parametersOf(state);
  const names = state.selected.map((id) => encodeURIComponent(id));
  const without = written(state, parameters);
  let selected = "";
  let count = 0;
  for (const name of names) {
    if (without.length + "&sel=".length + selected.length + 1 + name.length > LONGEST_HASH) break;
    selected += `${count++ === 0 ? "" : ","}${name}`;
  }
  const joint = parameters.size > 0 ? "&" : "?";
  return { hash: count === 0 ? without : `${without}${joint}sel=${selected}`, isWhole: count === names.length };
}

function written(state: ViewState, parameters: URLSearchParams): string {
  const path = state.view === "run" ? `run/${encodeURIComponent(state.run)}` : state.view;
  return `#${path}${parameters.size > 0 ? `?${parameters.toString()}` : ""}`;
}

/** How a setting is written into an address, and read from it: null or undefined where it cannot be. */
type Form = readonly [write: (value: never) => string, read: (text: string) => unknown];

const TEXT: Form = [String, String];
const LIST: Form = [JSON.stringify, listIn];
const oneOf = (values: readonly string[]): Form => [String, (text) => values.find((value) => value === text)];

/** The settings by their names in an address, in its order. */
const SETTINGS: readonly (readonly [string, keyof ViewState, Form])[] = [
  ["q", "filter", TEXT], ["cols", "columns", LIST], ["sort", "sort", TEXT], ["x", "x", oneOf(AXES)], ["over", "over", TEXT],
  ["smooth", "smoothing", [String, (text) => between(Number(text), 0, 0.999)]],
  ["zoom", "zoom", [(range: readonly number[]) => range.map((value) => Number(value.toPrecision(9))).join(), rangeIn]],
  ["m", "metrics", TEXT], ["focus", "focus", TEXT], ["also", "also", TEXT], ["pins", "pins", LIST], ["open", "opened", LIST], ["top", "top", LIST],
  ["by", "group", TEXT], ["band", "band", oneOf(Object.keys(BANDS))], ["colour", "colour", TEXT], ["minus", "base", TEXT],
  ["ranks", "ranks", oneOf(["range", "each", "first"] satisfies RankManner[])],
];

function parametersOf(state: ViewState): URLSearchParams {
  const found = new URLSearchParams();
  for (const [name, key, [write]] of SETTINGS) {
    if (JSON.stringify(state[key]) !== JSON.stringify(START[key])) found.set(name, write(state[key] as never));
  }
  if (state.logX || state.logY) found.set("log", `${state.logX ? "x" : ""}${state.logY ? "y" : ""}`);
  return found;
}

/** Returns the state in a hash; what cannot be read is as at the start. */
export function stateIn(hash: string): ViewState {
  const [path = "", query = ""] = split(hash.replace(/^#/, ""));
  const [view = "", run = ""] = path.split("/", 2);
  const found = new URLSearchParams(query);
  const log = found.get("log") ?? "";
  const settings = Object.fromEntries(SETTINGS.map(([name, key, [, read]]) => [key, (found.has(name) ? read(found.get(name)!) : null) ?? START[key]])) as unknown as ViewState;
  return {
    ...settings,
    view: VIEWS.includes(view) ? (view as View) : START.view,
    run: decoded(run),
    selected: selectedIn(query),
    over: settings.x === "defined" ? settings.over : "",
    logX: log.includes("x"), logY: log.includes("y"),
  };
}

function split(text: string): [string, string] {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** Reads ids before they are decoded: one may contain a comma. */
function selectedIn(query: string): string[] {
  const part = query.split("&").find((each) => each.startsWith("sel="));
  return part === undefined ? [] : part.slice("sel=".length).split(",").map(decoded).filter((id) => id !== "");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function listIn(text: string): string[] | null {
  try {
    const value = JSON.parse(text) as unknown;
    return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : null;
  } catch {
    return null;
  }
}

function rangeIn(text: string): [number, number] | null {
  const parts = text.split(",").map(Number);
  const [from, to] = parts;
  return parts.length === 2 && Number.isFinite(from) && Number.isFinite(to) && from! < to! ? [from!, to!] : null;
}

function between(value: number, low: number, high: number): number {
  return Number.isNaN(value) ? low : Math.min(Math.max(value, low), high);
}
