import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { spanOf, spikesOf, wideMarks } from "../src/charts/anomalies.js";
import { linear, logarithmic } from "../src/charts/scales.js";
import { addLine, Coverage } from "../src/charts/crowd.js";
import { csv, legendOf } from "../src/charts/exporting.js";
import { draw, spikeLine, tickedOf } from "../src/charts/drawing.js";
import { addToEnvelope, differences, emptyEnvelope, grouped, isGroup, missingText } from "../src/charts/grouping.js";
import { hasPositive, leavingOf, nearest, placer, type Plot, type Series, valueAt, valueRange, visible, wholeRange } from "../src/charts/plot.js";
import { placedBy } from "../src/charts/defined-steps.js";
import { sectionsOf } from "../src/charts/grid.js";
import { Growing } from "../src/charts/growing.js";
import { smoothed, smoothedOnce } from "../src/charts/smoothing.js";
import { SvgPen } from "../src/charts/svg-pen.js";
import { ticks } from "../src/charts/ticks.js";
import { type Curve, curveOf, frameOf } from "../src/frames.js";
import { fieldsOf, scaleOf } from "../src/compare/relations.js";
import { lookOf, Palette } from "../src/palette.js";
import { metricRank } from "../src/metric-ranks.js";
import type { Goal, Run } from "../src/protocol.js";
import { brief, findingsLine, prose, short } from "../src/text.js";

function curve(values: number[], places = values.map((_, at) => at + 1), level = 1): Curve {
  const header = { run: "a", metric: "loss", attempt: "latest", axes: ["step"], revision: "1", points: values.length, level, buckets: values.length, range: { step: [places[0]!, places.at(-1)!] } } as const;
  const frame = frameOf({ ...header, axes: ["step"], range: { step: [places[0]!, places.at(-1)!] } }, { step: Float64Array.from(places), mean: Float64Array.from(values) });
  return curveOf(frame, "step")!;
}

function series(values: number[], id = "a"): Series {
  return { metric: "loss", isSecond: false, run: { id, name: id } as Run, look: { colour: 0, dash: [] }, isQuiet: false, curve: curve(values), abandoned: null, smooth: null, shift: 0 };
}

test("pinned metrics come first, and an asterisk in a word is any text", () => {
  const metrics = Object.fromEntries(["val/acc", "loss", "lr", "val/loss"].map((name) => [name, {}]));
  const runs = [{ metrics } as unknown as Run];
  assert.deepEqual(sectionsOf(runs, "", ["val/loss", "gone"]).map(({ metrics: names }) => names), [["val/loss"], ["loss", "val/acc"], ["lr"]]);
  assert.deepEqual(sectionsOf(runs, "V*ss").flatMap(({ metrics: names }) => names), ["val/loss"]);
  assert.deepEqual(sectionsOf(runs, "l (*"), []);
});

test("a curve is placed by the metric that counts its steps", () => {
  const placed = placedBy(curve([5, 6, 7, 8], [1, 3, 4, 9]), curve([10, 20, 30], [3, 4, 8]))!;
  assert.deepEqual([[...placed.place], [...placed.mean], [...placed.steps!]], [[10, 20, 30], [6, 7, 8], [3, 4, 9]]);
  assert.deepEqual(placed.header.range, { step: [10, 30] });
  assert.equal(placedBy(curve([1], [1]), curve([1], [2])), null);
});

test("a constant stays the same when it is smoothed, from its first value on", () => {
  assert.deepEqual([...smoothed(curve([3, 3, 3, 3]), 0.99, 3)].map((value) => Number(value.toFixed(12))), [3, 3, 3, 3]);
});

test("smoothing follows the definition and leaves out what is not finite", () => {
  const [a, b, c] = smoothed(curve([1, NaN, 2]), 0.5, 1000);
  assert.deepEqual([a, b], [1, NaN]);
  // Two steps later a quarter of the old average is left.
  assert.equal(c!.toFixed(10), ((0.5 * 1 * 0.25 + 2 * 0.75) / (0.5 * 0.25 + 0.75)).toFixed(10));
});

