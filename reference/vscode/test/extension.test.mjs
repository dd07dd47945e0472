// What the editor calls, with an editor that notes what is registered; the editor itself does not run here.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

// The test of the package names the folder into which it unpacked it.
const here = process.env.TOYSPEC_EXTENSION ?? join(dirname(fileURLToPath(import.meta.url)), "..");
const manifest = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "toyspec-vscode-"));
const log = join(folder, "run/events.jsonl");
mkdirSync(dirname(log));
writeFileSync(log, '{"kind":"run_start"}\n');
after(() => rmSync(folder, { recursive: true }));

const uriOf = (fsPath) => ({ scheme: "file", fsPath });
const [editors, commands, errors, marks, listeners, panels] = [new Map(), new Map(), [], new Map(), {}, []];
let [program, isTrusted] = ["", true];
const part = { dispose() {} };
const on = (name) => (take) => ((listeners[name] = take), part);
const vscode = {
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2 },
  ViewColumn: { Active: -1 },
  Uri: { file: uriOf },
  Range: class { constructor(...places) { this.places = places; } },
  RelativePattern: class {},
  Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
  languages: {
    createDiagnosticCollection: () => ({
      set: (uri, found) => marks.set(uri.fsPath, found), delete: (uri) => marks.delete(uri.fsPath),
      *[Symbol.iterator]() { for (const [path, found] of marks) yield [uriOf(path), found]; }, ...part,
    }),
  },
  window: {
    registerCustomEditorProvider: (type, provider) => (editors.set(type, provider), part),
    createWebviewPanel: () => panels.at(-1), showErrorMessage: (text) => errors.push(text),
  },
  commands: { registerCommand: (name, run) => (commands.set(name, run), part) },
  workspace: {
    get isTrusted() { return isTrusted; },
    getConfiguration: () => ({ get: (name, usual) => (name === "path" ? program : usual) }),
    textDocuments: [], workspaceFolders: [],
    createFileSystemWatcher: () => ({ onDidChange: on("change"), onDidCreate: on("create"), onDidDelete: on("delete"), ...part }),
    onDidOpenTextDocument: on("open"), onDidSaveTextDocument: on("save"), onDidCloseTextDocument: on("close"),
  },
};
const load = Module._load;
Module._load = (name, ...others) => (name === "vscode" ? vscode : load(name, ...others));
const required = createRequire(import.meta.url);
const viewer = required(join(here, "built/viewer-page.cjs"));
const extension = required(join(here, "built/extension.cjs"));
extension.activate({ extensionPath: here, subscriptions: [] });

function panel() {
  const messages = [];
  const made = {
    messages, closed: null, onDidDispose: (take) => (made.closed = take),
    webview: { postMessage: (message) => messages.push(message), onDidReceiveMessage: (take) => ((made.receive = take), part) },
  };
  panels.push(made);
  return made;
}

async function until(isMet) {
  for (let tries = 0; tries < 500 && !isMet(); tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(isMet());
}

/** Makes a program that prints *report*, as the checker would. */
function checker(report, status) {
  program = join(folder, "checker.mjs");
  writeFileSync(program, `#!${process.execPath}\nprocess.stdout.write(${JSON.stringify(JSON.stringify(report))});\nprocess.exitCode = ${status};\n`);
  chmodSync(program, 0o755);
}

test("all that the manifest names is registered, and nothing else", () => {
  const { customEditors, commands: named } = manifest.contributes;
  assert.deepEqual([...editors.keys()].sort(), customEditors.map(({ viewType }) => viewType).sort());
  assert.deepEqual([...commands.keys()].sort(), named.map(({ command }) => command).sort());
});

test("a panel gets its files when its page is ready", async () => {
  const made = panel();
  const provider = editors.get("toyspec.run");
  provider.resolveCustomEditor(provider.openCustomDocument(uriOf(log)), made);
  assert.match(made.webview.html, /Content-Security-Policy/);
  assert.deepEqual(made.messages, []);
  made.receive({ type: "ready" });
  await until(() => made.messages.length > 1);
  assert.deepEqual(made.messages.map(({ type }) => type), ["piece", "shown"]);
  made.closed();
});

test("a folder opens in a panel", async () => {
  const made = panel();
  await commands.get("toyspec.showFolder")(uriOf(folder));
  made.receive({ type: "ready" });
  await until(() => made.messages.at(-1)?.type === "shown");
  assert.ok(made.messages.at(-1).paths[0].endsWith("/run/events.jsonl"));
  made.closed();
});

test("findings become diagnostics, and go with the next check", { skip: process.platform === "win32" ? "the program is a script" : false }, async () => {
  const finding = { rule: "missing-key", severity: "warning", line: 1, offset: 0, pointer: "/t", message: "no t", help: "give it" };
  checker({ files: [{ path: log, findings: [finding], suppressed: {} }], errors: [] }, 1);
  await commands.get("toyspec.check")(uriOf(folder));
  const [{ code, source, message, severity, range }] = marks.get(log);
  assert.deepEqual([code, source, message, severity, range.places], ["missing-key", "toyspec", "no t. Help: give it", 1, [0, 0, 0, 20]]);
  checker({ files: [], errors: [{ path: log, message: "gone" }] }, 2);
  await commands.get("toyspec.check")(uriOf(folder));
  assert.equal(marks.size, 0);
  assert.match(errors.at(-1), /gone/);
});

test("without the checker the user learns what to do", async () => {
  program = join(folder, "absent");
  await commands.get("toyspec.check")(uriOf(log));
  assert.match(errors.at(-1), /absent was not found. Install it with pip install toyspec/);
});

test("no program starts in a folder that is not trusted", async () => {
  isTrusted = false;
  await commands.get("toyspec.check")(uriOf(log));
  assert.match(errors.at(-1), /trusted/);
  const before = errors.length;
  listeners.open({ uri: uriOf(log) });
  assert.equal(errors.length, before);
  isTrusted = true;
});

test("the page runs nothing but its own script", () => {
  const page = viewer.viewerPage({ script: "1", style: "a{}", nonce: "abcdefghijklmnop" });
  assert.match(page, /default-src 'none'; script-src 'nonce-abcdefghijklmnop'/);
  assert.doesNotMatch(page, /unsafe|https?:/);
  assert.throws(() => viewer.viewerPage({ script: "", style: "", nonce: "'; x" }));
});
