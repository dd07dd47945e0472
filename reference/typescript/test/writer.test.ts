/** Writers on real files: what each problem leaves. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, mock, test } from "node:test";

import { check, RefusedError } from "../src/index.js";
import { lock, unlock } from "../src/locks.js";
import { hasLocks, StreamRefusedError, StreamWriteError, Writer, type WriterOptions } from "../src/node.js";

const START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n';
const END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n';
const RUN_START = { kind: "run_start", schema: "toy/v1", run_id: "run" };

let directory = "";
let path = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "toyspec-"));
  path = join(directory, "events.jsonl");
});
afterEach(() => {
  mock.restoreAll();
  syncBuiltinESMExports();
  rmSync(directory, { recursive: true });
});

/** Lets a call of the file system fail, or do something else, until the test ends or `restore` is called. */
function replaceCall<Name extends "writeSync" | "fsyncSync" | "ftruncateSync" | "openSync">(name: Name, implementation: (...parameters: never[]) => unknown): { restore: () => void } {
  const mocked = mock.method(fs, name, implementation as never);
  syncBuiltinESMExports();
  return {
    restore() {
      mocked.mock.restore();
      syncBuiltinESMExports();
    },
  };
}

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}

function kinds(): string[] {
  return readFileSync(path, "utf8").trimEnd().split("\n").map((line) => (JSON.parse(line) as { kind: string }).kind);
}

function started(options: WriterOptions = {}): Writer {
  const writer = Writer.open(directory, options);
  writer.write(RUN_START);
  return writer;
}

test("a writer keeps time and ends with run_end", () => {
  let now = 1000;
  const writer = Writer.open(directory, { now: () => now });
  now = 2000;
  writer.write({ kind: "run_start", schema: "toy/v1", run_id: "run" });
  now = 1500;
  writer.write({ kind: "step", step: 1 });
  writer.write({ kind: "run_end", reason: "completed" });
  assert.throws(() => writer.write({ kind: "note", text: "late" }), StreamRefusedError);
  writer.close();
  const report = check(readFileSync(join(directory, "events.jsonl")));
  assert.deepEqual([report.state, report.findings], ["complete", []]);
});

test("resuming moves the fragment to a side file, and refuses what is damaged", () => {
  writeFileSync(path, START + '{"kind":"st');
  Writer.open(directory, { exist: "resume" }).close();
  assert.equal(readFileSync(path, "utf8"), START);
  assert.equal(readFileSync(`${path}.torn-${START.length}`, "utf8"), '{"kind":"st');
  writeFileSync(path, START + "{\n");
  assert.throws(() => Writer.open(directory, { exist: "resume" }), StreamRefusedError);
  assert.equal(readFileSync(path, "utf8"), START + "{\n");
  assert.throws(() => Writer.open(directory, { exist: "fail" }), StreamRefusedError);
  started().close();
  assert.ok(existsSync(`${path}.prev`));
});

test("a run goes on after its end", () => {
  writeFileSync(path, START + END);
  const writer = Writer.open(directory, { exist: "resume" });
  assert.throws(() => writer.write({ kind: "note", text: "before run_resume" }), RefusedError);
  writer.write({ kind: "run_resume", from_step: 0n });
  writer.end();
  const kinds = readFileSync(path, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line).kind as string);
  assert.deepEqual(kinds, ["run_start", "run_end", "run_resume", "run_end"]);
});

test("every earlier log is kept", () => {
  for (let run = 1; run <= 4; run++) {
    const writer = started();
    writer.write({ kind: "note", text: `run ${run}` });
    writer.close();
  }
  const kept = ["events.jsonl.prev-1", "events.jsonl.prev-2", "events.jsonl.prev", "events.jsonl"];
  assert.deepEqual(readdirSync(directory).sort(), [...kept].sort());
  assert.deepEqual(kept.map((name) => /run \d/.exec(readFileSync(join(directory, name), "utf8"))?.[0]), ["run 1", "run 2", "run 3", "run 4"]);
});

