/** What the page of a run cannot show: what was not logged, what an import could not carry, and what is beyond the limits of the page. */

import { html } from "../../../typescript/page/elements.js";
import type { Detail } from "../protocol.js";
import { counted, grouped, plain } from "../text.js";
import { dataTable } from "./lists.js";
import type { Part } from "./run-view.js";

interface Loss {
  where: string;
  what: string;
  count: number;
}

/** Returns a table of all that is left out; null where nothing is. */
export function leftOutSection(detail: Detail): Part | null {
  const losses = lossesOf(detail);
  if (losses.length === 0) return null;
  const rows = losses.map(({ where, what, count }) => [where, what, grouped(count)]);
  return { title: "Left out", element: html("div", { class: "left-out" }, dataTable(["Where", "What", "Number"], rows, new Set([2]))) };
}

/** Returns in one sentence how much the log itself lacks; empty where it lacks nothing. */
export function incompleteText(detail: Detail): string {
  const { missing, imported } = detail;
  const sum = (counts: { [name: string]: number } = {}) => Object.values(counts).reduce((all, count) => all + count, 0);
  const [values, records] = [sum(missing?.left_out), sum(missing?.dropped)];
  const dropped = (imported?.losses ?? []).filter(({ effect }) => effect === "dropped").reduce((all, { count }) => all + count, 0);
  const parts = [values > 0 && counted(values, "value"), records > 0 && counted(records, "record")].filter(Boolean);
  const logging = parts.length > 0 ? `${parts.join(" and ")} ${values + records === 1 ? "was" : "were"} not logged` : "";
  const importing = dropped > 0 ? `${grouped(dropped)} of ${grouped(imported!.items)} ${plain(imported!.item, 40)} were not imported` : "";
  const all = [logging, importing].filter(Boolean).join(", and ");
  return all === "" ? "" : `This log is not complete: ${all}.`;
}

function lossesOf({ missing, imported, left_out }: Detail): Loss[] {
  const by = (counts: { [name: string]: number } | undefined, where: string, text: (name: string) => string) =>
    Object.entries(counts ?? {}).filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a).map(([name, count]): Loss => ({ where, what: text(plain(name, 120)), count }));
  return [
    ...by(missing?.left_out, "not logged", (name) => `values of ${name}`),
    ...by(missing?.dropped, "not logged", (kind) => (kind === "record" ? "records" : `records of the kind ${kind}`)),
    ...(imported?.losses ?? []).map(({ effect, meaning, count }): Loss => ({ where: effect === "dropped" ? "not imported" : "changed by the import", what: plain(meaning, 300), count })),
    ...by(left_out, "in the log, not on this page", (list) => list.replaceAll("_", " ")),
  ];
}