test("pixels and values are inverse on both scales", () => {
  for (const range of [{ from: 2, to: 10, isLog: false }, { from: 1e-4, to: 1e3, isLog: true }]) {
    for (const value of [range.from, (range.from + range.to) / 2, range.to]) {
      assert.ok(Math.abs(valueAt(range, 58, 300, placer(range, 58, 300)(value)) / value - 1) < 1e-9);
    }
  }
});

test("a logarithmic axis has a place for values above 0 alone", () => {
  const x = { from: 1, to: 4, isLog: false };
  assert.deepEqual([[0, -1, NaN], [-1, 0.5, 0], []].map((values) => hasPositive([series(values)], x)), [false, true, false]);
  assert.equal(hasPositive([series([1, 1, -1, -1, -1, -1])], { from: 5, to: 6, isLog: false }), false);
});

test("the range of values has room for the highest and the lowest of what is seen", () => {
  const seen = valueRange([series([1, 100, 2, 3])], { from: 3, to: 4, isLog: false }, false);
  assert.ok(seen.from < 2 && seen.to >= 100, "the neighbours of what is seen count: the line goes to them");
  const positive = valueRange([series([0, -1, 10, 1000])], { from: 1, to: 4, isLog: false }, true);
  assert.ok(positive.from > 0 && positive.from <= 10 && positive.to >= 1000);
  const none = valueRange([series([NaN])], { from: 0, to: 1, isLog: false }, false);
  assert.deepEqual(none, { from: 0, to: 1, isLog: false });
  const largest = valueRange([series([-Number.MAX_VALUE, Number.MAX_VALUE])], { from: 1, to: 2, isLog: false }, false);
  assert.ok(Number.isFinite(largest.to - largest.from));
});

test("only what is seen is drawn, and curves that go back are drawn whole", () => {
  const range = { from: 40, to: 50, isLog: false };
  assert.deepEqual(visible(curve(Array.from({ length: 100 }, () => 1)), range, 0), [38, 50]);
  assert.deepEqual(visible(curve([1, 2, 3], [3, 2, 90]), range, 0), [0, 3]);
  assert.equal(nearest(curve([1, 2, 3], [1, 10, 20]), 14), 1);
  assert.equal(nearest(curve([1, 2, 3], [20, 1, 10]), 14), 2);
  assert.equal(wholeRange([series([1])], true)!.from, 1);
});

test("ticks lie in the range, are few, and differ", () => {
  const ranges = [{ from: 1, to: 10_000, isLog: false }, { from: 1.2345, to: 1.2346, isLog: false }, { from: 1e-6, to: 10, isLog: true }, { from: 0, to: 1e6, isLog: false }];
  for (const axis of ["step", "time", "wall", "value", "tokens"] as const) {
    for (const range of ranges) {
      const found = ticks(range, axis, 5);
      assert.ok(found.length > 0 && found.length <= 14, `${axis} ${range.from} to ${range.to}: ${found.length}`);
      assert.ok(found.every(({ value }) => value >= range.from && value <= range.to));
      if (axis === "value") assert.equal(new Set(found.map(({ text }) => text)).size, found.length, JSON.stringify(found));
    }
  }
});

