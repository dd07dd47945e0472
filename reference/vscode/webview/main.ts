/** The page of a panel: takes the files from the extension and shows them in the viewer. */

import type { PickedFile } from "../../typescript/page/selection.js";
import { fill, html } from "../../typescript/page/elements.js";
import { App } from "../../viewer/src/app.js";
import { Folder } from "../../viewer/src/backends/folder.js";
import type { FromPage, Shown, ToPage } from "../src/messages.js";

declare function acquireVsCodeApi(): { postMessage(message: FromPage): void };

class Panel {
  private readonly files = new Map<string, Blob>();
  private readonly said = html("p", { class: "message", role: "status", hidden: true });
  private backend: Folder | null = null;

  constructor(private readonly root: HTMLElement) {
    root.before(this.said);
    fill(root, html("p", { class: "nothing" }, "Reading the runs …"));
  }

  take(message: ToPage): void {
    if (message.type === "shown") return this.show(message);
    const { path, from, bytes } = message;
    const before = this.files.get(path) ?? new Blob();
    this.files.set(path, new Blob([before.slice(0, from), bytes as Uint8Array<ArrayBuffer>]));
  }

  private show({ root, isFolder, paths, leftOut }: Shown): void {
    const known = new Set(paths);
    for (const path of [...this.files.keys()]) if (!known.has(path)) this.files.delete(path);
    const files = paths.map((path): PickedFile => ({ path, blob: this.files.get(path) ?? new Blob() }));
    this.said.textContent = leftOut.length === 0 ? "" : `Not shown: ${leftOut.slice(0, 5).join("; ")}${leftOut.length > 5 ? `; and ${leftOut.length - 5} more` : ""}.`;
    this.said.hidden = leftOut.length === 0;
    const backend = (this.backend ??= new Folder());
    const count = backend.open(isFolder ? { files: [], folders: [{ name: root, files }] } : { files, folders: [] });
    if (this.root.dataset["view"]) return;
    if (count > 0) new App(this.root, backend).start().catch((error: unknown) => (this.root.textContent = String(error)));
    else fill(this.root, html("p", { class: "nothing" }, "There is no run here: a run is an events.jsonl, a metrics.jsonl or a log of another program by its usual name."));
  }
}

/** Gives the viewer the colours of the editor's theme, which may not be those of the system. */
function followTheme(): void {
  const media = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSMediaRule && rule.conditionText.includes("prefers-color-scheme: dark")) as CSSMediaRule[];
  const update = () => {
    const { classList } = document.body;
    const isDark = classList.contains("vscode-dark") || (classList.contains("vscode-high-contrast") && !classList.contains("vscode-high-contrast-light"));
    for (const rule of media) rule.media.mediaText = isDark ? "all" : "not all";
    // The charts take their colours again when this changes.
    document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  };
  update();
  new MutationObserver(update).observe(document.body, { attributes: true, attributeFilter: ["class"] });
}

/** The editor keeps links within a page from being followed: it scrolls to an element of that name instead. */
function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href^='#']");
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    location.hash = link.getAttribute("href")!;
  });
}

followTheme();
followLinks();
const panel = new Panel(document.getElementById("toyspec-viewer")!);
window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => panel.take(data));
acquireVsCodeApi().postMessage({ type: "ready" });
