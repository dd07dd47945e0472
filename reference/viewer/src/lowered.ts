/** Returns text in lower case, one character for each, as all evaluators of the language of filters do it. */
export function lowered(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text.toLowerCase() : Array.from(text.replaceAll("\u0130", "i"), (each) => each.toLowerCase()).join("");
}
