import assert from "node:assert/strict";
import { test } from "node:test";

import { Gathering, type Ask } from "../src/backends/gathering.js";
import type { CurveRequest, Frame } from "../src/protocol.js";

interface Asked {
  readonly metrics: readonly [string, number][];
  readonly runs: readonly string[];
  readonly give: (metric: string) => void;
  readonly signal: AbortSignal;
  readonly end: (error?: Error) => void;
}

/** Returns a gathering and what it asks for; each request stays open until its `end` is called. */
function gathering(): { gathering: Gathering; asked: Asked[] } {
  const asked: Asked[] = [];
  const ask: Ask = (metrics, part, take, signal) =>
    new Promise((resolve, reject) => {
      const give = (metric: string) => take({ header: { metric } } as unknown as Frame);
      const end = (error?: Error) => (error === undefined ? resolve() : reject(error));
      asked.push({ metrics: [...metrics], runs: part.runs, give, signal, end });
    });
  return { gathering: new Gathering(ask), asked };
}

const request = (metric: string, more: Partial<CurveRequest> = {}): CurveRequest => ({ metric, runs: ["a"], axis: "step", buckets: 300, ...more });
const settled = () => new Promise((resolve) => setTimeout(resolve));

test("charts that ask in the same task share a request, each metric with the most buckets that one wants, and each gets the frames of its own", async () => {
  const { gathering: all, asked } = gathering();
  const [taken, { signal }] = [[] as string[], new AbortController()];
  const waiting = (["loss", "acc", "loss"] as const).map((metric, at) => all.curves(request(metric, { buckets: 300 + at }), ({ header }) => taken.push(`${at} ${header.metric}`), signal));
  await settled();
  assert.deepEqual([[["loss", 302], ["acc", 301]]], asked.map(({ metrics }) => metrics));
  for (const metric of ["acc", "loss", "other"]) asked[0]!.give(metric);
  assert.deepEqual(["1 acc", "0 loss", "2 loss"], taken);
  asked[0]!.end();
  await Promise.all(waiting);
});

test("another part, and what is asked for later, is another request", async () => {
  const { gathering: all, asked } = gathering();
  const { signal } = new AbortController();
  const ask = (more: CurveRequest) => void all.curves(more, () => undefined, signal);
  for (const more of [{}, { runs: ["b"] }, { from: 1 }, { axis: "time" }] as const) ask(request("loss", more));
  await settled();
  assert.deepEqual([["a"], ["b"], ["a"], ["a"]], asked.map(({ runs }) => runs));
  ask(request("loss"));
  await settled();
  assert.equal(asked.length, 5);
});

test("a request ends early only when no chart wants it any more, and a chart that has left gets nothing", async () => {
  const { gathering: all, asked } = gathering();
  const controls = [new AbortController(), new AbortController()];
  const taken: number[] = [];
  for (const [at, { signal }] of controls.entries()) void all.curves(request("loss"), () => taken.push(at), signal);
  await settled();
  controls[0]!.abort();
  assert.equal(asked[0]!.signal.aborted, false);
  asked[0]!.give("loss");
  assert.deepEqual([1], taken);
  controls[1]!.abort();
  assert.equal(asked[0]!.signal.aborted, true);
});

test("who left before the request was sent does not keep it from ending", async () => {
  const { gathering: all, asked } = gathering();
  const controls = [new AbortController(), new AbortController()];
  for (const { signal } of controls) void all.curves(request("loss"), () => undefined, signal);
  for (const control of controls) control.abort();
  await settled();
  assert.ok(asked.every(({ signal }) => signal.aborted));
});

test("all who share a request learn that it failed", async () => {
  const { gathering: all, asked } = gathering();
  const { signal } = new AbortController();
  const waiting = ["loss", "acc"].map((metric) => all.curves(request(metric), () => undefined, signal));
  await settled();
  asked[0]!.end(new Error("no answer"));
  for (const each of waiting) await assert.rejects(each, /no answer/);
});
