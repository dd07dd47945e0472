/** Registers panels, commands and diagnostics with the editor. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import * as vscode from "vscode";

import { type CheckedFile, type CheckReport, marked, reportOf } from "./check-report.js";
import type { FromPage } from "./messages.js";
import { RunFiles } from "./run-files.js";
import { viewerPage } from "./viewer-page.js";

const UPDATE_MS = 1000;
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;
const MOST_MARKED_BYTES = 64 * 1024 * 1024;
const IS_STREAM = /^(events(\.rank-\d+)?|metrics)\.jsonl$/;
const SEVERITIES = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  info: vscode.DiagnosticSeverity.Information,
};

export function activate(context: vscode.ExtensionContext): void {
  const built = join(context.extensionPath, "built");
  const page = { script: readFileSync(join(built, "page.js"), "utf8"), style: readFileSync(join(built, "page.css"), "utf8") };
  const diagnostics = vscode.languages.createDiagnosticCollection("toyspec");
  const check = (uri: vscode.Uri) => checked(uri, diagnostics);
  const checkedByItself = (document: vscode.TextDocument) => {
    const isWanted = vscode.workspace.isTrusted && vscode.workspace.getConfiguration("toyspec").get("checkOnSave", true);
    if (isWanted && document.uri.scheme === "file" && IS_STREAM.test(basename(document.uri.fsPath))) void check(document.uri).catch(said);
  };
  const editors = { "toyspec.run": RunFiles.ofRun, "toyspec.log": RunFiles.ofLog };
  context.subscriptions.push(
    diagnostics,
    ...Object.entries(editors).map(([viewType, files]) =>
      vscode.window.registerCustomEditorProvider(
        viewType,
        {
          openCustomDocument: (uri) => ({ uri, dispose: () => undefined }),
          resolveCustomEditor: ({ uri }, panel) => shown(panel, files(uri.fsPath), page),
        } satisfies vscode.CustomReadonlyEditorProvider,
        { webviewOptions: { retainContextWhenHidden: true } },
      ),
    ),
    vscode.commands.registerCommand("toyspec.showFolder", async (uri?: vscode.Uri) => {
      const folder = uri ?? (await chosenFolder());
      if (!folder) return;
      const panel = vscode.window.createWebviewPanel("toyspec.folder", `Runs: ${basename(folder.fsPath)}`, vscode.ViewColumn.Active, { retainContextWhenHidden: true });
      shown(panel, RunFiles.ofFolder(folder.fsPath), page);
    }),
    vscode.commands.registerCommand("toyspec.check", async (uri?: vscode.Uri) => {
      const target = uri ?? vscode.window.activeTextEditor?.document.uri ?? (await chosenFolder());
      if (target) await check(target).catch(said);
    }),
    vscode.workspace.onDidOpenTextDocument(checkedByItself),
    vscode.workspace.onDidSaveTextDocument(checkedByItself),
    vscode.workspace.onDidCloseTextDocument(({ uri }) => diagnostics.delete(uri)),
  );
  vscode.workspace.textDocuments.forEach(checkedByItself);
}

async function chosenFolder(): Promise<vscode.Uri | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (folders.length === 1) return folders[0]!.uri;
  return (await vscode.window.showWorkspaceFolderPick())?.uri;
}

/** Shows *files* in *panel*, and what changes in them until it is closed. */
function shown(panel: vscode.WebviewPanel, files: RunFiles, page: { script: string; style: string }): void {
  const { webview } = panel;
  webview.options = { enableScripts: true, localResourceRoots: [] };
  webview.html = viewerPage({ ...page, nonce: randomBytes(18).toString("base64url") });
  let sending = Promise.resolve();
  let [isReady, timer] = [false, undefined as ReturnType<typeof setTimeout> | undefined];
  const send = (isWhole: boolean) => {
    sending = sending.then(() => files.send((message) => void webview.postMessage(message), { isWhole })).catch(said);
  };
  const changed = () => {
    if (!isReady) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      send(false);
    }, UPDATE_MS);
  };
  const watcher = vscode.workspace.createFileSystemWatcher(new vscode.RelativePattern(vscode.Uri.file(files.watched), "**/*"));
  const parts = [
    watcher,
    watcher.onDidChange(changed),
    watcher.onDidCreate(changed),
    watcher.onDidDelete(changed),
    webview.onDidReceiveMessage((message: FromPage) => {
      if (message.type !== "ready") return;
      isReady = true;
      send(true);
    }),
  ];
  panel.onDidDispose(() => {
    clearTimeout(timer);
    for (const part of parts) part.dispose();
  });
}

/** Checks a log or everything below a folder, and shows what is found at its place. */
async function checked(uri: vscode.Uri, diagnostics: vscode.DiagnosticCollection): Promise<void> {
  if (!vscode.workspace.isTrusted) throw new Error("toyspec check starts in trusted folders only");
  const { files, errors } = await reportOn(uri.fsPath);
  for (const [known] of diagnostics) {
    if (known.fsPath === uri.fsPath || known.fsPath.startsWith(join(uri.fsPath, "/"))) diagnostics.delete(known);
  }
  for (const file of files) diagnostics.set(vscode.Uri.file(file.path), await diagnosticsOf(file));
  if (errors.length > 0) said(new Error(errors.map(({ path, message }) => `${path}: ${message}`).join("; ")));
}

async function diagnosticsOf(file: CheckedFile): Promise<vscode.Diagnostic[]> {
  const bytes = file.path.endsWith(".gz") ? null : await readFile(file.path).catch(() => null);
  return marked(file, bytes && bytes.length <= MOST_MARKED_BYTES ? bytes : null).map(({ from, to, severity, rule, text }) => {
    const range = new vscode.Range(from.line, from.character, to.line, to.character);
    const diagnostic = new vscode.Diagnostic(range, text, SEVERITIES[severity]);
    diagnostic.source = "toyspec";
    diagnostic.code = rule;
    return diagnostic;
  });
}

/** Runs the checker on *path*, without a shell. */
function reportOn(path: string): Promise<CheckReport> {
  const program = vscode.workspace.getConfiguration("toyspec").get("path", "toyspec");
  return new Promise((resolve, reject) => {
    execFile(program, ["check", "--format", "json", path], { cwd: dirname(path), maxBuffer: MOST_OUTPUT_BYTES }, (error, stdout, stderr) => {
      if (error?.code === "ENOENT") {
        reject(new Error(`${program} was not found. Install it with pip install toyspec, or give its path as toyspec.path`));
        return;
      }
      try {
        resolve(reportOf(stdout, stderr, typeof error?.code === "number" ? error.code : error ? null : 0));
      } catch (reason) {
        reject(reason as Error);
      }
    });
  });
}

function said(error: unknown): void {
  void vscode.window.showErrorMessage(`toyspec: ${(error as Error).message}`);
}