test("an empty stream is not kept, and a start that is refused leaves nothing", () => {
  writeFileSync(path, "");
  writeFileSync(`${path}.prev`, START);
  started().close();
  assert.deepEqual(readdirSync(directory).sort(), ["events.jsonl", "events.jsonl.prev"]);
  assert.equal(readFileSync(`${path}.prev`, "utf8"), START);
  const other = join(directory, "other");
  const writer = Writer.open(other);
  assert.throws(() => writer.write({ ...RUN_START, run_id: "../x" }), RefusedError);
  writer.close();
  assert.deepEqual(readdirSync(other), []);
});

test("a refused first record leaves the earlier log where it is", () => {
  writeFileSync(path, START + END);
  const writer = Writer.open(directory);
  assert.throws(() => writer.write({ kind: "step", step: 1 }), RefusedError);
  writer.close();
  assert.deepEqual(readdirSync(directory), ["events.jsonl"]);
  assert.equal(readFileSync(path, "utf8"), START + END);
});

test("fragments of any length are kept, each under a name of its own", () => {
  const fragments = ["x".repeat(200_000), "y".repeat(70_000), "z"];
  for (const fragment of fragments) {
    writeFileSync(path, START + fragment);
    Writer.open(directory, { exist: "resume" }).close();
    assert.equal(readFileSync(path, "utf8"), START);
  }
  const names = ["", "-2", "-3"].map((suffix) => `${path}.torn-${START.length}${suffix}`);
  assert.deepEqual(names.map((name) => readFileSync(name, "utf8")), fragments);
});

test("a fragment that finds no room stays in the stream, and leaves no side file", () => {
  const torn = START + "x".repeat(200_000);
  writeFileSync(path, torn);
  let calls = 0;
  replaceCall("writeSync", () => {
    if (calls++ > 0) throw failure("ENOSPC");
    return 100;
  });
  assert.throws(() => Writer.open(directory, { exist: "resume" }), StreamWriteError);
  assert.equal(readFileSync(path, "utf8"), torn);
  assert.deepEqual(readdirSync(directory), ["events.jsonl"]);
});

test("a fragment that cannot be cut off leaves no side file", () => {
  const torn = `${START}{`;
  writeFileSync(path, torn);
  replaceCall("ftruncateSync", () => {
    throw failure("EIO");
  });
  assert.throws(() => Writer.open(directory, { exist: "resume" }), StreamWriteError);
  assert.equal(readFileSync(path, "utf8"), torn);
  assert.deepEqual(readdirSync(directory), ["events.jsonl"]);
});

test("a write that takes no byte ends the writer", { timeout: 10_000 }, () => {
  const writer = started();
  replaceCall("writeSync", () => 0);
  assert.throws(() => writer.write({ kind: "step", step: 1 }), (error: Error) => error instanceof StreamWriteError && error.message.startsWith(path));
  assert.throws(() => writer.write({ kind: "step", step: 2 }), /the writer is closed/);
});

test("a quota does not end the writer, though Node.js has no name for its error", { skip: !constants.errno.EDQUOT }, () => {
  const writer = started();
  const full = replaceCall("writeSync", () => {
    throw Object.assign(new Error("injected"), { code: `Unknown system error -${constants.errno.EDQUOT}`, errno: -constants.errno.EDQUOT });
  });
  assert.throws(() => writer.write({ kind: "step", step: 1 }), (error: Error) => error instanceof StreamWriteError && error.code === "EDQUOT");
  full.restore();
  assert.ok(writer.write({ kind: "step", step: 2 }));
});

test("the side file and its directory are synced before the stream is cut", () => {
  writeFileSync(path, START + "{");
  const synced: boolean[] = [];
  const calls = replaceCall("fsyncSync", () => synced.push(readFileSync(path, "utf8").endsWith("{")));
  Writer.open(directory, { exist: "resume" }).close();
  calls.restore();
  assert.deepEqual(synced, [true, true, false]);
});

test("a stream has one writer, in this process and among others", () => {
  const writer = started();
  for (const exist of ["replace", "resume", "fail"] as const) {
    assert.throws(() => Writer.open(directory, { exist }), (error: Error) => error instanceof StreamRefusedError && error.message.includes("another writer"));
  }
  // The same file under another name is the same stream.
  const other = join(directory, "other");
  mkdirSync(other);
  linkSync(path, join(other, "events.jsonl"));
  assert.throws(() => Writer.open(other), StreamRefusedError);
  if (hasLocks()) {
    const locking = "import fcntl,sys; f=open(sys.argv[1],'a'); getattr(fcntl, sys.argv[2])(f, fcntl.LOCK_EX | fcntl.LOCK_NB)";
    for (const call of ["flock", "lockf"]) {
      const done = spawnSync("python3", ["-c", locking, path, call], { encoding: "utf8" });
      assert.ok(done.error !== undefined || done.stderr.includes("BlockingIOError"), done.stdout + done.stderr);
    }
  }
  writer.close();
  Writer.open(directory, { exist: "resume" }).close();
});

