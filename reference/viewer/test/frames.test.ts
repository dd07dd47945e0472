import assert from "node:assert/strict";
import { test } from "node:test";

import { curveOf, frameOf, FrameReader, packed } from "../src/frames.js";
import type { CurveHeader, Frame } from "../src/protocol.js";

const HEADER: Omit<CurveHeader, "columns"> = {
  run: "a", metric: "loss", attempt: "latest", axes: ["step"], revision: "1", points: 5, level: 2, buckets: 3, range: { step: [1, 5] },
};

const column = (...values: number[]) => Float64Array.from(values);

function framesIn(bytes: Uint8Array, size: number): Frame[] {
  const reader = new FrameReader();
  const found: Frame[] = [];
  for (let at = 0; at < bytes.length; at += size) found.push(...(reader.feed(bytes.subarray(at, at + size)) as Frame[]));
  reader.finish();
  return found;
}

test("frames are found however the bytes arrive", () => {
  const one = packed(frameOf(HEADER, { step: column(2, 4, 5), mean: column(1, NaN, 3) }));
  const bytes = new Uint8Array([...one, ...packed(frameOf({ ...HEADER, run: "b é" }, { step: column(2, 4, 5), mean: column(4, 5, 6) }))]);
  for (const size of [1, 7, 8, 100, bytes.length]) {
    const found = framesIn(bytes, size);
    assert.deepEqual(found.map(({ header }) => header.run), ["a", "b é"]);
    assert.deepEqual([...curveOf(found[0]!, "step")!.mean], [1, NaN, 3]);
  }
});

test("an answer that is cut off or no answer at all is refused", () => {
  const bytes = packed(frameOf(HEADER, { step: column(2, 4, 5), mean: column(1, 2, 3) }));
  assert.throws(() => framesIn(bytes.subarray(0, bytes.length - 1), 5), /ends within a frame/);
  assert.throws(() => framesIn(new TextEncoder().encode("<!doctype html><p>Not found"), 100), /not a sequence of frames/);
});

test("what is left out of a frame follows from its header", () => {
  const [frame] = framesIn(packed(frameOf({ ...HEADER, tail: 1 }, { step: column(2, 4, 5), mean: column(1, 2, 3), max: column(9, 9, 9), nan: column(0, 2, 0) })), 1000);
  const curve = curveOf(frame!, "step")!;
  assert.deepEqual([[...curve.min], [...curve.max], [...curve.mean]], [[1, 2, 3], [9, 9, 9], [1, 2, 3]]);
  assert.deepEqual([[...curve.count], [...curve.nan]], [[2, 2, 1], [0, 2, 0]]);
  assert.equal(curveOf(frame!, "time"), null);
});

test("columns are binary64, binary32 to a multiple of eight bytes, or without bytes", () => {
  const columns = { step: [2, 3, 7], mean: "f4", min: "f8", max: [4, 0, 4] } as const;
  const bytes = new Uint8Array(16 + 24);
  bytes.set(new Uint8Array(Float32Array.of(1, 2.5, NaN).buffer));
  bytes.set(new Uint8Array(Float64Array.of(0.1, 2, NaN).buffer), 16);
  const [frame] = framesIn(packed({ header: { ...HEADER, columns }, columns: bytes }), 11);
  const { place, mean, min, max } = curveOf(frame!, "step")!;
  assert.deepEqual([[...place], [...mean], [...min], [...max]], [[2, 5, 7], [1, 2.5, NaN], [0.1, 2, NaN], [4, 4, 4]]);
});

test("columns that are cut off are refused, and curves share those of one value", () => {
  const [frame] = framesIn(packed(frameOf(HEADER, { step: column(2, 4, 5), mean: column(1, 2, 3) })), 1000);
  assert.throws(() => curveOf({ ...frame!, header: { ...frame!.header, buckets: 4 } }, "step"), /cut off/);
  const [one, other] = [curveOf(frame!, "step")!, curveOf(frame!, "step")!];
  assert.equal(one.nan, other.nan);
});

test("a frame without columns has a header alone", () => {
  const [frame] = framesIn(packed({ header: { report: 1 }, columns: new Uint8Array() }), 3);
  assert.deepEqual([frame!.header, frame!.columns.length], [{ report: 1 }, 0]);
});
