/** Pictures, sounds, films and tables of a run, by name, with a slider over the steps. */

import { fill, html } from "../../../typescript/page/elements.js";
import { EXTENSIONS } from "../generated/media.js";
import type { Detail, Media } from "../protocol.js";
import type { Store } from "../store.js";
import { counted, duration, grouped, plain, prose, size } from "../text.js";
import { dataTable, longList } from "./lists.js";
import type { Part } from "./run-view.js";

/** Larger text and tables are to be saved. */
const MOST_TEXT = 2 << 20;
const [MOST_ROWS, MOST_COLUMNS] = [200, 40];

type Family = "picture" | "sound" | "film" | "table" | "text" | "file";

/** Returns how a media type is shown; one that is not of the list of schemas/media.json is a file to save. */
export function familyOf(type: string): Family {
  if (!Object.hasOwn(EXTENSIONS, type)) return "file";
  const [kind] = type.split("/");
  return kind === "image" ? "picture" : kind === "audio" ? "sound" : kind === "video" ? "film" : type === "text/csv" ? "table" : "text";
}

/** A picture that is smaller is shown with each of its pixels as a square. */
const LEAST_PIXELS = 240;

/** Returns *picture*, which is enlarged when it has come if it is too small to be seen. */
function enlarge(picture: HTMLImageElement): HTMLImageElement {
  picture.addEventListener("load", () => {
    const { naturalWidth: width, naturalHeight: height } = picture;
    const times = Math.floor(LEAST_PIXELS / Math.max(width, height));
    if (times < 2) return;
    Object.assign(picture, { width: width * times, height: height * times });
    picture.style.imageRendering = "pixelated";
  });
  return picture;
}

/** Where the slider of a name was left, by run and name: a run that is written is shown again and again. */
const LEFT_AT = new Map<string, number>();

/** Returns a part for pictures and films, one for sounds, and one for tables and other files. */
export function mediaSections({ id, media = [], left_out }: Detail, store: Store): (Part | null)[] {
  const titles: { [family in Family]: string } = { picture: "Pictures", film: "Pictures", sound: "Sounds", table: "Tables", text: "Tables", file: "Other files" };
  let more = left_out["media"] ?? 0;
  return [...new Set(Object.values(titles))].map((title): Part | null => {
    const own = media.filter(({ media_type }) => titles[familyOf(media_type)] === title);
    if (own.length === 0) return null;
    const names = new Map<string, Media[]>();
    for (const each of own) names.set(each.name, [...(names.get(each.name) ?? []), each]);
    const count = own.length + more;
    const rest = more > 0 && html("p", { class: "count" }, `${counted(more, "file")} more of the run ${more === 1 ? "is" : "are"} counted, not shown.`);
    more = 0;
    return { title, count, element: html("div", {}, longList([...names], ([name, all]) => shown(id, name, all, store), 12), rest) };
  });
}

/** Returns all media of one name of a run, with a slider at the last step or where it was left. */
function shown(run: string, name: string, all: readonly Media[], store: Store): HTMLElement {
  const byStep = new Map<string, Media[]>();
  // Without a step, what has another position is of the same moment only if its time is the same.
  for (const each of all) {
    const key = each.step == null ? `t ${each.t}` : String(each.step);
    byStep.set(key, [...(byStep.get(key) ?? []), each]);
  }
  const steps = [...byStep.values()].map((some) => some.sort((a, b) => (a.index ?? 0) - (b.index ?? 0)));
  const last = steps.length - 1;
  const key = `${run} ${name}`;
  const slider = html("input", { type: "range", max: last, value: Math.min(LEFT_AT.get(key) ?? last, last), "aria-label": `Step of ${plain(name)}` });
  const [stage, where] = [html("div", { class: "media-stage" }), html("output", { class: "count" })];
  const show = () => {
    const some = steps[Number(slider.value)]!;
    const { step, t } = some[0]!;
    where.textContent = step != null ? `step ${grouped(step)}` : t != null ? duration(t) : "";
    slider.setAttribute("aria-valuetext", where.textContent);
    fill(stage, ...some.map((media) => figureOf(run, media, store, ...factsOf(media))));
  };
  slider.addEventListener("input", () => {
    LEFT_AT.set(key, Number(slider.value));
    show();
  });
  show();
  return html("li", { class: "media" }, html("div", { class: "media-head" }, html("h3", {}, plain(name)), last > 0 && slider, where), stage);
}

