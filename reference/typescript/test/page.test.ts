import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";

import { ByteCounter } from "../page/byte-map.js";
import { duration, size } from "../page/figures.js";
import { checkStream } from "../page/verdicts.js";
import { fragmentOf, LinkError, MOST_BYTES, selectionIn } from "../page/permalink.js";
import { Sha256 } from "../page/sha256.js";
import { type Selection, streamsIn } from "../page/selection.js";

const START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n';

function folder(name: string, files: { [path: string]: string | Uint8Array<ArrayBuffer> }): Selection {
  return { files: [], folders: [{ name, files: Object.entries(files).map(([path, data]) => ({ path, blob: new Blob([data]) })) }] };
}

test("every byte is committed, in a gap or in the fragment", () => {
  const counter = new ByteCounter(1_000_000);
  for (let offset = 0; offset < 900_000; offset += 100) counter.gap(offset, 10);
  const map = counter.map(1_000_000, 500);
  assert.equal(map.committed + map.gapBytes + map.fragment, map.size);
  assert.deepEqual([map.gaps, map.gapBytes, map.stretches], [9000, 90_000, [{ from: 0, to: 899_910 }]]);
});

test("a verdict accounts for the bytes", async () => {
  const stream = START + '{"kind":"step","t":1.0,"step":1,"loss":2.5}\nNaN\n{"kind":"st';
  const [found] = streamsIn(folder("run", { "run/events.jsonl": stream }));
  const { report, bytes, fragment } = await checkStream(found!);
  assert.deepEqual([report.state, report.records, bytes?.gapBytes, bytes?.fragment], ["damaged", 2, 4, 11]);
  assert.equal(new TextDecoder().decode(fragment), '{"kind":"st');
});

test("the stream of a rank is listed with the stream and the media of its bundle", () => {
  const streams = streamsIn(folder("run", { "run/events.jsonl": START, "run/events.rank-1.jsonl": START, "run/media/a.png": "", "run/SHA256SUMS": "" }));
  assert.deepEqual(streams.map(({ place }) => [place?.rank, place?.ofRankZero === streams[0]?.blob, [...place!.media]]), [[0, true, ["a.png"]], [1, true, ["a.png"]]]);
  assert.deepEqual(streams.map(({ sealed }) => sealed !== undefined), [true, false]);
  assert.equal(streamsIn(folder("run", { "run/SHA256SUMS": "" }))[0]!.isBundle, true);
});

test("a link gives back what it was made of, to the byte", async () => {
  const streams = streamsIn(folder("run", { "run/events.jsonl": new Uint8Array([0, 255, 10, 13]), "run/flow.json": "{}" }));
  const fragment = await fragmentOf(streams);
  const [again] = streamsIn(await selectionIn(fragment!));
  assert.deepEqual(new Uint8Array(await again!.blob!.arrayBuffer()), new Uint8Array([0, 255, 10, 13]));
  assert.deepEqual([again!.path, again!.directory, again!.sidecars.map((sidecar) => sidecar.name)], ["run/events.jsonl", "run", ["flow.json"]]);
});

test("a link is bounded when it is made and when it is opened", async () => {
  const noise = crypto.getRandomValues(new Uint8Array(40_000));
  assert.equal(await fragmentOf(streamsIn(folder("run", { "run/events.jsonl": noise }))), null);
  assert.equal(await fragmentOf(streamsIn(folder("run", { "run/events.jsonl": " ".repeat(MOST_BYTES + 1) }))), null);
  const bomb = deflateRawSync(Buffer.concat([Buffer.from('[["a",1]]\n'), Buffer.alloc(4 * MOST_BYTES)])).toString("base64url");
  await assert.rejects(selectionIn(`#z=${bomb}`), LinkError);
  await assert.rejects(selectionIn("#z=AAAA"), LinkError);
});

test("a plain link has a name that is not a path", async () => {
  const { files } = await selectionIn(`#text=${encodeURIComponent('{"a":"1+1 é"}\n')}&name=../x/metrics.jsonl`);
  assert.deepEqual([files[0]?.path, await files[0]?.blob.text()], ["metrics.jsonl", '{"a":"1+1 é"}\n']);
});

test("figures are short", () => {
  assert.deepEqual([999, 1000, 1500, 38_250, 999_600, 101_000_000].map(size), ["999 bytes", "1.0 kB", "1.5 kB", "38 kB", "1.0 MB", "101 MB"]);
  assert.deepEqual([3.5, 61, 7500, 90_000].map(duration), ["3.5 s", "1 min 01 s", "2 h 05 min", "1 d 01 h"]);
});

test("digests of data of any length, in any chunks, are those of SHA-256", () => {
  for (let length = 0; length < 200; length++) {
    const data = randomBytes(length);
    const digest = new Sha256();
    for (let start = 0; start < length; start += 1 + (length % 7)) digest.update(data.subarray(start, start + 1 + (length % 7)));
    assert.equal(digest.digest(), createHash("sha256").update(data).digest("hex"));
  }
});
