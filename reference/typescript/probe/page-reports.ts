/**
 * Checks as the page does, for tests that compare it with `toyspec check`: reads a selection from each line, as
 * {"files": [[path, base64]], "folders": [[name, [[path, base64]]]]}, and answers with {"json": …, "text": …}.
 */

import { createInterface } from "node:readline";

import { emptyFolders, checkAll } from "../page/all-verdicts.js";
import { type Entry, jsonReport, sorted } from "../page/report.js";
import { type PickedFile, streamsIn } from "../page/selection.js";
import { textReport } from "../page/text-report.js";

type Packed = [path: string, base64: string][];

function unpacked(files: Packed): PickedFile[] {
  return files.map(([path, base64]) => ({ path, blob: new Blob([Buffer.from(base64, "base64")]) }));
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line) as { files: Packed; folders: [string, Packed][] };
  const folders = request.folders.map(([name, files]) => ({ name, files: unpacked(files) }));
  const streams = streamsIn({ files: unpacked(request.files), folders });
  const entries: Entry[] = [];
  await checkAll(streams, (message) => {
    if (message.type === "verdict") {
      entries.push({ type: "report", report: message.verdict.report, earlier: streams[message.index]!.earlier });
    } else if (message.type === "error" || message.type === "skipped") entries.push(message);
  });
  entries.push(...emptyFolders(streams, sorted(entries).skipped));
  console.log(JSON.stringify({ json: jsonReport(entries), text: textReport(entries) }));
}
