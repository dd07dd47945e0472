/** Curves as buckets of equally many successive points, in bounded memory, so that no spike is lost at any zoom. */

import { isLater, type PlaceOfScalar } from "../../../typescript/src/views.js";

export const COLUMNS = ["step", "time", "epoch", "last", "min", "max", "mean", "nan", "offset", "line"] as const;
export type ColumnName = (typeof COLUMNS)[number];
export type Columns = { [name in ColumnName]: Float64Array };
export type PlaceName = "step" | "time" | "epoch";
/** A place that is unknown is NaN. */
export type PlaceOf = { [name in PlaceName]: number };

/** A curve at a moment; a column has one value for each bucket. */
export interface Buckets {
  columns: Columns;
  /** Points of each bucket, finite or not. */
  count: Float64Array;
  /** Points of a bucket that is not the last one. */
  level: number;
}

/** How many bytes all curves of a folder hold; with more of them each gets fewer buckets. */
export class Budget {
  bytes = 0;

  /** The number of buckets that a curve may have now. */
  get most(): number {
    return this.bytes < 200e6 ? 2048 : this.bytes < 400e6 ? 512 : 128;
  }

  /** False where no more curves fit. */
  get hasRoom(): boolean {
    return this.bytes < 600e6;
  }
}

const FIRST_CAPACITY = 16;
const [STEP, TIME, EPOCH, LAST, MIN, MAX, MEAN, NAN, OFFSET, LINE] = COLUMNS.map((_, at) => at) as [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const PLACED: readonly ColumnName[] = ["step", "time", "epoch", "last", "offset", "line"];

/** Points in the order of the stream, as buckets whose number is bounded. */
export class Pyramid {
  /** Points in a bucket: a power of two. */
  level = 1;
  points = 0;
  notFinite = 0;
  /** The last finite value. */
  last = NaN;
  /** The last value, NaN where it was not finite. */
  final = NaN;
  lowest = { step: NaN, value: Infinity };
  highest = { step: NaN, value: -Infinity };
  first: PlaceOf = { step: NaN, time: NaN, epoch: NaN };
  private length = 0;
  private capacity = 0;
  private columns: Columns = emptyColumns();
  /** The bucket that is not full yet, in the order of `COLUMNS`; its mean is the sum so far, over `level`. */
  private readonly open = new Float64Array(COLUMNS.length);
  private openCount = 0;

  constructor(private readonly budget: Budget) {}

  /** Adds a point; a value that is not finite is NaN. */
  add(step: number, time: number, epoch: number, value: number, offset: number, line: number): void {
    if (this.points++ === 0) this.first = { step, time, epoch };
    this.final = value;
    if (value === value) {
      this.last = value;
      if (value < this.lowest.value) this.lowest = { step, value };
      if (value > this.highest.value) this.highest = { step, value };
    } else this.notFinite++;
    if (this.level === 1) this.addRaw(step, time, epoch, value, offset, line);
    else this.addOpen(step, time, epoch, value, offset, line);
  }

  private addRaw(step: number, time: number, epoch: number, value: number, offset: number, line: number): void {
    if (this.length === this.capacity) this.grow();
    const { columns, length } = this;
    columns.step[length] = step;
    columns.time[length] = time;
    columns.epoch[length] = epoch;
    columns.last[length] = value;
    columns.offset[length] = offset;
    columns.line[length] = line;
    this.length++;
    this.halveIfFull();
  }

  private addOpen(step: number, time: number, epoch: number, value: number, offset: number, line: number): void {
    const { open } = this;
    if (this.openCount++ === 0) {
      open.fill(NaN, LAST, NAN);
      open[MEAN] = open[NAN] = 0;
      open[OFFSET] = offset;
      open[LINE] = line;
    }
    open[STEP] = step;
    open[TIME] = time;
    open[EPOCH] = epoch;
    if (value === value) {
      open[LAST] = value;
      if (!(value >= open[MIN]!)) open[MIN] = value;
      if (!(value <= open[MAX]!)) open[MAX] = value;
      // A sum beyond binary64 must not make the mean infinite.
      open[MEAN]! += value / this.level;
    } else open[NAN]!++;
    if (this.openCount === this.level) this.close();
  }

  private close(): void {
    if (this.length === this.capacity) this.grow();
    this.put(this.columns, this.length++);
    this.openCount = 0;
    this.halveIfFull();
  }

  private put(columns: Columns, at: number): void {
    const { open, openCount, level } = this;
    const finite = openCount - open[NAN]!;
    COLUMNS.forEach((name, index) => (columns[name][at] = open[index]!));
    columns.mean[at] = finite === 0 ? NaN : (open[MEAN]! / finite) * level;
  }

  private grow(): void {
    const capacity = Math.max(FIRST_CAPACITY, this.capacity * 2);
    const names = this.level === 1 ? PLACED : COLUMNS;
    for (const name of names) {
      const bigger = new Float64Array(capacity);
      bigger.set(this.columns[name].subarray(0, this.length));
      this.columns[name] = bigger;
    }
    this.budget.bytes += 8 * names.length * (capacity - this.capacity);
    this.capacity = capacity;
  }

  private halveIfFull(): void {
    if (this.length < this.budget.most) return;
    const { level, columns } = halved(this.closed());
    const before = 8 * this.capacity * (this.level === 1 ? PLACED.length : COLUMNS.length);
    this.length = columns.step.length;
    this.capacity = columns.step.length;
    this.columns = columns;
    this.level = level;
    this.budget.bytes += 8 * this.capacity * COLUMNS.length - before;
    // An odd number of buckets leaves one that is half full: its points go on being counted in it.
    if (this.points < this.length * level) this.reopen();
  }

  private reopen(): void {
    const at = --this.length;
    COLUMNS.forEach((name, index) => (this.open[index] = this.columns[name][at]!));
    this.openCount = this.points - at * this.level;
    const finite = this.openCount - this.open[NAN]!;
    this.open[MEAN] = finite === 0 ? 0 : (this.open[MEAN]! * finite) / this.level;
  }

  private closed(): Buckets {
    const { length, level } = this;
    const columns = Object.fromEntries(COLUMNS.map((name) => [name, this.columns[name].subarray(0, length)])) as Columns;
    if (level === 1) {
      columns.min = columns.max = columns.mean = columns.last;
      columns.nan = columns.last.map((value) => (value === value ? 0 : 1));
    }
    return { columns, count: new Float64Array(length).fill(level), level };
  }

  /** Returns the buckets at this time, the open one last. */
  buckets(): Buckets {
    const found = this.closed();
    if (this.openCount === 0) return found;
    const columns = Object.fromEntries(COLUMNS.map((name) => [name, longer(found.columns[name])])) as Columns;
    this.put(columns, this.length);
    const count = longer(found.count);
    count[this.length] = this.openCount;
    return { columns, count, level: this.level };
  }
}

/** The curve of a tag of kaun/v1: its last value is that of the latest scalar, wherever it is in the stream. */
export class TagPyramid extends Pyramid {
  private latest: PlaceOfScalar<number> | undefined;
  private latestFinite: PlaceOfScalar<number> | undefined;

  override add(step: number, time: number, epoch: number, value: number, offset: number, line: number): void {
    const { last, final } = this;
    super.add(step, time, epoch, value, offset, line);
    const place = epoch >= 0 ? { step, epoch: Math.trunc(epoch) } : { step };
    if (this.latest && !isLater(place, this.latest)) this.final = final;
    else this.latest = place;
    if (value !== value) return;
    if (this.latestFinite && !isLater(place, this.latestFinite)) this.last = last;
    else this.latestFinite = place;
  }
}

function emptyColumns(): Columns {
  return Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(0)])) as Columns;
}

