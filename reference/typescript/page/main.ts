/** Puts the checker into the page `check`: takes files, has them checked, and shows what came of it. */

import { Checking, type Outcome } from "./checking.js";
import { copy } from "./copying.js";
import { button, fill, html } from "./elements.js";
import { example } from "./example.js";
import { size } from "./figures.js";
import { InputView } from "./input-view.js";
import { keepOffline } from "./offline.js";
import { outcomeView } from "./outcome-view.js";
import { fragmentOf, holdsSelection, LinkError, selectionIn } from "./permalink.js";
import { jsonReport } from "./report.js";
import { HANDED, type Selection, streamsIn } from "./selection.js";
import { sentence, shownPath, textReport } from "./text-report.js";

const program = document.querySelector<HTMLScriptElement>('script[src$="/page/main.js"]');
/** Where the viewer is; null for a page that was saved, which has none beside it. */
const VIEWER = program && new URL("../toyspec-viewer.html", program.src);

class Checker {
  private readonly checking = new Checking();
  private readonly status = html("p", { class: "tc-status", role: "status", "aria-live": "polite" });
  private readonly bar = html("progress", { class: "tc-progress", "aria-label": "bytes checked" });
  private readonly place = html("p", { class: "tc-place" });
  private readonly running = html("div", { class: "tc-running", hidden: true });
  private readonly actions = html("div", { class: "tc-actions", hidden: true });
  private readonly results = html("div", { class: "tc-results" });
  private readonly input: InputView;
  private selection: Selection = { files: [], folders: [] };

  constructor(root: HTMLElement) {
    const cancel = button("Cancel", {}, () => this.cancel());
    this.running.append(this.bar, cancel, this.place);
    this.input = new InputView({
      take: (selection) => this.takeFromPerson(selection),
      example: () => this.takeFromPerson(Promise.resolve(example())),
    });
    fill(root, this.input.element, this.running, html("div", { class: "tc-head" }, this.status, this.actions), this.results);
    window.addEventListener("hashchange", () => this.takeAddress());
    this.takeAddress();
  }

  private takeAddress(): void {
    if (holdsSelection(location.hash)) void this.take(selectionIn(location.hash));
  }

  private takeFromPerson(selection: Promise<Selection>): void {
    // What the address holds is not what is shown any more.
    if (holdsSelection(location.hash)) history.replaceState(null, "", location.pathname + location.search);
    void this.take(selection);
  }

  private async take(selecting: Promise<Selection>): Promise<void> {
    this.clear("Looking for streams …");
    try {
      this.selection = await selecting;
      const streams = streamsIn(this.selection);
      if (streams.length === 0) {
        this.say("Nothing to check: no file and no folder was given.");
        return;
      }
      this.start(streams);
    } catch (error) {
      this.say(error instanceof LinkError ? `The address cannot be used: ${error.message}.` : `This cannot be read: ${String(error)}`);
    }
  }

  private start(streams: Outcome["streams"]): void {
    this.say("Checking …");
    this.running.hidden = false;
    this.bar.removeAttribute("value");
    this.place.textContent = "";
    this.checking.start(streams, {
      progress: (done, total, path) => {
        this.bar.max = Math.max(total, 1);
        this.bar.value = done;
        this.place.textContent = `${size(done)} of ${size(total)}: ${shownPath(path)}`;
      },
      done: (outcome) => this.show(outcome),
      failed: (reason) => {
        this.running.hidden = true;
        this.say(`The check has failed: ${reason}.`);
      },
    });
  }

  private cancel(): void {
    this.checking.cancel();
    this.clear("Cancelled.");
    this.input.focus();
  }

  private clear(text: string): void {
    this.checking.cancel();
    this.running.hidden = true;
    this.actions.hidden = true;
    fill(this.results);
    this.say(text);
  }

  private say(text: string): void {
    this.status.textContent = text;
  }

  private show(outcome: Outcome): void {
    const { entries } = outcome;
    this.running.hidden = true;
    this.say(sentence(entries));
    fill(this.results, outcomeView(outcome));
    fill(
      this.actions,
      copier("Copy as text", () => textReport(entries)),
      copier("Copy as JSON", () => jsonReport(entries)),
      this.linker(outcome),
      VIEWER !== null && button("See the curves", {}, () => show(this.selection, VIEWER)),
    );
    this.actions.hidden = false;
  }

  /** Offers the address that holds the selection, where that is small enough. */
  private linker(outcome: Outcome): HTMLElement {
    const place = html("span", {});
    if (outcome.streams.some((stream) => stream.blob === null)) return place;
    void fragmentOf(outcome.streams).then(
      (fragment) => {
        if (fragment === null) fill(place, html("span", { class: "tc-note" }, "too large for a link"));
        else {
          const made = copier("Copy link", () => {
            history.replaceState(null, "", fragment);
            return location.href;
          });
          fill(place, made);
        }
      },
      () => fill(place),
    );
    return place;
  }
}

/** Opens the viewer on a selection, which it asks for once it is there. */
function show(selection: Selection, viewer: URL): void {
  const opened = window.open(`${viewer}${HANDED}`);
  const answer = ({ source, origin }: MessageEvent) => {
    if (source !== opened || origin !== location.origin) return;
    window.removeEventListener("message", answer);
    opened?.postMessage(selection, { targetOrigin: origin });
  };
  window.addEventListener("message", answer);
}

/** Returns a button that copies what *make* returns, and reports it. */
function copier(text: string, make: () => string): HTMLButtonElement {
  const made = button(text, {}, () => {
    void copy(make()).then((done) => {
      made.textContent = done ? "Copied" : "Not allowed to copy";
      setTimeout(() => (made.textContent = text), 1500);
    });
  });
  return made;
}

const root = document.getElementById("toyspec-checker");
if (root) {
  new Checker(root);
  window.addEventListener("load", () => void keepOffline());
}
