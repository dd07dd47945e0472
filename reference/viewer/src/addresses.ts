/** Reads logs from the addresses of a link: `#url=https://host/run/events.jsonl`, several with `&url=` between them. */

import type { PickedFile } from "../../typescript/page/selection.js";

const KEY = "url=";
/** A page holds a whole log in memory. */
const MOST_BYTES = 512 * 2 ** 20;

/** Returns the addresses that a hash names; a relative one is below the page. Throws for what is not of the web. */
export function addressesIn(hash: string, base: string): URL[] {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith(KEY)) return [];
  return text
    .slice(KEY.length)
    .split(`&${KEY}`)
    .map((each) => {
      const address = parsed(isEscaped(each) ? decodeURIComponent(each) : each, base);
      if (address.protocol !== "https:" && address.protocol !== "http:") throw new Error(`${address.protocol} is not supported. Use an address that begins with https:.`);
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

/** Returns the file at an address, with the name of its folder. Throws an Error that says what to do. */
export async function fetched(address: URL): Promise<PickedFile> {
  let answer: Response;
  try {
    // Neither cookies nor the address of this page are sent.
    answer = await fetch(address, { credentials: "omit", referrerPolicy: "no-referrer" });
  } catch {
    throw new Error(`${address} cannot be read. Its host is not reached, or does not let other sites read it: it has to send the header Access-Control-Allow-Origin. Download the file and drop it here.`);
  }
  if (!answer.ok) throw new Error(`${address} cannot be read: its host answers with status ${answer.status}.`);
  return { path: pathOf(address), blob: await whole(answer, address) };
}

async function whole(answer: Response, address: URL): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = answer.body!.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.length;
    if (size > MOST_BYTES) {
      await reader.cancel();
      throw new Error(`${address} has more than ${MOST_BYTES / 2 ** 20} MiB. Download it, and use toyspec view.`);
    }
    parts.push(next.value);
  }
  return new Blob(parts);
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
