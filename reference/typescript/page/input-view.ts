/** Where files are dropped, picked and pasted. */

import { button, html } from "./elements.js";
import { dropped, pasted, picked } from "./picking.js";
import type { Selection } from "./selection.js";

export interface InputListener {
  take(selection: Promise<Selection>): void;
  example(): void;
}

/** The drop zone with its buttons; files may be dropped and pasted anywhere on the page. */
export class InputView {
  readonly element: HTMLElement;
  private readonly first: HTMLButtonElement;
  private readonly area = html("textarea", {
    rows: 6, spellcheck: "false", "aria-label": "lines of a log", placeholder: '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}',
  });

  constructor(private readonly listener: InputListener) {
    const files = this.picker({ multiple: true });
    const folder = this.picker({ webkitdirectory: true });
    const writing = this.writing();
    this.first = button("Choose files", { class: "tc-button tc-primary" }, () => files.click());
    const paste = button("Paste text", { "aria-expanded": "false" }, () => {
      writing.hidden = !writing.hidden;
      paste.setAttribute("aria-expanded", String(!writing.hidden));
      if (!writing.hidden) this.area.focus();
    });
    this.element = html(
      "div",
      { class: "tc-input" },
      html("p", { class: "tc-invitation" }, "Drop a log, a run’s folder or a folder of runs here"),
      html(
        "div",
        { class: "tc-buttons" },
        this.first,
        button("Choose a folder", {}, () => folder.click()),
        paste,
        button("Try an example", {}, () => listener.example()),
      ),
      files,
      folder,
      writing,
    );
    this.acceptDrops();
    this.acceptPastes();
  }

  focus(): void {
    this.first.focus();
  }

  private picker(attributes: { multiple?: boolean; webkitdirectory?: boolean }): HTMLInputElement {
    const input = html("input", { type: "file", hidden: true, tabindex: -1, "aria-label": "files", ...attributes });
    input.addEventListener("change", () => {
      if (input.files && input.files.length > 0) this.listener.take(Promise.resolve(picked(input.files)));
      // The same files can be picked again.
      input.value = "";
    });
    return input;
  }

  private writing(): HTMLElement {
    const check = () => this.listener.take(Promise.resolve(pasted(this.area.value)));
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) check();
    });
    return html("div", { class: "tc-writing", hidden: true }, this.area, button("Check the text", { class: "tc-button tc-primary" }, check));
  }

  private acceptDrops(): void {
    let depth = 0;
    const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const mark = (change: number) => {
      depth = change === 0 ? 0 : Math.max(depth + change, 0);
      this.element.classList.toggle("tc-over", depth > 0);
    };
    document.addEventListener("dragenter", (event) => holdsFiles(event) && mark(1));
    document.addEventListener("dragleave", (event) => holdsFiles(event) && mark(-1));
    document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
    document.addEventListener("drop", (event) => {
      if (!event.dataTransfer || !holdsFiles(event)) return;
      event.preventDefault();
      mark(0);
      this.listener.take(dropped(event.dataTransfer));
    });
  }

  private acceptPastes(): void {
    document.addEventListener("paste", (event) => {
      const target = event.target as HTMLElement | null;
      if (!event.clipboardData || target?.closest("input, textarea, select")) return;
      const { files } = event.clipboardData;
      const text = event.clipboardData.getData("text/plain");
      if (files.length > 0) this.listener.take(Promise.resolve(picked(files)));
      else if (text !== "") this.listener.take(Promise.resolve(pasted(text)));
    });
  }
}
