/** Runs to look at without any of one's own: a sweep with one that was killed, one that is damaged and one that diverges. */

import type { Selection } from "../../../typescript/page/selection.js";

const STEPS = 2000;
const RATES = [1e-3, 6e-4, 3e-4, 1.5e-4];

/** Returns a folder with six runs, the same each time. */
export function demo(): Selection {
  const runs = Array.from({ length: 6 }, (_, at) => ({ name: `llama-00${at + 1}`, text: textOf(at) }));
  return { files: [], folders: [{ name: "demo", files: runs.map(({ name, text }) => ({ path: `demo/${name}/events.jsonl`, blob: new Blob([text]) })) }] };
}

function textOf(at: number): string {
  const text = linesOf(at).join("\n");
  if (at === 2) return text.slice(0, Math.floor(text.length * 0.7));
  return `${at === 4 ? damaged(text) : text}\n`;
}

/** Overwrites a few bytes in the middle, as a failing disk does. */
function damaged(text: string): string {
  const middle = Math.floor(text.length / 2);
  return `${text.slice(0, middle)}\0\0\0\0${text.slice(middle + 4)}`;
}

function linesOf(at: number): string[] {
  const random = randomFrom(at + 1);
  const [rate, isTuned] = [RATES[at % 4]!, at >= 4];
  const began = new Date(Date.UTC(2026, 10, 20, 9 + at)).toISOString().replace(".000", "");
  const config = { lr: rate, batch_size: isTuned ? 64 : 32, warmup: 100, seed: at + 1, max_steps: STEPS };
  const lines: object[] = [{ kind: "run_start", schema: "toy/v1", t: 0, run_id: `llama-00${at + 1}`, started_at: began, tags: [isTuned ? "tuned" : "baseline"], arch: "llama", config }];
  for (let step = 1; step <= STEPS; step++) {
    const done = step / STEPS;
    const t = Number((step * 0.41).toFixed(3));
    const base = 1.75 + 0.12 * (at % 4) - (isTuned ? 0.1 : 0) + 2.6 * Math.exp(-done * 9 * rate ** 0.25 * 4);
    const spike = at === 1 && step === 950 ? 2.4 : 0;
    const loss = at === 0 && step > 1500 && step < 1520 ? null : figure(base + spike + 0.05 * random());
    lines.push({ kind: "step", t, step, loss, lr: figure(rate * Math.min(1, step / 100) * 0.5 * (1 + Math.cos(Math.PI * done))), grad_norm: figure((0.3 + Math.exp(-6 * done)) * Math.exp(0.25 * random())), tokens: config.batch_size * 512 });
    if (step % 200 === 0) lines.push({ kind: "eval", t, step, name: "val", loss: figure(base + 0.1 + 0.01 * random()), extra: { acc: figure(0.75 - 0.12 * (base - 1.9) + 0.004 * random()) } });
    if (step === 1200 && at === 3) lines.push({ kind: "note", t, step, text: "moved to another machine" });
  }
  lines.push({ kind: "run_end", t: Number((STEPS * 0.41).toFixed(3)), reason: "completed", final_step: STEPS });
  return lines.map((line) => JSON.stringify(line));
}

function figure(value: number): number {
  return Number(value.toPrecision(6));
}

/** Returns numbers that look normally distributed, from a seed. */
function randomFrom(seed: number): () => number {
  let state = seed * 2654435761;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return () => Array.from({ length: 6 }, uniform).reduce((sum, each) => sum + each, -3) * Math.SQRT2;
}