function longer(column: Float64Array): Float64Array {
  const made = new Float64Array(column.length + 1);
  made.set(column);
  return made;
}

/** Returns half as many buckets, each of two of these; a last one without a partner stays. */
export function halved({ columns: from, count, level }: Buckets): Buckets {
  const length = Math.ceil(count.length / 2);
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(length)])) as Columns;
  const counts = new Float64Array(length);
  for (let at = 0; at < length; at++) {
    const one = 2 * at;
    const other = Math.min(one + 1, count.length - 1);
    const [a, b] = [count[one]! - from.nan[one]!, other === one ? 0 : count[other]! - from.nan[other]!];
    for (const name of ["step", "time", "epoch"] as const) columns[name][at] = from[name][other]!;
    columns.last[at] = from.last[b > 0 ? other : one]!;
    columns.min[at] = b === 0 ? from.min[one]! : a === 0 ? from.min[other]! : Math.min(from.min[one]!, from.min[other]!);
    columns.max[at] = b === 0 ? from.max[one]! : a === 0 ? from.max[other]! : Math.max(from.max[one]!, from.max[other]!);
    columns.mean[at] = b === 0 ? from.mean[one]! : a === 0 ? from.mean[other]! : from.mean[one]! * (a / (a + b)) + from.mean[other]! * (b / (a + b));
    columns.nan[at] = from.nan[one]! + (other === one ? 0 : from.nan[other]!);
    columns.offset[at] = from.offset[one]!;
    columns.line[at] = from.line[one]!;
    counts[at] = count[one]! + (other === one ? 0 : count[other]!);
  }
  return { columns, count: counts, level: 2 * level };
}

/** Returns buckets halved until there are at most *most*. */
export function fitting(buckets: Buckets, most: number): Buckets {
  let found = buckets;
  while (found.count.length > Math.max(most, 2)) found = halved(found);
  return found;
}

/** Returns the buckets from *begin* to *end*, which is left out. */
export function part({ columns, count, level }: Buckets, begin: number, end: number): Buckets {
  return { columns: Object.fromEntries(COLUMNS.map((name) => [name, columns[name].subarray(begin, end)])) as Columns, count: count.subarray(begin, end), level };
}
