/** Checks streams beside the page. */

import { judgeAll } from "./judging-all.js";
import type { FromWorker, ToWorker } from "./messages.js";

interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
}

const port = self as unknown as Port;

port.onmessage = (event) => void judgeAll(event.data.streams, (message) => port.postMessage(message));
