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
  const [frame] = framesIn(packedFrame({ ...HEADER, tail: 1 }, { step: [2, 4, 5], last: [1, 2, 3], max: [9, 9, 9] }), 1000);
  const curve = curveOf(frame!, "step")!;
  assert.deepEqual([[...curve.min], [...curve.max], [...curve.mean]], [[1, 2, 3], [9, 9, 9], [1, 2, 3]]);
  assert.deepEqual([[...curve.count], [...curve.nan]], [[2, 2, 1], [0, 0, 0]]);
  assert.equal(curveOf(frame!, "time"), null);
});

test("columns that are cut off are refused, and curves share those of one value", () => {
  const [frame] = framesIn(packedFrame(HEADER, { step: [2, 4, 5], last: [1, 2, 3] }), 1000);
  assert.throws(() => curveOf({ ...frame!, header: { ...frame!.header, buckets: 4 } }, "step"), /cut off/);
  const [one, other] = [curveOf(frame!, "step")!, curveOf(frame!, "step")!];
  assert.equal(one.nan, other.nan);
});

test("a frame without columns has a header alone", () => {
  const [frame] = framesIn(packed({ report: 1 }, []), 3);
  assert.deepEqual([frame!.header, frame!.columns.length], [{ report: 1 }, 0]);
});
