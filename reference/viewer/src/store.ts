/** The state of the app: the runs, what the user looks at, and who wants to know of changes. */

import { type Colouring, colouringOf } from "./charts/colouring.js";
import { groupLooks, keysOf, runGroups } from "./groups.js";
import { ExpressionError, type Filter, filterOf } from "./expression.js";
import { Palette, type Look } from "./palette.js";
import { type Backend, type Change, type Listing, type Run, SERVER_IS_GONE } from "./protocol.js";
import { sorted } from "./columns.js";
import { questionOf, requireField } from "./run-fields.js";
import { plain } from "./text.js";
import { hashOf, stateIn, type ViewState } from "./view-state.js";
import { callRuns } from "./names.js";

/** What has changed since the listener was last called. */
export interface Changed {
  runs: boolean;
  state: boolean;
}

/** Between two repaints while runs are written; the first change is shown at once. */
const REPAINT_MS = 250;
/** Characters of a message that are shown. */
const LONGEST_PROBLEM = 1000;
const WRITE_MS = 150;
/** Runs that are more than these are grey where they are not selected. */
export const MOST_COLOURED = 50;
/** A run without the value that colours the others. */
const ABSENT: Look = { colour: 0, dash: [2, 2], tint: "rgb(128, 128, 128)" };
/** A list that takes long to show is shown again only after so many times as long. */
const REPAINT_SHARE = 4;

export class Store {
  state: ViewState;
  root = "";
  version = "";
  /** Every run, by id. */
  readonly all = new Map<string, Run>();
  /** The runs that pass the filter, in the order of the table. */
  listed: readonly Run[] = [];
  /** How many runs are left out, since an annotation hides them. */
  hidden = 0;
  /** How many runs the server has not read yet. */
  unread = 0;
  /** Why the filter cannot be read. */
  filterError: ExpressionError | null = null;
  /** What the user should know, for example that the server is gone. */
  message = "";
  isLoaded = false;
  #grouped: { runs: unknown; selected: unknown; group: string; keys: readonly string[]; looks: Map<string, Look> } = { runs: null, selected: null, group: "", keys: [], looks: new Map() };
  #coloured: { runs: unknown; colour: string; colouring: Colouring | null } = { runs: null, colour: "", colouring: null };
  #revision: string | undefined;
  readonly #listeners = new Set<(changed: Changed) => void>();
  readonly #growing = new Set<(run: string) => void>();
  readonly #palette = new Palette();
  #pending: Changed | null = null;
  #refreshing: Promise<void> | null = null;
  /** Whether the stream of changes is there. Where it is not, its reason stands, not that of each question. */
  #isReached = true;
  #isStale = false;
  /** True after a time without reports of changes. */
  #isCatchingUp = false;
  #lastRefresh = -Infinity;
  #refreshMs = 0;
  #writing: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly backend: Backend) {
    this.state = stateIn(location.hash);
    window.addEventListener("hashchange", ({ newURL }) => {
      // A small change that waited to be written may have replaced where the user went.
      clearTimeout(this.#writing);
      if (location.href !== newURL) history.replaceState(null, "", newURL);
      this.#take(stateIn(location.hash));
    });
  }

