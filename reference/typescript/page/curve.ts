/** A series of numbers over steps in bounded memory: the mean, the least and the greatest of each part of it are kept. */

/** A part of a series. */
export interface Part {
  /** First and last step. */
  from: number;
  to: number;
  /** Null where nothing in it was finite. */
  least: number | null;
  greatest: number | null;
  last: number | null;
  /** Sum of what was finite, and its number. */
  sum: number;
  finite: number;
  /** Number of values, those that were not finite included. */
  count: number;
}

/** What is drawn of a series. */
export interface Curve {
  name: string;
  parts: Part[];
  /** Parts that a later attempt at the same steps has replaced. */
  earlier: Part[];
  count: number;
  notFinite: number;
  first: Point | null;
  last: Point | null;
  least: Point | null;
}

export interface Point {
  step: number;
  value: number | null;
}

/** How many parts a curve has at most, where there is room. */
export const MOST_PARTS = 4096;

/** Takes in a series value by value. */
export class Series {
  private parts: Part[] = [];
  private earlier: Part[] = [];
  /** Number of values in a full part. */
  private share = 1;
  private count = 0;
  private notFinite = 0;
  private first: Point | null = null;
  private last: Point | null = null;
  private least: Point | null = null;

  constructor(
    readonly name: string,
    private readonly mostParts: number = MOST_PARTS,
  ) {}

  /** Takes in the value at a step, null where it was not finite; a step that is not new begins another attempt. */
  add(step: number, value: number | null): void {
    if (this.last !== null && step <= this.last.step) this.restart(step - 1);
    this.count++;
    const point = { step, value };
    this.first ??= point;
    this.last = point;
    if (value === null) this.notFinite++;
    else if (this.least === null || value < this.least.value!) this.least = point;
    const open = this.parts.at(-1);
    const part = { from: step, to: step, least: value, greatest: value, last: value, sum: value ?? 0, finite: value === null ? 0 : 1, count: 1 };
    if (open && open.count < this.share) joinInto(open, part);
    else this.parts.push(part);
    if (this.parts.length > this.mostParts) this.halve();
  }

  /** Moves what lies after a step to the earlier attempts: it is done again. */
  restart(step: number): void {
    const keep = this.parts.findIndex((part) => part.from > step);
    if (keep < 0) return;
    this.earlier.push(...this.parts.splice(keep));
    if (this.earlier.length > this.mostParts) this.earlier = paired(this.earlier);
    this.last = null;
  }

  curve(): Curve {
    const { name, parts, earlier, count, notFinite, first, last, least } = this;
    return { name, parts, earlier, count, notFinite, first, last, least };
  }

  private halve(): void {
    this.parts = paired(this.parts);
    this.share *= 2;
  }
}

function paired(parts: readonly Part[]): Part[] {
  const made: Part[] = [];
  for (let i = 0; i < parts.length; i += 2) {
    const part = { ...parts[i]! };
    if (parts[i + 1]) joinInto(part, parts[i + 1]!);
    made.push(part);
  }
  return made;
}

function joinInto(part: Part, next: Part): void {
  part.to = next.to;
  part.least = part.least === null || (next.least !== null && next.least < part.least) ? (next.least ?? part.least) : part.least;
  part.greatest = part.greatest === null || (next.greatest !== null && next.greatest > part.greatest) ? (next.greatest ?? part.greatest) : part.greatest;
  part.last = next.last ?? part.last;
  part.sum += next.sum;
  part.finite += next.finite;
  part.count += next.count;
}
