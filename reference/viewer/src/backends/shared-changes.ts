/** The stream of changes of a server: one for all tabs that are seen, none for those that are hidden. */

import type { Change } from "../protocol.js";

/** Between two attempts to reach a server that has gone. */
const RETRY_MS = 1000;
/** The lock that the tab with the stream holds, and the channel on which it passes the changes on. */
const NAME = "toyspec changes";

/**
 * Gives the changes of the server to a tab.
 *
 * A browser has six connections to a server for all its tabs, and a stream takes one. One of the tabs that are seen has the
 * stream and passes its messages on; when that tab is hidden or closed, another one goes on. Without locks, which browsers have on
 * this machine and by HTTPS only, each tab that is seen has a stream of its own.
 */
export class SharedChanges {
  #events: EventSource | null = null;
  #isReached = true;
  #refused: string | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #channel = "locks" in navigator ? new BroadcastChannel(NAME) : null;
  /** Ends the wait for the lock, or gives it back. */
  #leave: (() => void) | null = null;

  constructor(private readonly take: (change: Change) => void) {
    if (this.#channel) this.#channel.onmessage = ({ data }: MessageEvent<Change>) => this.#pass(data);
    document.addEventListener("visibilitychange", this.#look);
    if (!document.hidden) this.#join();
  }

  readonly stop = (): void => {
    document.removeEventListener("visibilitychange", this.#look);
    this.#part();
    this.#channel?.close();
  };

  readonly #look = (): void => {
    if (document.hidden) this.#part();
    else if (this.#leave === null) {
      this.#join();
      // What happened meanwhile was not seen.
      this.take({ reached: this.#isReached });
    }
  };

  /** Waits for the stream to be this tab's. */
  #join(): void {
    if (!this.#channel) {
      this.#leave = () => undefined;
      this.#open();
      return;
    }
    const waiting = new AbortController();
    let end: () => void = () => waiting.abort();
    this.#leave = () => end();
    const hold = () => new Promise<void>((resolve) => {
      end = resolve;
      if (this.#leave === null) resolve();
      else this.#open();
    });
    navigator.locks.request(NAME, { signal: waiting.signal }, hold).catch(() => undefined);
  }

  #part(): void {
    clearTimeout(this.#timer);
    this.#events?.close();
    this.#events = null;
    this.#leave?.();
    this.#leave = null;
  }

  #open(): void {
    clearTimeout(this.#timer);
    this.#events?.close();
    this.#events = new EventSource("api/changes");
    this.#events.onmessage = ({ data }: MessageEvent<string>) => this.#say(JSON.parse(data) as Change);
    // Between the stream of another tab and this one a change may have been missed.
    this.#events.onopen = () => this.#say({ reached: true });
    this.#events.onerror = () => {
      this.#say({ reached: false });
      void this.#askWhy();
      // A server that is not there at all is tried again here: browsers wait longer each time.
      this.#events?.close();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#open(), RETRY_MS);
    };
  }

  /** Says what a server answers that refuses: one that was started again has another token. */
  async #askWhy(): Promise<void> {
    const answer = await fetch("api/changes", { method: "HEAD" }).catch(() => null);
    if (answer?.status === 403) this.#say({ reached: false, refused: "it was started again; open the address that `toyspec view` printed" });
  }

  #say(change: Change): void {
    this.#channel?.postMessage(change);
    this.#pass(change);
  }

  #pass(change: Change): void {
    if ("reached" in change) {
      if (!change.reached && !this.#isReached && change.refused === this.#refused) return;
      // That it cannot be reached says less than why.
      if (!change.reached && change.refused === undefined && this.#refused !== undefined) return;
      [this.#isReached, this.#refused] = [change.reached, change.refused];
    }
    if (!document.hidden) this.take(change);
  }
}