  /** Calls *listener* after changes, at most once for each frame; returns how to stop that. */
  listen(listener: (changed: Changed) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls *listener* with the id of each run whose stream has grown. */
  listenToGrowth(listener: (run: string) => void): () => void {
    this.#growing.add(listener);
    return () => this.#growing.delete(listener);
  }

  async load(): Promise<void> {
    await this.#read();
    this.isLoaded = true;
    this.backend.changes((change) => this.#changed(change));
  }

  /** Changes what the user looks at; a step back leads to the state before, unless *isSmall*. */
  update(patch: Partial<ViewState>, { isSmall = false } = {}): void {
    this.#take({ ...this.state, ...patch });
    clearTimeout(this.#writing);
    // Browsers refuse to change the address many times a second.
    if (isSmall) this.#writing = setTimeout(() => this.#write("replaceState"), WRITE_MS);
    else this.#write("pushState");
  }

  #write(how: "replaceState" | "pushState"): void {
    const { hash, isWhole } = hashOf(this.state);
    const isCut = !isWhole && this.message === "";
    if (isCut) this.say("The link holds only a part of the selection: it has too many runs.");
    try {
      history[how](null, "", hash);
    } catch {
      // A page in a frame without an address of its own, as in a notebook, keeps its state to itself.
    }
  }

  /** Opens the start of a view, or a run. */
  open(view: ViewState["view"], run = ""): void {
    this.update({ view, run, focus: "", zoom: null });
    window.scrollTo(0, 0);
  }

  toggle(id: string): void {
    const { selected } = this.state;
    this.update({ selected: selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id] }, { isSmall: true });
  }

  /** Lists runs before the others, or, if they all are, no longer. */
  pin(ids: readonly string[]): void {
    const { top } = this.state;
    const others = top.filter((id) => !ids.includes(id));
    this.update({ top: ids.every((id) => top.includes(id)) ? others : [...others, ...ids] }, { isSmall: true });
  }

  /** The runs that the charts show: those selected, or else those listed. */
  get shown(): readonly Run[] {
    const selected = this.state.selected.flatMap((id) => this.all.get(id) ?? []);
    return selected.length > 0 ? selected : this.listed;
  }

  /** The runs that charts of very many show: those selected, then the others that are listed. */
  get shownOverAll(): readonly Run[] {
    const { shown, listed } = this;
    if (shown === listed) return listed;
    const own = new Set(shown);
    return [...shown, ...listed.filter((run) => !own.has(run))];
  }

  isSelected(id: string): boolean {
    return this.state.selected.includes(id);
  }

  /** Whether the runs are so many that those which are not selected are background. */
  get isCrowded(): boolean {
    return this.state.group === "" && this.listed.length > MOST_COLOURED;
  }

  /** Whether the curves of a run are grey until it is pointed at. */
  isGrey(id: string): boolean {
    return this.isCrowded && this.state.colour === "" && !this.isSelected(id);
  }

  /** How a run is drawn: as its group where the charts show groups. */
  look(id: string): Look {
    const { group, colour } = this.state;
    if (group === "" && colour !== "") return this.colouring?.looks.get(id) ?? ABSENT;
    if (group === "") return this.#palette.look(id);
    return this.grouping.looks.get(id) ?? this.#palette.look(id);
  }

  /** The fields that the runs of a group share, and how each group is drawn: of all that are listed, so that a selection changes neither. */
  get grouping(): { keys: readonly string[]; looks: ReadonlyMap<string, Look> } {
    const { listed: runs, state: { selected, group } } = this;
    const known = this.#grouped;
    if (known.runs !== runs || known.group !== group || known.selected !== selected) {
      const all = this.shownOverAll;
      const keys = keysOf(all, group);
      this.#grouped = { runs, selected, group, keys, looks: groupLooks(runGroups(all, keys)) };
    }
    return this.#grouped;
  }

  /** What the colours of runs mean; null where each run has one of its own. */
  get colouring(): Colouring | null {
    const { colour, group } = this.state;
    if (colour === "" || group !== "") return null;
    if (this.#coloured.runs !== this.listed || this.#coloured.colour !== colour) this.#coloured = { runs: this.listed, colour, colouring: colouringOf(this.listed, colour) };
    return this.#coloured.colouring;
  }

  #take(state: ViewState): void {
    const isListedAgain = state.filter !== this.state.filter || state.sort !== this.state.sort || state.top.join() !== this.state.top.join();
    this.state = state;
    if (isListedAgain) this.#list();
    else this.#givePalette();
    this.#tell({ runs: false, state: true });
  }

  #changed(change: Change): void {
    if ("reached" in change) this.#isReached = change.reached;
    if ("reached" in change && !change.reached) {
      this.say(change.refused === undefined ? SERVER_IS_GONE : `The server refuses this page: ${change.refused}. What is shown may be old.`);
      return;
    }
    // What grew meanwhile was not reported.
    if ("reached" in change) this.#isCatchingUp = true;
    if ("run" in change) for (const listener of this.#growing) listener(change.run);
    this.#isStale = true;
    void this.#refreshSoon();
  }

  async #refreshSoon(): Promise<void> {
    if (this.#refreshing) return;
    const wait = this.#lastRefresh + Math.max(REPAINT_MS, REPAINT_SHARE * this.#refreshMs) - performance.now();
    this.#refreshing = (wait > 0 ? new Promise<void>((resolve) => setTimeout(resolve, wait)) : Promise.resolve()).then(() => this.#refresh());
    await this.#refreshing.catch((error: unknown) => this.#isReached && this.say((error as Error).message));
    this.#refreshing = null;
    if (this.#isStale) void this.#refreshSoon();
  }

  async #refresh(): Promise<void> {
    const began = await this.#read();
    this.#tell({ runs: true, state: false });
    requestAnimationFrame(() => setTimeout(() => (this.#refreshMs = performance.now() - began)));
  }

  /** Takes in which runs there are now; returns when their rows had come. */
  async #read(): Promise<number> {
    this.#isStale = false;
    this.#lastRefresh = performance.now();
    const listing = await this.backend.runs(this.#revision);
    const began = performance.now();
    this.#merge(listing);
    this.#list();
    return began;
  }

  #merge(listing: Listing): void {
    const grown = this.#isCatchingUp ? listing.runs.flatMap(({ id, bytes }) => (this.all.has(id) && this.all.get(id)!.bytes !== bytes ? id : [])) : [];
    if (listing.complete) this.all.clear();
    for (const run of listing.runs) this.all.set(run.id, run);
    callRuns(this.all.values());
    for (const run of grown) for (const listener of this.#growing) listener(run);
    this.#isCatchingUp = false;
    for (const id of listing.removed ?? []) this.all.delete(id);
    ({ revision: this.#revision, root: this.root, version: this.version } = listing);
    this.message = (listing.problems ?? []).map((problem) => plain(problem, LONGEST_PROBLEM)).join("; ");
  }

  /** How many runs have no number of alerts, although the user asks for it. */
  get uncounted(): number {
    const { filter, sort, columns, colour, group } = this.state;
    const isAsked = /\balerts\b|\bopen_alerts\b/.test([filter, sort, ...(columns ?? []), colour, group].join(" "));
    return isAsked ? [...this.all.values()].filter(({ alerts }) => alerts == null).length : 0;
  }

  /** Shows a message above the views. */
  say(message: string): void {
    this.message = message;
    this.#tell({ runs: false, state: true });
  }

  #list(): void {
    const filter = this.#filter();
    const showsHidden = /\bhidden\b/.test(this.state.filter);
    const passing = filter ? [...this.all.values()].filter((run) => (showsHidden || !run.hidden) && filter.holds(questionOf(run))) : this.listed;
    this.unread = [...this.all.values()].filter(({ state }) => state === "unread").length;
    this.hidden = showsHidden ? 0 : [...this.all.values()].filter((run) => run.hidden).length;
    const ordered = sorted(passing, this.state.sort);
    const top = new Set(this.state.top);
    this.listed = top.size === 0 ? ordered : [...ordered.filter(({ id }) => top.has(id)), ...ordered.filter(({ id }) => !top.has(id))];
    this.#givePalette();
  }

  /** Gives every run that is listed its colour, whether it is selected or not; of very many, those that are shown. */
  #givePalette(): void {
    const { listed, shown } = this;
    this.#palette.give((listed.length > MOST_COLOURED ? shown : [...listed, ...shown]).map(({ id }) => id));
  }

  /** Returns null for a filter that cannot be read: then the list does not change. */
  #filter(): Filter | null {
    this.filterError = null;
    try {
      const filter = filterOf(this.state.filter);
      // Of a run that was not read yet, nothing is known.
      if ([...this.all.values()].every(({ state }) => state !== "unread")) for (const [name, at] of filter.fields) requireField(this.all.values(), name, at);
      return filter;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.filterError = error;
      return this.isLoaded ? null : filterOf("");
    }
  }

  #tell(changed: Changed): void {
    if (this.#pending) {
      this.#pending.runs ||= changed.runs;
      this.#pending.state ||= changed.state;
      return;
    }
    this.#pending = { ...changed };
    requestAnimationFrame(() => {
      const told = this.#pending!;
      this.#pending = null;
      for (const listener of [...this.#listeners]) listener(told);
    });
  }
}