test("ticks are written by what is counted, times from midnight of the user's zone on", (context) => {
  const zone = process.env["TZ"];
  context.after(() => (zone === undefined ? delete process.env["TZ"] : (process.env["TZ"] = zone)));
  process.env["TZ"] = "Asia/Kolkata";
  const cases: [Parameters<typeof ticks>[1], number, number, string][] = [
    ["time", 80_000, 180_000, "1 d,1 d 12 h,2 d"], ["time", 0, 7300, "0,1 h,2 h"], ["time", 0, 0.5, "0,0.2 s,0.4 s"], ["time", 0, 5e6, "0,21 d,42 d"],
    ["step", 0, 15_000, "0,5\u202f000,10k,15k"], ["tokens", 0, 3e9, "0,1G,2G,3G"], ["value", 0, 1e7, "0,5e6,1e7"], ["value", 1e-5, 3e-5, "1.5e-5,2e-5,2.5e-5,3e-5"],
    ["value", 1e9 - 25, 1e9 + 25, "-20,1e9,+20"], ["value", 1234567801, 1234567849, "≈1.235e9,+20"],
    ["wall", 1.7e9, 1.7e9 + 7300, "04:00,05:00"], ["wall", 1.7e9, 1.7e9 + 4 * 86_400, "17 Nov,19 Nov"],
  ];
  for (const [axis, from, to, texts] of cases) assert.equal(ticks({ from, to, isLog: false }, axis, 3).map(({ text }) => text).join(), texts);
});

test("a table for spreadsheets holds every bucket and no formula", () => {
  const plot: Plot = { series: [series([1, NaN], '=cmd|"x",1')], envelope: null, background: [], hasGroups: false, flags: [], x: { from: 0, to: 1, isLog: false }, y: { from: 0, to: 1, isLog: false }, box: { left: 0, top: 0, width: 1, height: 1 } };
  assert.equal(csv(plot, "step"), 'run,step,mean,min,max,count,not_finite\n"\'=cmd|""x"",1",1,1,1,1,1,0\n"\'=cmd|""x"",1",2,,,,1,0\n');
});

test("an image holds names as text", () => {
  const pen = new SvgPen(10, 10);
  pen.fillText('<script>&"', 1, 2);
  assert.ok(pen.text().includes("&lt;script&gt;&amp;&quot;"));
});

test("a run keeps its colour while others come and go", () => {
  const palette = new Palette();
  palette.give(["a", "b", "c"]);
  const before = palette.look("c");
  palette.give(["c", "d"]);
  assert.deepEqual(palette.look("c"), before);
  assert.notDeepEqual(palette.look("d"), before);
  const ids = Array.from({ length: 21 }, (_, at) => String(at));
  palette.give(ids);
  assert.equal(new Set(ids.map((id) => JSON.stringify(palette.look(id)))).size, 21);
});

test("metrics are in sections by the first part of their names", () => {
  const named = (...names: string[]) => [{ metrics: Object.fromEntries(names.map((name) => [name, {}])) } as unknown as Run];
  const runs = named("lr", "norm/a", "norm/b", "norm/c", "lone/a", "val/acc", "loss", "system/gpu", "constructor");
  assert.deepEqual(sectionsOf(runs, "").map(({ metrics }) => metrics), [["loss", "val/acc"], ["constructor", "lone/a"], ["norm/a", "norm/b", "norm/c"], ["lr", "system/gpu"]]);
  assert.deepEqual(sectionsOf(runs, "val acc").map(({ metrics: names }) => names), [["val/acc"]]);
});

test("a metric has the rank that Python gives it", () => {
  const ranks = JSON.parse(readFileSync(new URL("../../../test/metric-ranks.json", import.meta.url), "utf8")) as [string, Goal, boolean, number][];
  assert.deepEqual(ranks.map(([name, goal, isConstant]) => [name, goal, isConstant, metricRank(name, goal, isConstant)]), ranks);
});

