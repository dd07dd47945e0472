// Keeps the page "Check a log" and all that it loads, so that it opens without a network.
"use strict";

const CACHE = "toyspec-check";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
// The page names what it had loaded before this worker was there.
self.addEventListener("message", (event) => event.waitUntil(keep(event.data)));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && new URL(url).origin === self.location.origin) event.respondWith(answer(event.request));
});

async function keep(addresses) {
  const cache = await caches.open(CACHE);
  await Promise.all(addresses.map((address) => cache.add(address).catch(() => undefined)));
}

/** The network comes first, so that a kept page is never older than it has to be. */
async function answer(request) {
  try {
    const response = await fetch(request);
    if (response.ok) await (await caches.open(CACHE)).put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await caches.match(request, { ignoreSearch: true, ignoreVary: true });
    if (kept) return kept;
    throw error;
  }
}
