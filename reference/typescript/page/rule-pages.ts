/** Where the page of a rule is: found from a link that the site itself has made, whatever form its addresses have. */

const KNOWN = "invalid-json";

/** Returns the address of the page of a rule, null in a copy of the checker that is not in the site. */
export function ruleAddress(rule: string): string | null {
  const link = document.querySelector<HTMLAnchorElement>(`a[href*="rules/${KNOWN}"]`);
  return link?.getAttribute("href")?.replace(KNOWN, encodeURIComponent(rule)) ?? null;
}
