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

const RANK_MANNERS: readonly RankManner[] = ["range", "each", "first"];
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

function parametersOf(state: ViewState): URLSearchParams {
  const found = new URLSearchParams();
  const put = (name: string, value: string, isStart: boolean) => {
    if (!isStart) found.set(name, value);
  };
  put("q", state.filter, state.filter === "");
  put("cols", JSON.stringify(state.columns), state.columns === null);
  put("sort", state.sort, state.sort === START.sort);
  put("x", state.x, state.x === START.x);
  put("over", state.over, state.over === "");
  put("smooth", String(state.smoothing), state.smoothing === 0);
  put("log", `${state.logX ? "x" : ""}${state.logY ? "y" : ""}`, !state.logX && !state.logY);
  put("zoom", (state.zoom ?? []).map((value) => Number(value.toPrecision(9))).join(","), state.zoom === null);
  put("m", state.metrics, state.metrics === "");
  put("focus", state.focus, state.focus === "");
  put("also", state.also, state.also === "");
  put("pins", JSON.stringify(state.pins), state.pins.length === 0);
  put("open", JSON.stringify(state.opened), state.opened.length === 0);
  put("top", JSON.stringify(state.top), state.top.length === 0);
  put("by", state.group, state.group === "");
  put("band", state.band, state.band === START.band);
  put("colour", state.colour, state.colour === "");
  put("minus", state.base, state.base === "");
  put("ranks", state.ranks, state.ranks === START.ranks);
  return found;
}

/** Returns the state in a hash; what cannot be read is as at the start. */
export function stateIn(hash: string): ViewState {
  const [path = "", query = ""] = split(hash.replace(/^#/, ""));
  const [view = "", run = ""] = path.split("/", 2);
  const found = new URLSearchParams(query);
  const log = found.get("log") ?? "";
  return {
    view: VIEWS.includes(view) ? (view as View) : START.view,
    run: decoded(run),
    filter: found.get("q") ?? "",
    selected: selectedIn(query),
    columns: listIn(found.get("cols")),
    sort: found.get("sort") ?? START.sort,
    x: AXES.find((axis) => axis === found.get("x")) ?? START.x,
    over: found.get("x") === "defined" ? (found.get("over") ?? "") : "",
    smoothing: between(Number(found.get("smooth") ?? 0), 0, 0.999),
    logX: log.includes("x"), logY: log.includes("y"),
    zoom: rangeIn(found.get("zoom")),
    metrics: found.get("m") ?? "",
    focus: found.get("focus") ?? "",
    also: found.get("also") ?? "",
    pins: listIn(found.get("pins")) ?? [], opened: listIn(found.get("open")) ?? [], top: listIn(found.get("top")) ?? [],
    group: found.get("by") ?? "",
    band: (Object.keys(BANDS) as Band[]).find((band) => band === found.get("band")) ?? START.band,
    colour: found.get("colour") ?? "",
    base: found.get("minus") ?? "",
    ranks: RANK_MANNERS.find((manner) => manner === found.get("ranks")) ?? START.ranks,
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

function listIn(text: string | null): string[] | null {
  try {
    const value = JSON.parse(text ?? "null") as unknown;
    return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : null;
  } catch {
    return null;
  }
}

function rangeIn(text: string | null): [number, number] | null {
  const parts = (text ?? "").split(",").map(Number);
  const [from, to] = parts;
  return parts.length === 2 && Number.isFinite(from) && Number.isFinite(to) && from! < to! ? [from!, to!] : null;
}

function between(value: number, low: number, high: number): number {
  return Number.isNaN(value) ? low : Math.min(Math.max(value, low), high);
}
