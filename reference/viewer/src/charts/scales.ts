/** Where the ticks of an axis are. */

/** Returns about *count* places from *low* to *high* at equal steps. */
export function linear(low: number, high: number, count: number): number[] {
  // Halves keep the span of the largest numbers finite.
  return high / 2 - low / 2 > 0 ? round(low, high, count) : [low];
}

/** Returns about *count* places of a logarithmic axis; *low* is above 0. */
export function logarithmic(low: number, high: number, count: number): number[] {
  const choices = STEPS.map((steps) => inDecades(low, high, steps));
  const decades = choices.at(-1)!;
  const every = Math.ceil(decades.length / count);
  const ticks = choices.find((choice) => choice.length <= count + 1) ?? decades.filter((_, index) => index % every === 0);
  // A span with one tick or none in it is short enough for equal steps.
  return ticks.length > 1 ? ticks : linear(low, high, count);
}

/** What a decade is divided by, the finest first. */
const STEPS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]];

function inDecades(low: number, high: number, steps: readonly number[]): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    ticks.push(...steps.map((step) => Number(`${step}e${power}`)).filter((value) => value >= low && value <= high));
  }
  return ticks;
}

function round(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  if (!Number.isFinite(raw)) return [low, high];
  const power = 10 ** Math.floor(Math.log10(raw));
  const distance = (step: number) => Math.abs(Math.log(step / raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).sort((a, b) => distance(a) - distance(b))[0]!;
  const ticks: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9 && ticks.length <= 2 * count; index++) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}
