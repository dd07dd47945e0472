/** Puts text on the clipboard. */

/** Copies text; resolves to whether that was allowed. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For pages that are not served securely, where the clipboard is out of reach. */
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  const focused = document.activeElement;
  area.value = text;
  area.style.position = "fixed";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return done;
}
