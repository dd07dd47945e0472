import assert from "node:assert/strict";
import { test } from "node:test";

import report from "../built/check-report.cjs";

const { marked, reportOf } = report;

const finding = (offset) => ({ rule: "wrong-type", severity: "error", line: 2, offset, pointer: "/step", message: "m", help: "h" });
const at = (text, offset) => {
  const { from, to } = marked({ path: "p", findings: [finding(offset)], suppressed: {} }, new TextEncoder().encode(text))[0];
  return [from.line, from.character, to.line, to.character];
};

test("a finding is at the value that is wrong, and at the whole line where its first byte is", () => {
  const text = '{"kind":"a"}\n{"t":1,"step":"x\\"y","b":2}\n';
  assert.deepEqual(at(text, text.indexOf('"x')), [1, 14, 1, 20]);
  assert.deepEqual(at(text, text.indexOf("1,")), [1, 5, 1, 6]);
  assert.deepEqual(at(text, 13), [1, 0, 1, 27]);
});

test("characters are those of UTF-16, and lines those of the editor", () => {
  assert.deepEqual(at('{"é😀":1,"b":x}\n', new TextEncoder().encode('{"é😀":1,"b":').length), [0, 13, 0, 14]);
  assert.deepEqual(at("a\rb\r\nccc\n", 5), [2, 0, 2, 3], "a carriage return ends a line of the editor");
  assert.deepEqual(at("\ufeff{}", 3), [0, 0, 0, 2], "the editor shows no mark of the byte order");
  assert.deepEqual(at("\ufeff{}", 0), [0, 0, 0, 2]);
});

test("no offset is out of the text", () => {
  for (const offset of [-1, 0, 1, 2, 3, 1e9]) assert.ok(at("{\n", offset).every((number) => number >= 0));
  assert.deepEqual(at("", 7), [0, 0, 0, 0]);
});

test("what the checker did not list is said", () => {
  const found = marked({ path: "p", findings: [], suppressed: { "wrong-type": 900 } }, null);
  assert.match(found[0].text, /900 more findings of wrong-type/);
});

test("a checker that did not check is an error with its reason", () => {
  assert.throws(() => reportOf("", "toyspec: no such run", 2), /no such run/);
  assert.throws(() => reportOf("{}", "", 0), /no report/);
  assert.throws(() => reportOf("", "", null), /signal/);
  assert.deepEqual(reportOf('{"files":[],"errors":[],"x":1}', "warning", 1), { files: [], errors: [] });
});