test("a few curves that leave the field are folded, and spikes of many are ticks", () => {
  const x = { from: 1, to: 4, isLog: false };
  const wave = (at: number) => series([at, at + 1, at, at + 1], `run ${at}`);
  const field = Array.from({ length: 10 }, (_, at) => wave(at));
  for (const [others, isLog, expected] of [
    [[], false, undefined], [[wave(20)], false, undefined], [[wave(1450)], false, [1, 0, -0.5, 10.5]], [[wave(1450), wave(-900)], false, [1, 1, -0.5, 10.5]],
    [[1e6, 1e6, 1e6, 1e6, 1e6].map(wave), false, undefined], [[wave(1e300)], true, [1, 0, 0.912, 11]], [[wave(400)], true, undefined],
  ] as const) {
    const found = leavingOf([...field, ...others], x, isLog);
    assert.deepEqual(found && [found.above, found.below, found.range.from, found.range.to].map((value) => Number(value.toPrecision(3))), expected);
  }
  const spiky = Array.from({ length: 8 }, (_, at) => series(Array.from({ length: 40 }, (_, step) => (step === 4 + 4 * at ? 9 : 1 + (step % 3) / 10)), `run ${at}`));
  const plot = (shown: Series[], width: number): Plot => ({ series: shown, envelope: null, background: [], hasGroups: false, flags: [], x: { from: 1, to: 40, isLog: false }, y: { from: 0, to: 10, isLog: false }, box: { left: 0, top: 0, width, height: 100 } });
  assert.deepEqual([plot(spiky, 200), plot(spiky, 300), plot(spiky.slice(1), 200)].map((each) => tickedOf(each, false).size), [8, 0, 0]);
  assert.equal(tickedOf(plot(spiky, 200), true).size, 0, "those that are selected are drawn whole");
  const mark = (each: Partial<Plot>, hovered: string | null = null, spike = { value: 8.5, base: 1 }) => spikeLine({ ...plot(spiky, 200), ...each }, spiky[0]!, spike, { y: (value) => 100 - 10 * value, hovered });
  const ticked = new Set(spiky);
  assert.deepEqual([mark({}), mark({ ticked }), mark({ ticked }, "run 0")], [[15, 90], [0, 13], [15, 90]]);
  const leaving = { above: 1, below: 0, range: x, isFolded: true };
  assert.deepEqual([mark({ leaving }, null, { value: 90, base: 80 }), mark({ leaving }, null, { value: 90, base: 1 })], [[-800, 8], [-800, 90]], "a mark beyond the range is at the edge");
});

test("text of a log is inert, and numbers are short", () => {
  assert.equal(prose("a\n\u202eb\u001b\tc"), "a\n\\u202eb\\x1b\tc");
  assert.deepEqual([0, 1234567, 0.00001234, 1.5, 12345].map((value) => short(value)), ["0", "1.235e6", "1.234e-5", "1.5", "12\u202f345"]);
  assert.deepEqual([61, 0.01234, 7e-6].map(brief), ["1 min 01 s", "12.34 ms", "7 µs"]);
  assert.equal(findingsLine({ error: 1, warning: 2, info: 1234 }, ["error", "warning", "info"]), "1 error, 2 warnings, 1\u202f234 info");
});

test("a group is the mean of its runs with its band, and says where some of them are missing", () => {
  const member = (id: string, seed: number, values: number[]): Series => ({ ...series(values, id), run: { id, name: id, config: { lr: 0.1, seed, arch: "a" }, group: null, tags: [] } as unknown as Run });
  const all = [member("a", 1, [1, 1, 1, 1, 1]), member("b", 1, [3, 3, 3]), member("c", 2, [7, 7, 7, 7, 7])];
  const made = grouped(all, { keys: ["config.seed"], band: "range", look: () => lookOf(0) });
  assert.deepEqual(made.map(({ run, isQuiet }) => [isGroup(run), isQuiet]), [[false, true], [false, true], [false, true], [true, false], [true, false]]);
  const [first, second] = made.slice(3);
  const at = (place: number) => nearest(first!.curve, place);
  assert.deepEqual([first!.run.name, first!.about], ["seed 1, 2 runs", "min to max"]);
  assert.deepEqual([first!.curve.mean[at(2)], first!.curve.min[at(2)], first!.curve.max[at(2)], missingText(first!, at(2))], [2, 1, 3, ""]);
  assert.deepEqual([first!.curve.mean[at(4)], first!.curve.min[at(4)], missingText(first!, at(4))], [1, 1, "1 of 2"], "a run that ended earlier no longer counts");
  assert.deepEqual([second!.curve.mean[0], second!.curve.min[0], second!.curve.max[0]], [7, 7, 7]);
  const texts: string[] = [];
  const pen = new Proxy({}, { get: (_, name) => (name === "fillText" ? (text: string) => texts.push(text) : () => undefined), set: () => true });
  const plot = { series: made, envelope: null, background: [], hasGroups: true, flags: [], x: { from: 1, to: 5, isLog: false }, y: { from: 0, to: 9, isLog: false }, box: { left: 0, top: 0, width: 400, height: 300 } };
  draw(pen as Parameters<typeof draw>[0], plot, { axis: "step", colours: { runs: [], flags: {} }, hovered: null, ratio: 1, isColoured: false, font: "", size: 11 } as unknown as Parameters<typeof draw>[2]);
  assert.ok(texts.includes("1 of 2"), texts.join());
});

