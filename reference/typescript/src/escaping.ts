/** Makes text from a log inert before a person sees it: see spec/checking.md. */

import { LIMITS } from "./tables.js";

// Unicode characters that change how the text around them is shown: marks of direction, invisible separators,
// line and paragraph separators, the byte order mark, interlinear annotations and tags; and what is not a character.
const NOT_INERT =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\ufeff\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;
const ELLIPSIS = "…";

/** Returns text with every control, deceptive and surrogate character written as `\x1b` or `\u202e`. */
export function printable(text: string): string {
  return text.replace(NOT_INERT, (character) => {
    const code = character.codePointAt(0)!;
    const digits = code.toString(16);
    if (code < 0xa0) return `\\x${digits.padStart(2, "0")}`;
    return code <= 0xffff ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

/** Returns bytes as inert text; a byte that is not part of UTF-8 is written as `\xff`. */
export function printableBytes(data: Uint8Array): string {
  let text = "";
  for (let at = 0; at < data.length; ) {
    const length = characterLength(data, at);
    text += length === 0 ? `\\x${data[at]!.toString(16).padStart(2, "0")}` : printable(decoder.decode(data.subarray(at, at + length)));
    at += length || 1;
  }
  return text;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns inert text, cut to a number of characters; a cut shows as an ellipsis at the end. */
export function shortened(text: string, limit: number = LIMITS.max_message_value_chars): string {
  // A character is one or two units long: what is beyond twice the limit is never shown.
  const characters = [...text.slice(0, 2 * limit + 2)];
  const shown = [...printable(characters.slice(0, limit).join(""))];
  if (characters.length <= limit && shown.length <= limit) return shown.join("");
  return shown.slice(0, limit - 1).join("") + ELLIPSIS;
}

/** Returns the number of bytes of the character of well-formed UTF-8 at a place, 0 where there is none. */
export function characterLength(data: Uint8Array, at: number): number {
  const lead = data[at]!;
  if (lead < 0x80) return 1;
  const more = lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : lead >= 0xf0 && lead < 0xf5 ? 3 : 0;
  if (more === 0) return 0;
  const low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  const second = data[at + 1] ?? 0;
  if (second < low || second > high) return 0;
  for (let i = 2; i <= more; i++) if (((data[at + i] ?? 0) & 0xc0) !== 0x80) return 0;
  return more + 1;
}
