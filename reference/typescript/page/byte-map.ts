/** What became of each byte of a stream, in few enough pieces to draw. */

/** Where committed bytes, gaps and the fragment lie. Always: committed + gapBytes + fragment = size. */
export interface ByteMap {
  size: number;
  committed: number;
  gapBytes: number;
  fragment: number;
  gaps: number;
  /** Stretches with gaps in them, in order; gaps that lie close together share one. */
  stretches: Stretch[];
}

export interface Stretch {
  from: number;
  to: number;
}

const RESOLUTION = 1000;

/** Takes note of the gaps of a stream of a size that is known. */
export class ByteCounter {
  private gaps = 0;
  private gapBytes = 0;
  private readonly stretches: Stretch[] = [];
  private end = 0;

  constructor(private readonly expected: number) {}

  gap(offset: number, length: number): void {
    this.gaps++;
    this.gapBytes += length;
    this.end = offset + length;
    const last = this.stretches.at(-1);
    if (last && offset - last.to <= this.expected / RESOLUTION) last.to = this.end;
    else this.stretches.push({ from: offset, to: this.end });
  }

  /** Returns the account of a stream of *size* bytes, *fragment* of them after the last LF. */
  map(size: number, fragment: number): ByteMap {
    const { gaps, gapBytes, stretches } = this;
    return { size, committed: size - fragment - gapBytes, gapBytes, fragment, gaps, stretches };
  }
}
