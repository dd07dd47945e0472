/** Reads logs from the addresses of a link: `#url=https://host/run/events.jsonl`, several with `&url=` between them. */

import type { PickedFile } from "../../typescript/page/selection.js";
import { grouped } from "./text.js";

const KEY = "url=";
/** A page holds a whole log in memory. */
const MOST_BYTES = 512 * 2 ** 20;
/** A host that sends nothing for so long is given up. */
export const PATIENCE_SECONDS = 60;

/** Returns the addresses that a hash names; a relative one is below the page. Throws for what is not of the web. */
export function addressesIn(hash: string, base: string): URL[] {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith(KEY)) return [];
  return text
    .slice(KEY.length)
    .split(`&${KEY}`)
    .map((each) => {
      const address = parsed(isEscaped(each) ? decodeURIComponent(each) : each, base);
      // The policy of the page lets it ask only these.
      if (address.protocol !== "https:" && address.origin !== new URL(base).origin) throw new Error(`${address} begins with ${address.protocol}, which is not supported. Use an address that begins with https:, or download the file and drop it here.`);
      return address;
    });
}

function isEscaped(text: string): boolean {
  return !text.includes("/") && text.includes("%");
}

function parsed(text: string, base: string): URL {
  try {
    return new URL(text, base);
  } catch {
    throw new Error(`“${text}” is not an address.`);
  }
}

/** Returns the file at an address, with the name of its folder; `came` is given the number of bytes that have come, each time. Throws an Error that says what to do. */
export async function fetched(address: URL, came: (bytes: number) => void): Promise<PickedFile> {
  const silence = new Silence(address);
  try {
    let answer: Response;
    try {
      // Neither cookies nor the address of this page are sent.
      answer = await fetch(address, { credentials: "omit", referrerPolicy: "no-referrer", signal: silence.signal });
    } catch {
      silence.signal.throwIfAborted();
      throw new Error(`${address} cannot be read. Its host is not reached, or does not let other sites read it: it has to send the header Access-Control-Allow-Origin. Download the file and drop it here.`);
    }
    if (!answer.ok) throw new Error(`${address} cannot be read: its host answers with status ${answer.status}. Open the address in a tab of its own to see why, or drop the file here.`);
    const blob = await whole(answer, address, silence, came);
    if (blob.size === 0) throw new Error(`${address} is empty. A log has at least one line.`);
    if (await isWebPage(blob)) throw new Error(`${address} is a web page, not a log. Its host may ask for a login, or show the file in a page: use the address of the raw file, or download it and drop it here.`);
    return { path: pathOf(address), blob };
  } finally {
    silence.end();
  }
}

/** Gives a host up that sends nothing for PATIENCE_SECONDS. */
class Silence {
  private readonly controller = new AbortController();
  private timer = 0;

  constructor(private readonly address: URL) {
    this.begin();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Waits from now on. */
  begin(): void {
    this.end();
    const why = `The host of ${this.address} sent nothing for ${PATIENCE_SECONDS} s. Load this page again, or download the file and drop it here.`;
    this.timer = window.setTimeout(() => this.controller.abort(new Error(why)), 1000 * PATIENCE_SECONDS);
  }

  end(): void {
    window.clearTimeout(this.timer);
  }
}

async function whole(answer: Response, address: URL, silence: Silence, came: (bytes: number) => void): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = answer.body!.getReader();
  for (;;) {
    silence.begin();
    const { done, value } = await reader.read().catch(() => {
      silence.signal.throwIfAborted();
      throw new Error(`${address} broke off after ${grouped(size)} bytes. Load this page again, or download the file and drop it here.`);
    });
    if (done) return new Blob(parts);
    parts.push(value);
    size += value.length;
    came(value.length);
    // What its host announces may be the size after compression: a file is at least as long.
    if (Math.max(size, Number(answer.headers.get("Content-Length"))) <= MOST_BYTES) continue;
    await reader.cancel();
    throw new Error(`${address} has more than ${MOST_BYTES / 2 ** 20} MiB. Download it, and open its folder with toyspec view.`);
  }
}

/** Returns whether a file begins as HTML does: no line of a log begins so. */
async function isWebPage(file: Blob): Promise<boolean> {
  return /^\s*<(!doctype\s+html|html)\b/i.test(await file.slice(0, 1000).text());
}

/** Returns the last two parts of the path: the folder has the name of the run. */
function pathOf(address: URL): string {
  const parts = address.pathname.split("/").filter(Boolean).map(unescaped);
  return parts.slice(-2).join("/") || address.host;
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text).replaceAll("/", "_");
  } catch {
    return text;
  }
}
