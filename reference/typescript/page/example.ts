/** Three small runs to try the page with: a complete, a torn and a damaged one. */

import type { Selection } from "./selection.js";

/** Returns a runs root with three bundles. */
export function example(): Selection {
  const lines = [run("llama-001", 1), run("llama-002", 2), run("llama-003", 3)];
  const complete = [...lines[0]!, '{"kind":"run_end","t":41.0,"reason":"completed","final_step":400,"final_loss":null}'];
  complete[complete.length - 1] = complete.at(-1)!.replace("null", lossOf(complete[400]!));
  const torn = `${lines[1]!.slice(0, 277).join("\n")}\n${lines[1]![277]!.slice(0, 47)}`;
  const damaged = [...lines[2]!];
  damaged[150] = damaged[150]!.slice(0, 45) + damaged[151]!;
  damaged[230] = damaged[230]!.replace(/"loss":[\d.]+/, '"loss":NaN');
  damaged.splice(300, 2);
  const files = [complete.join("\n") + "\n", torn, damaged.join("\n") + '\n{"kind":"run_end","t":41.0,"reason":"finished","final_step":400}\n'];
  return {
    files: [],
    folders: [{ name: "runs", files: files.map((text, index) => ({ path: `runs/llama-00${index + 1}/events.jsonl`, blob: new Blob([text]) })) }],
  };
}

/** Returns a run_start and 400 steps. */
function run(id: string, seed: number): string[] {
  const start =
    `{"kind":"run_start","schema":"toy/v1","t":0.0,"started_at":"2026-05-31T0${5 + seed}:30:00Z","run_id":"${id}",` +
    '"host":{"name":"node-7","os":"linux","arch":"x86_64"},"backend":{"kind":"cuda","device":"A100"},' +
    '"git":{"sha":"4f2a9c1","branch":"main","dirty":false},' +
    '"model":{"arch":"llama","vocab":32000,"d_model":512,"n_layers":8,"n_heads":8},"config":{"steps":400,"lr":0.0003,"seed":' +
    `${seed}}}`;
  // Chance that is the same each time.
  let state = seed;
  const steps = Array.from({ length: 400 }, (_, index) => {
    const step = index + 1;
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const noise = (state / 2 ** 32 - 0.5) * 0.3;
    const loss = (1.6 + 3.1 * Math.exp(-step / (70 + 15 * seed)) + noise).toFixed(4);
    return `{"kind":"step","phase":"train","t":${(step / 10).toFixed(1)},"step":${step},"loss":${loss},"lr":0.0003,"grad_norm":${(1 + noise).toFixed(3)}}`;
  });
  return [start, ...steps];
}

function lossOf(line: string): string {
  return /"loss":([\d.]+)/.exec(line)![1]!;
}
