/** Reads files piece by piece; unpacks those that are gzip data, known by their first bytes. */

/** Thrown where compressed data is cut off or damaged; the message is for a person. */
export class UnpackingError extends Error {}

const CHUNK_BYTES = 1 << 18;

/** Yields the bytes of a file, unpacked where it is gzip data; `onRead` gets the number of bytes that were read. */
export async function* chunks(blob: Blob, onRead: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  if (await isGzip(blob)) yield* unpacked(blob, onRead);
  else yield* slices(blob, onRead);
}

/** Returns whether a file is gzip data. */
export async function isGzip(blob: Blob): Promise<boolean> {
  const [first, second] = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  return first === 0x1f && second === 0x8b;
}

/** Reads slice by slice, which holds one of them in memory; the stream of a blob reads ahead as it likes. */
async function* slices(blob: Blob, onRead: (bytes: number) => void): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (let at = 0; at < blob.size; at += CHUNK_BYTES) {
    const slice = new Uint8Array(await blob.slice(at, at + CHUNK_BYTES).arrayBuffer());
    onRead(at + slice.length);
    yield slice;
  }
}

async function* unpacked(blob: Blob, onRead: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  if (typeof DecompressionStream === "undefined") throw new UnpackingError("this browser cannot unpack gzip data; unpack the file first");
  const source = slices(blob, onRead);
  const packed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const step = await source.next();
      if (step.done) controller.close();
      else controller.enqueue(step.value);
    },
  });
  const reader = packed.pipeThrough(new DecompressionStream("gzip")).getReader();
  let given = 0;
  for (;;) {
    let step: Awaited<ReturnType<typeof reader.read>>;
    try {
      step = await reader.read();
    } catch {
      throw new UnpackingError(`the gzip data is cut off, damaged or in several members after ${given} bytes of unpacked log; read what is there with \`gzip -dc\``);
    }
    if (step.done) return;
    given += step.value.length;
    yield step.value;
  }
}
