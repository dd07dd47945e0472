/** Checks streams beside the page. */

import { checkAll } from "./all-verdicts.js";
import type { FromWorker, ToWorker } from "./messages.js";

interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

const port = self as unknown as Port;

port.onmessage = (event) => void checkAll(event.data.streams, (message) => port.postMessage(message));
