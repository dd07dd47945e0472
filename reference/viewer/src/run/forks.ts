/** The runs that a run was forked from. */

import { html } from "../../../typescript/page/elements.js";
import type { Ancestor } from "../charts/relatives.js";
import type { Detail, Json, Run } from "../protocol.js";
import type { Store } from "../store.js";
import { grouped, plain } from "../text.js";
import { nameOf } from "../names.js";

/** Forks of forks beyond these are not followed: each is read whole. */
const MOST_ANCESTORS = 8;

interface Parent {
  run_id: string;
  step: number | null;
}

function parentIn(metadata: { [key: string]: Json }): Parent | null {
  const { parent } = metadata;
  if (parent === null || typeof parent !== "object" || Array.isArray(parent) || typeof parent["run_id"] !== "string") return null;
  const { run_id, step } = parent;
  return { run_id, step: typeof step === "number" ? step : null };
}

/** The runs that a run was forked from, the parent first, as far as they are listed. */
export interface Ancestry {
  ancestors: Ancestor[];
  /** The run id of the next one, which is not listed or was not read yet. */
  missing: string | null;
}

/** Returns the run that a run was forked from, its parent, and so on. */
export async function ancestryOf(detail: Detail, store: Store): Promise<Ancestry> {
  const found: Ancestor[] = [];
  const seen = new Set([detail.id]);
  for (let child: Detail | null = detail; child !== null && found.length < MOST_ANCESTORS; ) {
    const parent = parentIn(child.metadata);
    const run = parent && listed(store, parent.run_id);
    const step = parent?.step ?? (child.row.first_step === null ? null : child.row.first_step - 1);
    if (parent && !run) return { ancestors: found, missing: parent.run_id };
    if (!run || step === null || seen.has(run.id)) break;
    seen.add(run.id);
    found.push({ run, step: Math.min(step, found.at(-1)?.step ?? Infinity) });
    child = await store.backend.detail(run.id).catch(() => null);
  }
  return { ancestors: found, missing: null };
}

/** Returns the run whose log names itself *runId*. */
export function listed(store: Store, runId: string): Run | undefined {
  return [...store.all.values()].find(({ run_id }) => run_id === runId);
}

/** Returns the name of the parent of a run, with a link if it is listed; null for a run that is not a fork. */
export function forkOf(detail: Detail, store: Store): HTMLElement | null {
  const parent = parentIn(detail.metadata);
  if (!parent) return null;
  const at = parent.step === null ? "" : ` at step ${grouped(parent.step)}`;
  const run = listed(store, parent.run_id);
  if (!run) return html("span", {}, `${plain(parent.run_id, 200)}${at}, which is not listed here`);
  const link = html("a", { href: `#run/${encodeURIComponent(run.id)}` }, nameOf(run, 200));
  link.addEventListener("click", (event) => {
    event.preventDefault();
    store.open("run", run.id);
  });
  return html("span", {}, link, at);
}