test("what a run has above another one that is alike is flat", () => {
  const one = series([0.1, 0.2, 0.3], "a");
  const [above] = differences([one, { ...series([0.1, 0.3, 0.1 + 0.2], "b"), curve: curve([0.1, 0.1 + 0.2], [1, 3]) }], "a");
  assert.deepEqual([...above!.curve.mean], [0, 0]);
});

test("a line covers one pixel of each column that it crosses, and all between its places in one", () => {
  const covered = (draw: (coverage: Coverage) => void, alpha = 1) => {
    const coverage = new Coverage(4, 6, 0.5);
    draw(coverage);
    coverage.end();
    const opacities = coverage.opacities(alpha, 256);
    return [0, 1, 2, 3, 4, 5].map((row) => [...opacities.subarray(4 * row, 4 * row + 4)].map((value) => Math.round(value / 25.5)).join(" "));
  };
  const flat = (coverage: Coverage) => {
    coverage.moveTo(0.5, 2.5);
    coverage.lineTo(2.5, 2.5);
  };
  assert.deepEqual(covered(flat), ["0 0 0 0", "0 0 0 0", "10 10 10 0", "0 0 0 0", "0 0 0 0", "0 0 0 0"]);
  // Up and down within a column, beyond the picture too, and back.
  const steep = (coverage: Coverage) => {
    coverage.moveTo(1.2, 1.5);
    coverage.lineTo(1.4, 99);
    coverage.lineTo(1.6, 3);
  };
  assert.deepEqual(covered(steep), ["0 0 0 0", ...Array<string>(5).fill("0 10 0 0")]);
  assert.deepEqual(covered((coverage) => {
    coverage.moveTo(2.5, 4.5);
    coverage.lineTo(-7.5, 4.5);
  })[4], "10 10 10 0");
  // By the logarithm of their number, up to 256.
  for (const [count, row] of [[1, "5 5 5 0"], [2, "6 6 6 0"], [64, "9 9 9 0"], [256, "10 10 10 0"]] as const) {
    assert.equal(covered((coverage) => Array.from({ length: count }, () => flat(coverage)), 0.5)[2], row);
  }
  // Half a pixel lower, a line covers half of two.
  assert.deepEqual(covered((coverage) => coverage.dot(1.5, 3, 0.5)).slice(2, 4), ["0 5 0 0", "0 5 0 0"]);
});

test("the line of a curve breaks at what is not finite and at lost lines, and keeps a point between two of them", () => {
  const plot = { x: { from: 1, to: 9, isLog: false }, y: { from: 0, to: 4, isLog: false }, box: { left: 0, top: 0, width: 16, height: 4 } } as Plot;
  const rows = (values: number[], gaps: number[] = []) => {
    const coverage = new Coverage(22, 8, 0.5);
    const own = curve(values);
    addLine(coverage, { ...own, header: { ...own.header, gaps: gaps.map((step) => ({ step, line: 1, offset: 0, length: 1 })) } }, own.mean, { plot, shift: 0, ratio: 1 });
    const opacities = coverage.opacities(1, 2);
    return Array.from({ length: 22 }, (_, column) => (Array.from({ length: 8 }, (_, row) => opacities[22 * row + column]!).some((value) => value > 99) ? "#" : ".")).join("");
  };
  assert.equal(rows([1, 1, 1, 1, 1, 1, 1, 1]), "...###############....");
  assert.equal(rows([1, 1, NaN, NaN, NaN, 1, 1, 1]), "...###.......#####....");
  assert.equal(rows([NaN, NaN, 1, NaN, NaN, NaN, NaN, NaN]), ".....####.............");
  assert.equal(rows([1, 1, 1, 1, 1, 1, 1, 1], [4]), "...#######.#######....");
});

