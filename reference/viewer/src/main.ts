/** Shows runs: chooses where they come from by what is in the page, and starts the app. */

import { App } from "./app.js";
import { Embedded } from "./backends/embedded.js";
import { Served } from "./backends/served.js";
import type { Backend } from "./protocol.js";

async function backend(): Promise<Backend> {
  const data = document.getElementById("toyspec-data");
  return data ? Embedded.from(data.textContent) : new Served();
}

const root = document.getElementById("toyspec-viewer")!;
backend().then(
  (found) => new App(root, found).start(),
  (error: unknown) => (root.textContent = `The runs cannot be shown: ${(error as Error).message}`),
);
