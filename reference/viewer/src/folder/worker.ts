/** Has the runs of a folder, beside the page. */

import type { CurveRequest } from "../protocol.js";
import { Catalog } from "./catalog.js";
import { merged } from "./merged-files.js";
import type { FromWorker, ToWorker } from "./messages.js";

interface Port {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker, moved?: Transferable[]): void;
}

const port = self as unknown as Port;
let serial = 0;
let catalog = new Catalog(serial, "", [], () => undefined);
/** Resolves when the last folder that was opened has its catalog. */
let opening: Promise<void> = Promise.resolve();

async function answered({ id, ask, with: given }: Extract<ToWorker, { id: number }>): Promise<unknown> {
  if (ask === "runs") return catalog.runs(given[0] as string | undefined);
  if (ask === "detail") return catalog.detail(given[0] as string);
  if (ask === "ranks") return catalog.ranks(given[0] as string);
  if (ask === "point") return catalog.point(given[0] as Parameters<Catalog["point"]>[0]);
  if (ask === "bytes") return catalog.bytes(...(given as Parameters<Catalog["bytes"]>));
  await catalog.curves(given[0] as CurveRequest, (frame) => port.postMessage({ id, frame }, [frame.columns.buffer]));
  return null;
}

async function open(own: number, { root, streams }: Extract<ToWorker, { open: unknown }>["open"]): Promise<void> {
  // What cannot be read now is met again, with its message, by what reads that run.
  const logs = await merged(streams).catch(() => streams);
  if (own !== serial) return opening;
  catalog = new Catalog(own, root, logs, (changed) => port.postMessage({ changed }));
  void catalog.work();
  port.postMessage({ changed: "" });
}

port.onmessage = ({ data }) => {
  if ("open" in data) {
    catalog.close();
    opening = open(++serial, data.open);
    return;
  }
  opening.then(() => answered(data)).then(
    (answer) => port.postMessage({ id: data.id, answer }),
    (error: unknown) => port.postMessage({ id: data.id, error: (error as Error).message }),
  );
};
