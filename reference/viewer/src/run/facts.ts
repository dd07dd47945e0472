/** Settings, metadata and files of a run. */

import { html } from "../../../typescript/page/elements.js";
import type { Detail, Json, Run } from "../protocol.js";
import type { Store } from "../store.js";
import { counted, grouped, plain, prose, size, valueText } from "../text.js";
import { dataTable } from "./lists.js";
import type { Part } from "./run-view.js";

/** Members of one object that are shown. */
const MOST_MEMBERS = 500;
const DEEPEST = 40;
const MEDIA_FILE = /^media\/[0-9a-f]{64}\.\w+$/;
/** Deeper objects are closed at first. */
const OPEN_DEPTH = 3;

/** Returns the settings as a tree. */
export function configSection({ config }: { config: Json }): Part | null {
  if (config === null || typeof config !== "object" || Object.keys(config).length === 0) return null;
  return { title: "Config", element: html("div", { class: "tree" }, tree(config, 0)) };
}

/** Returns where, with what and how the run ran and ended. */
export function metadataSection({ row, metadata, end, account, findings, resumes, gaps, left_out }: Detail): Part {
  const reading: { [key: string]: Json } = {
    records: account.records, committed_bytes: account.committed, fragment_bytes: account.fragment, unreadable_bytes: account.gap_bytes,
    unreadable_places: gaps.length + (left_out["gaps"] ?? 0), resumed: resumes.length + (left_out["resumes"] ?? 0), seal: sealOf(row, findings),
  };
  const whole: { [key: string]: Json } = { ...metadata, ...(end ? { end } : {}), log: reading };
  return { title: "Metadata", element: html("div", { class: "tree" }, tree(whole, 0)) };
}

function tree(value: Json, depth: number): HTMLElement {
  const members: [string, Json][] = Array.isArray(value) ? value.map((item, at) => [String(at), item]) : Object.entries(value as { [key: string]: Json });
  const rows = members.slice(0, MOST_MEMBERS).map(([name, item]) => branch(name, item, depth));
  const more = members.length - MOST_MEMBERS;
  return html("ul", {}, ...rows, more > 0 && html("li", { class: "count" }, `${grouped(more)} more`));
}

function branch(name: string, value: Json, depth: number): HTMLElement {
  const isNested = value !== null && typeof value === "object" && (Array.isArray(value) ? value.some((item) => item !== null && typeof item === "object") : Object.keys(value).length > 0);
  const key = html("span", { class: "key" }, plain(name, 200));
  if (!isNested || depth >= DEEPEST) return html("li", {}, key, html("span", { class: `value value-${value === null ? "null" : typeof value}` }, leaf(value)));
  return html("li", {}, html("details", { open: depth < OPEN_DEPTH }, html("summary", {}, key), tree(value, depth + 1)));
}

function leaf(value: Json): string {
  if (typeof value === "string") return prose(value, 2000);
  if (Array.isArray(value)) return plain(value.map((item) => valueText(item)).join(", "), 2000);
  return typeof value === "number" ? String(value) : valueText(value, 2000);
}

/** Returns the files of the run, and the artifacts that the log records. */
export function filesSection({ id, files, artifacts, references = [], left_out }: Detail, store: Store): Part | null {
  if (files.length + artifacts.length + references.length === 0) return null;
  const recorded = artifacts.map((each) => [plain(each.path, 300), plain(each.role ?? ""), each.step == null ? "" : grouped(each.step), each.size_bytes == null ? "" : size(each.size_bytes), plain(each.sha256 ?? "", 20)]);
  // A file of media has the name of its digest: it is shown by its own name among the pictures, sounds and tables.
  const others = files.filter(({ path }) => !MEDIA_FILE.test(path));
  const inMedia = files.length - others.length;
  const present = others.map(({ path, bytes }) => [link(store, id, path), size(bytes)]);
  const elsewhere = references.map(({ uri, role, step, size_bytes }) => [plain(uri, 300), plain(role ?? ""), step == null ? "" : grouped(step), size_bytes == null ? "" : size(size_bytes)]);
  const rest = ["files", "artifacts", "references"].reduce((sum, list) => sum + (left_out[list] ?? 0), 0);
  return {
    title: "Files",
    count: files.length + artifacts.length + references.length + rest,
    element: html(
      "div",
      {},
      others.length > 0 && dataTable(["In the folder", "Size"], present, new Set([1])),
      inMedia > 0 && html("p", { class: "count" }, `${counted(inMedia, "file")} of media ${inMedia === 1 ? "is" : "are"} shown by name above.`),
      artifacts.length > 0 && dataTable(["Artifact", "Role", "Step", "Size", "SHA-256"], recorded, new Set([2, 3])),
      references.length > 0 && dataTable(["Elsewhere", "Role", "Step", "Size"], elsewhere, new Set([2, 3])),
    ),
  };
}

function link(store: Store, run: string, path: string): HTMLElement | string {
  if (store.backend.kind !== "served") return plain(path, 300);
  const address = `files?${new URLSearchParams({ run, path }).toString()}`;
  return html("a", { href: address, download: path.split("/").at(-1) }, plain(path, 300));
}

/** Returns what is known of the seal of a run; one whose findings are not counted yet may be broken. */
function sealOf({ sealed, findings: counts }: Run, findings: Detail["findings"]): string {
  if (!sealed) return "none";
  return findings.some(({ rule }) => rule === "seal-broken") ? "broken" : counts === null ? "not compared yet" : "whole";
}
