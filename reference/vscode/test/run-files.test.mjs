import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import files from "../built/run-files.cjs";

const { RunFiles } = files;
let folder;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "toyspec-vscode-"));
  write("a/events.jsonl", "{}\n");
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(path, text) {
  const file = join(folder, path);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, text);
}

/** Sends, and puts what comes together as the page does. */
async function sent(runs, page, options) {
  const messages = [];
  await runs.send((message) => messages.push(message), options);
  for (const { type, path, from, bytes } of messages) {
    if (type === "piece") page.set(path, Buffer.concat([(page.get(path) ?? Buffer.alloc(0)).subarray(0, from), bytes]));
  }
  return messages;
}

test("a folder has every run below it, files of media by name alone, and nothing by a link", async () => {
  write("a/media/1.png", "p");
  write("b/c/metrics.jsonl", "{}\n");
  write("b/model.bin", "large");
  write("node_modules/x/events.jsonl", "{}\n");
  write("s/SHA256SUMS", "x");
  symlinkSync(folder, join(folder, "round"));
  const [page, runs] = [new Map(), RunFiles.ofFolder(folder)];
  const { paths, leftOut, isFolder } = (await sent(runs, page)).at(-1);
  const names = paths.map((path) => path.slice(path.indexOf("/") + 1)).sort();
  assert.deepEqual(names, ["a/events.jsonl", "a/media/1.png", "b/c/metrics.jsonl"]);
  assert.equal(page.size, 2);
  assert.equal(isFolder, true);
  assert.match(leftOut.join(), /SHA256SUMS: seals are not compared/);
});

test("only what was appended is sent again, and everything of a file that was written anew", async () => {
  const [page, runs, file] = [new Map(), RunFiles.ofRun(join(folder, "a/events.jsonl")), join(folder, "a/events.jsonl")];
  await sent(runs, page);
  assert.deepEqual(await sent(runs, page), [], "nothing has changed");
  appendFileSync(file, "more\n");
  assert.deepEqual((await sent(runs, page)).map(({ type, from }) => [type, from]), [["piece", 3], ["shown", undefined]]);
  const name = [...page.keys()][0];
  assert.equal(page.get(name).toString(), "{}\nmore\n");
  for (const text of ["[]\nless", "another file that is longer\n", ""]) {
    writeFileSync(file, text);
    await sent(runs, page);
    assert.equal(page.get(name).toString(), text);
  }
  writeFileSync(`${file}.new`, "x\n");
  renameSync(`${file}.new`, file);
  await sent(runs, page);
  assert.equal(page.get(name).toString(), "x\n");
  unlinkSync(file);
  assert.deepEqual((await sent(runs, page)).at(-1).paths, []);
});

test("a page that is made again gets everything", async () => {
  const [page, runs] = [new Map(), RunFiles.ofLog(join(folder, "a/events.jsonl"))];
  await sent(runs, page);
  const again = await sent(runs, page, { isWhole: true });
  assert.deepEqual(again.map(({ type }) => type), ["piece", "shown"]);
  assert.equal(again.at(-1).isFolder, false);
});

test("what is too much is left out by name", async () => {
  write("b/events.jsonl", "x".repeat(100));
  const page = new Map();
  const { paths, leftOut } = (await sent(RunFiles.ofFolder(folder, { bytes: 50, names: 100 }), page)).at(-1);
  assert.equal(paths.length, 1);
  assert.match(leftOut[0], /b\/events.jsonl has 100 bytes; a panel takes 50/);
  const few = (await sent(RunFiles.ofFolder(folder, { bytes: 500, names: 2 }), page)).at(-1);
  assert.match(few.leftOut[0], /more than 2 files/);
  const gone = (await sent(RunFiles.ofFolder(join(folder, "gone")), page)).at(-1);
  assert.match(gone.leftOut[0], /ENOENT/);
});
