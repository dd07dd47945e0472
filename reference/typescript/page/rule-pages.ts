/** Where the page of a rule is: found from a link that the site itself has made, whatever form its addresses have. */

const KNOWN = "invalid-json";

/** Returns the address of the page of a rule. */
export function ruleAddress(rule: string): string {
  const link = document.querySelector<HTMLAnchorElement>(`a[href*="rules/${KNOWN}"]`);
  const pattern = link?.getAttribute("href") ?? `../spec/rules/${KNOWN}/`;
  return pattern.replace(KNOWN, encodeURIComponent(rule));
}