test("a stream that is locked by another program is refused and left unchanged", { skip: !hasLocks() }, () => {
  writeFileSync(path, START + "{");
  for (const call of ["flock", "lockf"]) {
    const program = `import fcntl,subprocess,sys; f=open(sys.argv[1],'r+'); fcntl.${call}(f, fcntl.LOCK_EX); sys.exit(subprocess.call(sys.argv[2:]))`;
    const node = new URL("../src/node.js", import.meta.url).href;
    const script = `const { Writer } = await import(${JSON.stringify(node)}); try { Writer.open(${JSON.stringify(directory)}, { exist: "resume" }); } catch (error) { console.log(error.message); }`;
    const done = spawnSync("python3", ["-c", program, path, process.execPath, "--input-type=module", "-e", script], { encoding: "utf8" });
    if (done.error) return;
    assert.match(done.stdout, /another writer/, done.stderr);
  }
  assert.equal(readFileSync(path, "utf8"), START + "{");
});

test("after a full disk, writing goes on with the next record that fits, and says how many were dropped", () => {
  const warnings: string[] = [];
  const writer = started({ onError: "disable", warn: (message) => warnings.push(message) });
  assert.ok(writer.write({ kind: "step", step: 1 }));
  const write = fs.writeSync;
  let short = 0;
  const nearlyFull = replaceCall("writeSync", ((descriptor: number, data: Uint8Array, offset = 0) => {
    if (short++ % 2 === 0) return write(descriptor, data, offset, 10);
    throw failure("ENOSPC");
  }) as never);
  for (let step = 2; step < 5; step++) assert.equal(writer.write({ kind: "step", step }), false);
  nearlyFull.restore();
  assert.ok(writer.write({ kind: "step", step: 5 }));
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "step", "note", "step", "run_end"]);
  assert.match(readFileSync(path, "utf8"), /"text":"3 records were dropped here: ENOSPC"/);
  assert.deepEqual([writer.dropped, warnings.length, warnings[0]?.startsWith(path)], [3, 1, true]);
  assert.equal(check(readFileSync(path)).state, "complete");
});

test("a run_start that found no room is written before the next record", () => {
  const full = replaceCall("writeSync", () => {
    throw failure("ENOSPC");
  });
  const writer = Writer.open(directory, { onError: "disable", warn: () => {} });
  assert.equal(writer.write(RUN_START), false);
  full.restore();
  writer.write({ kind: "step", step: 1 });
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "step", "run_end"]);
});

test("a failure throws an error that names the path, and the record can be written again", () => {
  const writer = started();
  const full = replaceCall("writeSync", () => {
    throw failure("ENOSPC");
  });
  assert.throws(() => writer.write({ kind: "step", step: 1 }), (error: Error) => error instanceof StreamWriteError && error.message.startsWith(path) && error.code === "ENOSPC");
  full.restore();
  writer.write({ kind: "step", step: 1 });
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "note", "step", "run_end"]);
});

test("a short write is taken back and nothing else is: what others appended or emptied stays", () => {
  const write = fs.writeSync;
  const foreign = '{"kind":"note","t":1.0,"text":"foreign"}\n';
  for (const before of [START + foreign, ""]) {
    const writer = started();
    fs.writeFileSync(path, before);
    const calls = replaceCall("writeSync", ((descriptor: number, data: Uint8Array, offset = 0) => {
      if (offset === 0) return write(descriptor, data, 0, 5);
      throw failure("ENOSPC");
    }) as never);
    assert.throws(() => writer.write({ kind: "step", step: 1 }), StreamWriteError);
    calls.restore();
    assert.equal(readFileSync(path, "utf8"), before);
    writer.close();
    if (before !== "") unlinkSync(path);
  }
});