test("many runs that are background are one picture, which the pointer does not change", () => {
  const quiet = Array.from({ length: 51 }, (_, at) => ({ ...series([1, 2], `run-${at}`), isQuiet: true }));
  const colours = { text: "#000", grid: "#111", quiet: "#222", spike: "#333", surface: "#fff", runs: ["#444"], flags: { note: "#555", error: "#666", warning: "#777" } };
  const drawnWith = (all: readonly Series[], hovered: string | null, isColoured = false) => {
    const found: string[][] = [];
    const plot: Plot = { series: all, envelope: null, background: [], hasGroups: false, flags: [], x: { from: 1, to: 2, isLog: false }, y: { from: 1, to: 2, isLog: false }, box: { left: 0, top: 0, width: 9, height: 9 } };
    const pen = new SvgPen(9, 9);
    draw(pen, plot, { axis: "step", colours, hovered, ratio: 1, isColoured, font: "a", size: 9 }, (crowd) => found.push(crowd.map(({ run }) => run.id)));
    return { found, lines: pen.text().split("#222").length - 1, own: pen.text().split("#444").length - 1 };
  };
  const ids = quiet.map(({ run }) => run.id);
  assert.deepEqual(drawnWith(quiet, null), { found: [ids], lines: 0, own: 0 });
  const hovered = drawnWith(quiet, "run-7");
  assert.deepEqual(hovered.found, [ids]);
  assert.ok(hovered.own > 0);
  // A few, and those that have colours of their own, are lines.
  assert.deepEqual(drawnWith(quiet.slice(1), null).found, []);
  assert.ok(drawnWith(quiet.slice(1), null).lines > 0);
  assert.deepEqual(drawnWith(quiet, null, true).found, []);
});

test("curves that come are added to a picture, which is begun again where one is gone or is another, or a part has changed", () => {
  const growing = new Growing<string[]>();
  const [a, b, c] = [series([1], "a"), series([1], "b"), series([1], "c")];
  let part = 1;
  const drawn = (...all: readonly Series[]) => growing.of([part], all, { begin: () => [], add: (picture, added) => picture.push(added.map(({ run }) => run.id).join("")) }).join(" ");
  assert.deepEqual([drawn(a), drawn(b, a), drawn(b, a), drawn(a, c, b)], ["a", "a b", "a b", "a b c"]);
  assert.deepEqual([drawn(a, b), drawn({ ...a, shift: 1 }, b), drawn(a, { ...b, smooth: new Float64Array(1) })], ["ab", "ab", "ab"]);
  part = 2;
  assert.deepEqual([drawn(a), drawn({ ...a, curve: curve([2]) }, b)], ["a", "ab"]);
});

test("smoothed values are kept as long as they are asked for in the same way", () => {
  const own = curve([1, 5, 2]);
  const first = smoothedOnce(own, 0.5, 100);
  assert.equal(smoothedOnce(own, 0.5, 100), first);
  assert.deepEqual(smoothedOnce(own, 0.9, 100), smoothed(own, 0.9, 100));
  assert.notEqual(first[1], smoothedOnce(own, 0.9, 100)[1]);
});

