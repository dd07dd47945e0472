import assert from "node:assert/strict";
import { test } from "node:test";

import { curveOf, FrameReader, packed, packedFrame } from "../src/frames.js";
import type { CurveHeader, Frame } from "../src/protocol.js";

const HEADER: Omit<CurveHeader, "columns"> = {
  run: "a", metric: "loss", attempt: "latest", axes: ["step"], revision: "1", points: 5, level: 2, buckets: 3, range: { step: [1, 5] },
};

function framesIn(bytes: Uint8Array, size: number): Frame[] {
  const reader = new FrameReader();
  const found: Frame[] = [];
  for (let at = 0; at < bytes.length; at += size) found.push(...(reader.feed(bytes.subarray(at, at + size)) as Frame[]));
  reader.finish();
  return found;
}

test("frames are found however the bytes arrive", () => {
  const one = packedFrame(HEADER, { step: [2, 4, 5], last: [1, NaN, 3] });
  const bytes = new Uint8Array([...one, ...packedFrame({ ...HEADER, run: "b é" }, { step: [2, 4, 5], last: [4, 5, 6] })]);
  for (const size of [1, 7, 8, 100, bytes.length]) {
    const found = framesIn(bytes, size);
    assert.deepEqual(found.map(({ header }) => header.run), ["a", "b é"]);
    assert.deepEqual([...curveOf(found[0]!, "step")!.last], [1, NaN, 3]);
  }
});

test("an answer that is cut off or no answer at all is refused", () => {
  const bytes = packedFrame(HEADER, { step: [2, 4, 5], last: [1, 2, 3] });
  assert.throws(() => framesIn(bytes.subarray(0, bytes.length - 1), 5), /ends within a frame/);
  assert.throws(() => framesIn(new TextEncoder().encode("<!doctype html><p>Not found"), 100), /not a sequence of frames/);
});

test("what is left out of a frame follows from its header", () => {
  const [frame] = framesIn(packedFrame({ ...HEADER, constants: { nan: 0 }, tail: { count: 1, nan: 1 } }, { step: [2, 4, 5], last: [1, 2, 3], max: [9, 9, 9] }), 1000);
  const curve = curveOf(frame!, "step")!;
  assert.deepEqual([[...curve.min], [...curve.max], [...curve.mean]], [[1, 2, 3], [9, 9, 9], [1, 2, 3]]);
  assert.deepEqual([[...curve.count], [...curve.nan]], [[2, 2, 1], [0, 0, 1]]);
  assert.equal(curveOf(frame!, "time"), null);
});

test("columns of 4 bytes and those that take none are read as the numbers that were logged", () => {
  const columns = new Uint8Array(3 * 16);
  const view = new DataView(columns.buffer);
  for (const [at, number] of [-25, -0x8000_0000, 3, 7].entries()) view.setInt32(4 * at, number, true);
  for (const [at, number] of [0.5, NaN, 0.5, 4].entries()) view.setFloat32(16 + 4 * at, number, true);
  for (const [at, number] of [0, 2, 0, 0].entries()) view.setFloat32(32 + 4 * at, number, true);
  const buckets = [{ name: "step", type: "a0", scale: [2, 2, 8] }, { name: "last", type: "i4", scale: [10, 1] }, { name: "max", type: "f4" }, { name: "mean", type: "m0" }, { name: "nan", type: "f4" }];
  const header = { ...HEADER, buckets: 4, columns: buckets } as CurveHeader;
  assert.throws(() => curveOf({ header: { ...header, buckets: 13 }, columns }, "step"), /cut off/);
  const curve = curveOf({ header, columns }, "step")!;
  // Without a column of its own, the lowest value is the last one.
  assert.deepEqual([[...curve.min], [...curve.max], [...curve.mean]], [[-2.5, NaN, 0.3, 0.7], [0.5, NaN, 0.5, 4], [-1, NaN, 0.4, 2.35]]);
  assert.deepEqual([[...curve.place], [...curve.nan]], [[2, 4, 6, 8], [0, 2, 0, 0]]);
  const points = curveOf({ header: { ...header, columns: [...header.columns.slice(0, 2), { name: "nan", type: "s0", scale: [1, 1] }] }, columns }, "step")!;
  assert.deepEqual([[...points.last], [...points.nan]], [[-2.5, NaN, 0.3, 0.7], [0, 1, 0, 0]]);
  // Curves share what is alike, so that a thousand of them take less memory.
  assert.equal(points.place, curve.place);
});

test("a frame without columns has a header alone", () => {
  const [frame] = framesIn(packed({ report: 1 }, []), 3);
  assert.deepEqual([frame!.header, frame!.columns.length], [{ report: 1 }, 0]);
});