test("half a record after which another process has written is not taken back, and ends the writer", () => {
  const writer = started();
  const write = fs.writeSync;
  const calls = replaceCall("writeSync", ((descriptor: number, data: Uint8Array, offset = 0) => {
    if (offset === 0) {
      write(descriptor, data, 0, 5);
      fs.appendFileSync(path, "foreign\n");
      return 5;
    }
    throw failure("ENOSPC");
  }) as never);
  assert.throws(() => writer.write({ kind: "step", step: 1 }), StreamWriteError);
  calls.restore();
  assert.ok(readFileSync(path, "utf8").endsWith("foreign\n"));
  assert.throws(() => writer.write({ kind: "step", step: 1 }), StreamRefusedError);
});

test("a sync that failed is not asked for again, and run_end is not acknowledged after it", () => {
  for (const target of ["file", "directory"]) {
    let calls = 0;
    const failing = replaceCall("fsyncSync", () => {
      if (++calls === (target === "file" ? 1 : 2)) throw failure("EIO");
    });
    const writer = Writer.open(directory);
    assert.throws(() => writer.write(RUN_START), (error: Error) => error instanceof StreamWriteError && error.message.startsWith(path));
    failing.restore();
    assert.throws(() => writer.write({ kind: "run_end", reason: "completed" }), Error);
    writer.close();
    assert.ok(!readFileSync(path, "utf8").includes("run_end"));
  }
});

test("after a failed sync nothing is written any more", () => {
  const failing = replaceCall("fsyncSync", () => {
    throw failure("EIO");
  });
  const writer = Writer.open(directory, { onError: "disable", warn: () => {} });
  assert.equal(writer.write(RUN_START), false);
  failing.restore();
  assert.equal(writer.write({ kind: "step", step: 1 }), false);
  writer.end();
  assert.deepEqual([kinds(), writer.dropped], [["run_start"], 3]);
});

test("a stream that is replaced between opening and locking is opened again", () => {
  writeFileSync(path, START);
  const open = fs.openSync;
  let opened = 0;
  const calls = replaceCall("openSync", ((name: string, ...flags: [number, number]) => {
    const descriptor = open(name, ...flags);
    if (opened++ === 0) {
      renameSync(path, `${path}.moved`);
      writeFileSync(path, START + '{"kind":"note","t":1.0,"text":"new"}\n');
    }
    return descriptor;
  }) as never);
  const writer = Writer.open(directory, { exist: "resume" });
  calls.restore();
  writer.write({ kind: "run_resume", from_step: 0 });
  writer.close();
  assert.deepEqual(kinds(), ["run_start", "note", "run_resume"]);
  assert.equal(readFileSync(`${path}.moved`, "utf8"), START);
});

test("a lock that cannot be had here does not mean another writer, and this process never lets itself in twice", () => {
  const { EAGAIN, EIO, ENOLCK, EINTR } = constants.errno;
  writeFileSync(path, START);
  const [first, second] = [fs.openSync(path, "r+"), fs.openSync(path, "r+")];
  const giving = (flock: number, record: number | null) => ({ flock: () => flock, record: record === null ? null : () => record });
  const tried = (locks: Parameters<typeof lock>[1]) => {
    const result = lock(first, locks);
    if (result !== "held") {
      assert.equal(lock(second, null), "held");
      unlock(first);
    }
    return result;
  };
  assert.deepEqual([giving(0, 0), giving(ENOLCK, 0), giving(0, ENOLCK)].map(tried), ["taken", "taken", "taken"]);
  assert.deepEqual([null, giving(ENOLCK, ENOLCK), giving(ENOLCK, null)].map(tried), ["unavailable", "unavailable", "unavailable"]);
  assert.deepEqual([giving(EAGAIN, 0), giving(0, EAGAIN), giving(ENOLCK, EAGAIN)].map(tried), ["held", "held", "held"]);
  assert.throws(() => lock(first, giving(EIO, 0)), /EIO/);
  let calls = 0;
  assert.equal(tried({ flock: () => (calls++ === 0 ? EINTR : 0), record: null }), "taken");
  for (const descriptor of [first, second]) fs.closeSync(descriptor);
});

