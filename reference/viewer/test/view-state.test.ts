import assert from "node:assert/strict";
import { test } from "node:test";

import { hashOf, LONGEST_HASH, START, stateIn, type ViewState } from "../src/view-state.js";

test("a state comes back from its address", () => {
  const states: Partial<ViewState>[] = [
    {}, { x: "defined", over: "env/steps", opened: ["loss", "a,b"] }, { view: "run", run: "a/b c,é#?&%" }, { view: "runs", filter: "lr < 1e-3 and name ~ 'a&b'", sort: "best.val/acc", columns: ["name", "config.a,b"] },
    { selected: ["a/b", "c,d", "%2C", "é&="], x: "wall", smoothing: 0.95, logX: true, logY: true, zoom: [-1.5, 1e9], metrics: "loss acc", focus: "val/loss", pins: ["val/acc", "a,b"], top: ["a/b c"] },
  ];
  for (const patch of states) assert.deepEqual(stateIn(hashOf({ ...START, ...patch }).hash), { ...START, ...patch });
});

test("an address is short enough to be shared, and reports what it leaves out", () => {
  const selected = Array.from({ length: 500 }, (_, at) => `runs/with-a-long-name-${at}`);
  const { hash, isWhole } = hashOf({ ...START, selected });
  assert.equal(isWhole, false);
  assert.ok(hash.length <= LONGEST_HASH);
  assert.ok(stateIn(hash).selected.length > 40);
});

test("an address that someone else wrote cannot break the page", () => {
  const hashes = ["", "#", "#nowhere", "#run/%", "#charts?sel=%E0%A4%A", "#charts?zoom=2,1", "#charts?zoom=a,b", "#charts?cols=[1]", "#charts?cols={", "#charts?x=__proto__&smooth=NaN&log=", "#charts?smooth=7"];
  for (const hash of hashes) {
    const state = stateIn(hash);
    assert.ok(state.smoothing >= 0 && state.smoothing < 1, hash);
    assert.deepEqual([state.zoom, state.columns, state.x], [null, null, "step"], hash);
  }
});