test("the envelope of many runs keeps their extremes in every column, and has holes where no run is", () => {
  const far = { ...series([5, NaN, 5]), curve: curve([5, 9, 5], [11, 12, 13]) };
  const envelope = emptyEnvelope({ count: 24, cell: 1 });
  for (const some of [[series([1, -4, 1]), far], [series([2, 2, 2])]]) addToEnvelope(envelope, some, { from: 1, to: 13, isLog: false });
  const { low, high } = envelope;
  const known = (values: Float64Array) => values.filter(Number.isFinite);
  assert.deepEqual([Math.min(...known(low)), Math.max(...known(high))], [-4, 9]);
  assert.deepEqual([low[0], high[0], high[22]], [1, 2, 9]);
  assert.ok(low[10]! > high[10]!);
});

test("a spike over several steps comes to its own step, also where its bucket was rounded", () => {
  const coarse = curve(Array<number>(40).fill(1).with(20, Math.fround(50.1)), Array.from({ length: 40 }, (_, at) => 8 * (at + 1)), 8);
  const [mark] = wideMarks(coarse, false, (from, to) => to > from);
  mark!.settle(curve(Array<number>(8).fill(1).with(2, 50.1), Array.from({ length: 8 }, (_, at) => 161 + at)));
  assert.deepEqual(spikesOf(coarse, false).map(({ from, to }) => [from, to]), [[163, 163]]);
});

test("a spike is a bucket far from those around it, up or down, and a fall, a step or noise has none", () => {
  const noise = (at: number) => 1 + 0.1 * Math.sin(at * 12.9898) ** 3;
  const values = Array.from({ length: 400 }, (_, at) => noise(at) + 4 / (1 + at / 40) + (at > 200 ? 3 : 0));
  assert.deepEqual(spikesOf(curve(values), false).map(({ bucket }) => bucket), []);
  values[0] = 90;
  values[150] = 9;
  values[300] = -2;
  const spikes = spikesOf(curve(values), false);
  assert.deepEqual(spikes.map(({ bucket, value }) => [bucket, value]), [[0, 90], [150, 9], [300, -2]]);
  assert.deepEqual(spanOf(curve([1, 1, 1], [8, 16, 24], 8), 1), [8, 16]);
  const part = curve([1, 1, 1], [16, 24, 32], 8);
  assert.deepEqual(spanOf({ ...part, header: { ...part.header, points: 99, range: { step: [1, 99] } } }, 0), [8, 16], "the first of a part is as long as the next");
  assert.deepEqual(spikesOf(curve(Array<number>(40).fill(0.3).with(20, 0.1 + 0.2)), false), [], "rounding is none");
  const falls = (from: number) => Array.from({ length: 30 }, (_, at) => from * 0.5 ** at + 1 + (at % 3) / 100);
  const two = curve([...falls(8), NaN, ...falls(8).with(20, 5), NaN, ...falls(8)]);
  two.count = two.mean.map((value) => Number(!Number.isNaN(value)));
  assert.deepEqual(spikesOf(two, false).map(({ bucket }) => bucket), [51], "the start of a second attempt is none");
  // Of buckets that are as high as 1, one is a spike from 1.25 above the others on.
  const bucketed = (high: number): Curve => ({ ...curve(Array<number>(40).fill(0), undefined, 8), max: new Float64Array(40).fill(1).with(20, high) });
  assert.deepEqual([2.2, 2.3].map((high) => spikesOf(bucketed(high), false).length), [0, 1]);
});