test("a directory that cannot be synced ends nothing", () => {
  let calls = 0;
  replaceCall("fsyncSync", () => {
    if (++calls % 2 === 0) throw failure("EINVAL");
  });
  const writer = started();
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "run_end"]);
});

test("what is not a regular file is refused and left where it is", () => {
  mkdirSync(path);
  assert.throws(() => Writer.open(directory), (error: Error) => error instanceof StreamRefusedError && error.message.startsWith(path));
  assert.deepEqual(readdirSync(directory), ["events.jsonl"]);
  rmSync(path, { recursive: true });
  if (process.platform === "win32") return;
  spawnSync("mkfifo", [path]);
  assert.throws(() => Writer.open(directory), StreamRefusedError);
  assert.throws(() => Writer.append(path, "metrics/v1"), StreamRefusedError);
  rmSync(path);
  symlinkSync("/dev/null", path);
  assert.throws(() => Writer.open(directory), StreamRefusedError);
  assert.deepEqual(readdirSync(directory), ["events.jsonl"]);
});

test("a stream that is deleted or moved is started again with the records so far, which is said once", () => {
  const warnings: string[] = [];
  const writer = started({ checkEvery: 0, warn: (message) => warnings.push(message) });
  writer.write({ kind: "step", step: 1 });
  unlinkSync(path);
  writer.write({ kind: "step", step: 2 });
  writer.write({ kind: "step", step: 3 });
  assert.deepEqual(kinds(), ["run_start", "step", "step", "step"]);
  assert.equal(warnings.length, 1);
  renameSync(path, join(directory, "moved"));
  writer.write({ kind: "step", step: 4 });
  assert.throws(() => Writer.open(directory), StreamRefusedError);
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "step", "step", "step", "step", "run_end"]);
});

test("a stream that another file replaced is started again, and the other file is kept", () => {
  const warnings: string[] = [];
  const writer = started({ checkEvery: 0, warn: (message) => warnings.push(message) });
  writeFileSync(join(directory, "other"), START);
  renameSync(join(directory, "other"), path);
  writer.write({ kind: "step", step: 1 });
  writer.write({ kind: "step", step: 2 });
  writer.close();
  assert.equal(warnings.length, 1);
  assert.deepEqual(kinds(), ["run_start", "step", "step"]);
  assert.equal(readFileSync(`${path}.prev`, "utf8"), START);
});

test("a stream whose directory was deleted is started again", () => {
  const writer = started({ checkEvery: 0, warn: () => {} });
  rmSync(directory, { recursive: true });
  writer.write({ kind: "step", step: 1 });
  writer.end();
  assert.deepEqual(kinds(), ["run_start", "step", "run_end"]);
});

test("a resumed stream goes on with run_resume", () => {
  writeFileSync(path, START + '{"kind":"step","t":5.0,"step":1}\n');
  const writer = Writer.open(directory, { exist: "resume", now: () => 0 });
  for (const record of [{ kind: "step", step: 2 }, { kind: "note", text: "x" }]) assert.throws(() => writer.write(record), RefusedError);
  writer.write({ kind: "run_resume", from_step: 1 });
  writer.write({ kind: "step", step: 2 });
  writer.end();
  assert.deepEqual(check(readFileSync(path)).findings, []);
});

test("what is not a log of ours is never written to", () => {
  const foreign = '{"type":"user"}\n{"a';
  for (const name of ["events.jsonl", "log.jsonl"]) writeFileSync(join(directory, name), foreign);
  assert.throws(() => Writer.open(directory, { exist: "resume" }), StreamRefusedError);
  assert.throws(() => Writer.append(join(directory, "log.jsonl"), "metrics/v1"), StreamRefusedError);
  for (const name of readdirSync(directory)) assert.equal(readFileSync(join(directory, name), "utf8"), foreign);
  writeFileSync(path, START);
  assert.throws(() => Writer.append(path, "kaun/v1"), StreamRefusedError);
});

test("one record is one write, however long", () => {
  let calls = 0;
  const writer = started();
  const write = fs.writeSync;
  const counted = replaceCall("writeSync", ((...parameters: Parameters<typeof write>) => {
    calls++;
    return write(...parameters);
  }) as never);
  writer.write({ kind: "note", text: "x".repeat(300_000) });
  counted.restore();
  assert.equal(calls, 1);
  writer.close();
});