function factsOf({ media_type, size_bytes, seconds, width, height }: Media): string[] {
  return [width && height ? `${width} × ${height}` : "", seconds ? duration(seconds) : "", size_bytes === undefined ? "" : size(size_bytes), plain(media_type, 60)];
}

/** Returns a file of *run* as what its family is shown by, above its caption and the *facts*. */
export function figureOf(run: string, media: Media, store: Store, ...facts: readonly string[]): HTMLElement {
  const { caption } = media;
  const text = html("figcaption", {}, caption !== undefined && html("span", { class: "prose" }, prose(caption, 2000)), html("small", {}, facts.filter(Boolean).join(" · ")));
  return html("figure", { class: "media-figure" }, contentOf(run, media, store), text);
}

function contentOf(run: string, media: Media, { backend }: Store): HTMLElement {
  const family = familyOf(media.media_type);
  const src = backend.mediaAddress(run, media);
  if (family === "table" || family === "text") return textOf(media, family, src, () => backend.mediaBytes(run, media));
  const missing = (text: string) => html("p", { class: "nothing" }, text);
  if (src === null) return missing(backend.kind === "embedded" ? "Not in the report, which has small files only: see it with `toyspec view`." : "The file is not at hand here. See it with `toyspec view`.");
  const name = `${media.name.replace(/[^\w.-]+/g, "-").slice(0, 80)}.${EXTENSIONS[media.media_type] ?? "bin"}`;
  const link = html("a", { href: src, download: name }, `Save ${plain(name)}`);
  if (family === "file") return link;
  // Its caption is read beside it.
  const label = plain(media.name, 300);
  const sizes = media.width && media.height ? { width: media.width, height: media.height } : {};
  const element = family === "picture" ? enlarge(html("img", { src, alt: label, loading: "lazy", ...sizes })) : html(family === "sound" ? "audio" : "video", { src, controls: true, preload: family === "sound" ? "none" : "metadata", "aria-label": label });
  element.addEventListener("error", () => element.replaceWith(missing("The file is missing or cannot be shown. `toyspec check` says which."), link), { once: true });
  return element;
}

function textOf(media: Media, family: "table" | "text", src: string | null, read: () => Promise<Uint8Array>): HTMLElement {
  const text = html("div", { class: "media-text" }, "Loading …");
  if ((media.size_bytes ?? 0) > MOST_TEXT) {
    fill(text, "Too long to show here. ", src !== null && html("a", { href: src, download: "" }, "Save it"));
    return text;
  }
  read().then(
    (bytes) => {
      const whole = new TextDecoder().decode(bytes.subarray(0, MOST_TEXT));
      fill(text, family === "table" ? tableOf(rowsOf(whole)) : html("pre", { class: "raw", tabindex: 0 }, prose(whole)));
    },
    (error: unknown) => fill(text, (error as Error).message),
  );
  return text;
}

function tableOf(rows: readonly (readonly string[])[]): HTMLElement {
  const [heads = [], ...body] = rows;
  const cells = body.slice(0, MOST_ROWS).map((row) => heads.slice(0, MOST_COLUMNS).map((_, at) => plain(row[at] ?? "", 300)));
  const numbers = new Set([...heads.keys()].filter((at) => body.length > 0 && body.every((row) => row[at] === undefined || row[at] === "" || !Number.isNaN(Number(row[at])))));
  const left = [body.length > MOST_ROWS && counted(body.length - MOST_ROWS, "row"), heads.length > MOST_COLUMNS && counted(heads.length - MOST_COLUMNS, "column")].filter(Boolean);
  return html("div", {}, dataTable(heads.slice(0, MOST_COLUMNS).map((head) => plain(head, 80)), cells, numbers), left.length > 0 && html("p", { class: "count" }, `${left.join(" and ")} more`));
}

/** Returns the rows of a text in CSV. */
export function rowsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [whole, quoted, bare = "", end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    if (whole === "" && row.length === 0) break;
    row.push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === ",") continue;
    rows.push(row);
    row = [];
  }
  return rows;
}
