/** Has the runs of a folder, beside the page. */

import type { CurveRequest } from "../protocol.js";
import { Catalog } from "./catalog.js";
import type { FromWorker, ToWorker } from "./messages.js";

interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker, moved?: Transferable[]): void;
}

const port = self as unknown as Port;
let serial = 0;
let catalog = new Catalog(serial, "", [], () => undefined);

async function answered({ id, ask, with: given }: Extract<ToWorker, { id: number }>): Promise<unknown> {
  if (ask === "runs") return catalog.runs(given[0] as string | undefined);
  if (ask === "detail") return catalog.detail(given[0] as string);
  if (ask === "ranks") return catalog.ranks(given[0] as string);
  if (ask === "bytes") return catalog.bytes(...(given as Parameters<Catalog["bytes"]>));
  await catalog.curves(given[0] as CurveRequest, (frame) => port.postMessage({ id, frame }, [frame.columns.buffer]));
  return null;
}

port.onmessage = ({ data }) => {
  if ("open" in data) {
    catalog.close();
    const { root, streams } = data.open;
    catalog = new Catalog(++serial, root, streams, (changed) => port.postMessage({ changed }));
    void catalog.work();
    port.postMessage({ changed: "" });
    return;
  }
  answered(data).then(
    (answer) => port.postMessage({ id: data.id, answer }),
    (error: unknown) => port.postMessage({ id: data.id, error: (error as Error).message }),
  );
};
