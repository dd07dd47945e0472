/** Shows the runs of a folder that is dropped on the page or chosen. */

import { button, fill, html } from "../../typescript/page/elements.js";
import { dropped, picked } from "../../typescript/page/picking.js";
import { HANDED, isStreamName, type PickedFile, type Selection } from "../../typescript/page/selection.js";
import { addressesIn, fetched, PATIENCE_SECONDS } from "./addresses.js";
import { App, mark } from "./app.js";
import { digestIn, Folder } from "./backends/folder.js";
import { HINTS } from "./dialects/usual-names.js";
import { demo } from "./folder/demo.js";
import { size } from "./text.js";

const DEMO = "#demo";
const LINKED = "#url=";
/** After so long without a byte the page says that nothing comes. */
const SILENT_SECONDS = 5;
const isAlsoWanted = (name: string) => HINTS.isLog(name) || digestIn(name) !== null;

class Site {
  #backend: Folder | null = null;
  readonly #trouble = html("p", { class: "open-trouble", role: "alert" });
  readonly #folder = chooser({ webkitdirectory: true, "aria-label": "Choose a folder of runs" });
  readonly #files = chooser({ multiple: true, "aria-label": "Choose files" });

  constructor(private readonly root: HTMLElement) {
    for (const input of [this.#folder, this.#files]) {
      input.addEventListener("change", () => {
        this.#take(picked(input.files ?? [], isAlsoWanted));
        input.value = "";
      });
    }
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("is-dropping");
    });
    document.addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) document.body.classList.remove("is-dropping");
    });
    document.addEventListener("drop", (event) => void this.#drop(event));
  }

  start(): void {
    document.body.append(html("div", { hidden: true }, this.#folder, this.#files));
    if (location.hash.startsWith(DEMO)) {
      history.replaceState(null, "", `#${location.hash.slice(DEMO.length).replace(/^\//, "")}`);
      this.#take(demo());
      return;
    }
    this.#welcome();
    if (location.hash === HANDED && window.opener) this.#ask(window.opener as Window);
    if (location.hash.startsWith(LINKED)) void this.#fetch();
  }

  /** Shows the selection of the page that opened this one. */
  #ask(opener: Window): void {
    const take = ({ source, origin, data }: MessageEvent<Selection>) => {
      if (source !== opener || origin !== location.origin) return;
      window.removeEventListener("message", take);
      history.replaceState(null, "", location.pathname);
      this.#take(data);
    };
    window.addEventListener("message", take);
    opener.postMessage(HANDED, location.origin);
  }

  /** Shows the runs at the addresses of the link. */
  async #fetch(): Promise<void> {
    try {
      const addresses = addressesIn(location.hash, location.href);
      const found = await this.#waiting(`Reading ${addresses.map(String).join(", ")} …`, (came) => Promise.allSettled(addresses.map((each) => fetched(each, came))));
      const files = found.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
      const problems = found.flatMap((each) => (each.status === "rejected" ? [(each.reason as Error).message] : []));
      this.#say(problems.join(" "));
      if (files.length === 0) return;
      const isStream = ({ path }: PickedFile) => isStreamName(path.split("/").at(-1)!);
      const host = addresses[0]!.host;
      // A run is named for its folder, the log of another program for its file.
      const inFolder = apart(files.filter(isStream)).map(({ path, blob }) => ({ path: `${host}/${path}`, blob }));
      this.#take({ files: apart(files.filter((file) => !isStream(file))), folders: inFolder.length > 0 ? [{ name: host, files: inFolder }] : [] }, problems);
    } catch (error) {
      this.#say((error as Error).message);
    }
  }

  /** Says each second how much has come of what `read` waits for, or that nothing comes. */
  async #waiting<T>(what: string, read: (came: (bytes: number) => void) => Promise<T>): Promise<T> {
    let come = 0;
    let silent = 0;
    this.#say(what, "working");
    const timer = window.setInterval(() => {
      silent++;
      if (silent > SILENT_SECONDS) this.#say(`${what} Nothing came for ${SILENT_SECONDS} s. After ${PATIENCE_SECONDS} s without a byte this page gives up.`, "working");
      else if (come > 0) this.#say(`${what} ${size(come)}`, "working");
    }, 1000);
    try {
      return await read((bytes) => {
        come += bytes;
        silent = 0;
      });
    } finally {
      window.clearInterval(timer);
    }
  }

  async #drop(event: DragEvent): Promise<void> {
    event.preventDefault();
    document.body.classList.remove("is-dropping");
    if (!event.dataTransfer) return;
    try {
      this.#take(await dropped(event.dataTransfer, isAlsoWanted));
    } catch (error) {
      this.#say(`This cannot be read: ${(error as Error).message}`);
    }
  }

  #welcome(): void {
    const open = button("Choose a folder", { class: "button button-main" }, () => this.#folder.click());
    fill(
      this.root,
      html(
        "main",
        { class: "open" },
        html("p", { class: "brand open-brand" }, mark(), "toyspec"),
        html("h1", {}, "See your training runs"),
        html("p", { class: "open-lead" }, "Drop a folder of runs anywhere on this page. It is read on your machine: nothing is uploaded."),
        html("div", { class: "open-actions" }, open, button("Choose files", { class: "button" }, () => this.#files.click()), button("Show a demo", { class: "button" }, () => this.#take(demo()))),
        this.#trouble,
        html(
          "ul",
          { class: "open-facts" },
          html("li", {}, html("strong", {}, "Any depth. "), "Every ", html("code", {}, "events.jsonl"), " and ", html("code", {}, "metrics.jsonl"), " in the folder is a run, also when compressed with gzip."),
          html("li", {}, html("strong", {}, "Logs of other programs. "), html("code", {}, "trainer_state.json"), ", tables with a step column and JSON Lines are read in place. ", html("code", {}, "toyspec view FOLDER"), " reads console output too."),
          html("li", {}, html("strong", {}, "Torn and damaged runs. "), "What can be read is shown, and what cannot is marked."),
          html("li", {}, html("strong", {}, "Live runs. "), "For runs that are being written, use ", html("code", {}, "toyspec view"), ", which shows new steps as they come."),
        ),
      ),
    );
    // In a frame, the focus would scroll the page around it.
    if (window.top === window) open.focus();
  }

  /** Says below the buttons what is going on, or what went wrong. */
  #say(text: string, what: "working" | "failed" = "failed"): void {
    // What goes on is read out when there is time, what failed at once.
    this.#trouble.setAttribute("role", what === "working" ? "status" : "alert");
    this.#trouble.textContent = text;
    this.#trouble.dataset["what"] = what;
  }

  /** Shows the runs of a selection, and the *problems* with what is missing of it. */
  #take(selection: Selection, problems: readonly string[] = []): void {
    try {
      const backend = (this.#backend ??= new Folder());
      const count = backend.open(selection, problems);
      if (count === 0) this.#say("No run was found: a run is an events.jsonl, a metrics.jsonl or a log of another program by its usual name. Choose a file with another name as a file.");
      else if (!this.root.dataset["view"]) new App(this.root, backend, { open: () => this.#folder.click() }).start().catch((error: unknown) => this.#say(String(error)));
    } catch (error) {
      this.#say(`The folder cannot be read here: ${(error as Error).message}`);
    }
  }
}

/** Returns files whose paths differ: a number comes before a path that another file has too. */
function apart(files: readonly PickedFile[]): PickedFile[] {
  const seen = new Map<string, number>();
  return files.map(({ path, blob }) => {
    const count = (seen.get(path) ?? 0) + 1;
    seen.set(path, count);
    return { path: count === 1 ? path : `${count}/${path}`, blob };
  });
}

function chooser(attributes: { [name: string]: string | boolean }): HTMLInputElement {
  return html("input", { type: "file", ...attributes });
}

new Site(document.getElementById("toyspec-viewer")!).start();
