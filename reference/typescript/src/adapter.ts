/** Lets the conformance runner test this package: see conformance/PROTOCOL.md. */

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { type Answer, answer, type Request } from "./answers.js";

const HELLO = {
  hello: {
    protocol: 1,
    name: "toyspec-ts",
    language: "TypeScript",
    version: "0.1.0",
    profiles: ["toy/v1", "metrics/v1", "kaun/v1"],
    revisions: ["1.4"],
    roles: ["reader", "writer", "canonical-writer", "checker", "summarizer"],
    lines: true,
    capabilities: ["line_limit", "bundle", "session", "own_kinds", "findings_offset", "ranks", "media"],
  },
};

/** Exit status that says that the library cannot do what is asked. */
const UNTESTABLE_STATUS = 77;

async function answerLines(): Promise<void> {
  console.log(JSON.stringify(HELLO));
  for await (const line of createInterface({ input: process.stdin })) {
    let reply: Answer;
    let id: number | undefined;
    try {
      const request = JSON.parse(line) as Request;
      id = request.id;
      reply = answer(request, request.stream === undefined ? null : Buffer.from(request.stream, "base64"));
    } catch (error) {
      reply = { error: String(error) };
    }
    console.log(JSON.stringify({ id, ...reply }));
  }
}

function answerOnce(role: string, options: string[]): number {
  const request: Request = { role };
  for (let i = 0; i + 1 < options.length; i += 2) {
    const name = options[i]!.slice(2).replaceAll("-", "_");
    Object.assign(request, { [name]: name === "max_line_bytes" ? Number(options[i + 1]) : options[i + 1] });
  }
  const input = readFileSync(0);
  if (role === "writer" || role === "canonical-writer") {
    request.records = input.toString().split("\n").filter(Boolean).map((line) => JSON.parse(line) as unknown);
    const reply = answer(request, null);
    if (reply["outcome"] !== "written") {
      console.error(reply["untestable"] ?? reply["reason"]);
      return "untestable" in reply ? UNTESTABLE_STATUS : 1;
    }
    if (reply["stream"] !== undefined) process.stdout.write(Buffer.from(reply["stream"] as string, "base64"));
    return 0;
  }
  const reply = answer(request, request.directory === undefined ? input : null);
  console.log(JSON.stringify(reply));
  return reply["outcome"] === "fails" || reply["valid"] === false ? 1 : 0;
}

const [call, role, ...options] = process.argv.slice(2);
if (call === "--hello") console.log(JSON.stringify(HELLO));
else if (call === "--lines") await answerLines();
else if (call === "--oneshot" && role) process.exitCode = answerOnce(role, options);
else {
  console.error("usage: adapter --hello | --lines | --oneshot ROLE [--option value …]");
  process.exitCode = 2;
}