test("a spike is five interquartile ranges above the medians of both sides, wherever it is", () => {
  const quantile = (values: readonly number[], share: number) => [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))]!;
  const isUp = (values: readonly number[], at: number, sign: number): boolean => {
    const finite = (part: readonly number[]) => part.filter((value) => !Number.isNaN(value)).map((value) => sign * value);
    const [left, right] = [finite(values.slice(Math.max(0, at - 16), at)), finite(values.slice(at + 1, at + 17))];
    const [both, base] = [[...left, ...right], Math.max(quantile(left, 0.5), quantile(right, 0.5))];
    return sign * values[at]! - base > Math.max(5 * (quantile(both, 0.75) - quantile(both, 0.25)), 1e-9 * Math.abs(base));
  };
  let state = 7;
  const chance = () => (state = (state * 48271) % 2147483647) / 2147483647;
  let spikes = 0;
  for (let round = 0; round < 60; round++) {
    const [slope, noise, rare, jump] = [0.1 * (chance() - 0.5), chance(), 0.15 * chance(), 10 * chance()];
    const lost = round % 3 === 0 ? 0.4 : 0.02;
    const whole = round % 6 === 0 ? Math.round : (value: number) => value;
    const values = Array.from({ length: 200 }, (_, at) => whole(chance() < lost ? NaN : slope * at + (at > 90 ? jump : 0) + noise * (at % 80 < 44 ? 1 : 0.01) * (chance() + chance()) + (chance() < rare ? 20 * Math.round(3 * chance() - 1.5) : 0)));
    const found = new Set(spikesOf(curve(values), false).map(({ bucket }) => bucket));
    // Beside the ends, a fall is none.
    for (let at = 5; at < 195; at++) {
      const isOne = isUp(values, at, 1) || isUp(values, at, -1);
      assert.equal(found.has(at), isOne, `round ${round}, bucket ${at}`);
      spikes += isOne ? 1 : 0;
    }
  }
  assert.ok(spikes > 100);
});

test("a difference is taken at the same places, and the run that is subtracted is left out", () => {
  const [made, ...others] = differences([series([1, 2, 3], "a"), series([2, 4, 9, 9], "b")], "a");
  assert.equal(others.length, 0);
  assert.deepEqual([made!.run.id, [...made!.curve.mean]], ["b", [1, 2, 6, NaN]]);
  assert.equal(differences([series([1], "a")], "c").length, 1);
});

test("settings are compared with results by scales of their own", () => {
  const runs = [1e-4, 1e-3, 1e-1].map((lr, at) => ({ config: { lr, arch: `a${at % 2}`, same: 1 }, metrics: { loss: { last: 1, best: at, goal: "min" }, lr: { last: at, best: null } } }) as unknown as Run);
  assert.deepEqual(fieldsOf(runs), { settings: ["config.lr", "config.arch"], results: ["best.loss", "last.lr"] });
  assert.equal(scaleOf(runs, "config.lr").range.isLog, true);
  assert.deepEqual(scaleOf(runs, "config.arch").values, [0, 1, 0]);
  assert.deepEqual(scaleOf(runs, "config.arch").marks, [{ value: 0, text: "a0" }, { value: 1, text: "a1" }]);
});

test("every name of a legend is whole and inside of the picture, or counted", () => {
  const look = { colour: 0, dash: [] };
  const measure = (text: string) => 7 * text.length;
  for (const [count, letters] of [[1, 4], [7, 20], [50, 19], [3, 300], [9, 60]] as const) {
    const names = Array.from({ length: count }, (_, at) => ({ text: `${at}-`.padEnd(letters, String(at)), look }));
    const { entries, rows, more } = legendOf(names, { left: 10, width: 316, line: 12, rows: 12 }, measure);
    assert.equal(entries.length + more, count);
    assert.ok(rows <= 12 && entries.every(({ lines, x, y }) => lines.every((line) => x + 22 + measure(line) <= 326) && y + 12 * lines.length <= 12 * rows));
    assert.deepEqual(entries.map(({ lines }) => lines.join("")), names.slice(0, entries.length).map(({ text }) => text));
  }
});

test("ticks cover any span that binary64 has", () => {
  for (const [low, high] of [[0, 0], [1, 400], [-1e308, 1e308], [1.5, 1.5000001]] as const) {
    const { length } = linear(low, high, 5);
    assert.ok(length >= 1 && length <= 11, String([low, high, length]));
  }
  assert.deepEqual(logarithmic(1, 1000, 6), [1, 3, 10, 30, 100, 300, 1000]);
  assert.deepEqual(logarithmic(1.55, 4.6, 6), [2, 3, 4]);
  assert.deepEqual(logarithmic(2.1, 2.4, 3), [2.1, 2.2, 2.3, 2.4]);
  assert.ok(logarithmic(5e-324, 1e308, 6).length <= 12);
});
