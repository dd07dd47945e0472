/** Keeps the page for times without a network. */

/** Has the service worker beside the page keep it and all that it has loaded. */
export async function keepOffline(): Promise<void> {
  if (!("serviceWorker" in navigator) || !location.protocol.startsWith("http")) return;
  try {
    await navigator.serviceWorker.register("offline.js");
    const { active } = await navigator.serviceWorker.ready;
    const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
    active?.postMessage([location.href.split("#")[0], ...loaded.filter((address) => address.startsWith(location.origin))]);
  } catch {
    // Without it the page needs the network to be opened, and nothing else.
  }
}
