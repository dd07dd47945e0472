/** Takes curves apart that come as frames: see "GET api/curve" in ../PROTOCOL.md. */

import { joined } from "../../typescript/src/lines.js";
import type { Axis, CurveHeader, Frame, Sent } from "./protocol.js";

const PREFIX = 8;
const DECODER = new TextDecoder();
/** No honest server sends more in one frame. */
const LONGEST = 1 << 30;

/** A frame whose header is anything. */
export interface AnyFrame {
  header: unknown;
  columns: Uint8Array;
}

/** Puts frames together from pieces of any size. */
export class FrameReader {
  #rest = new Uint8Array(0);

  /** Takes more bytes; returns the frames that are whole now. */
  feed(bytes: Uint8Array): AnyFrame[] {
    const data = this.#rest.length === 0 ? bytes : joined([this.#rest, bytes]);
    const found: AnyFrame[] = [];
    let at = 0;
    while (data.length - at >= PREFIX) {
      const view = new DataView(data.buffer, data.byteOffset + at, PREFIX);
      const [header, columns] = [view.getUint32(0, true), view.getUint32(4, true)];
      if (header > LONGEST || columns > LONGEST) throw new Error("the answer is not a sequence of frames");
      if (data.length - at < PREFIX + header + columns) break;
      const start = at + PREFIX;
      const text = DECODER.decode(data.subarray(start, start + header));
      // Views of numbers begin at a multiple of 8: of another place they need a copy.
      const own = data.subarray(start + header, start + header + columns);
      found.push({ header: JSON.parse(text) as unknown, columns: own.byteOffset % 8 === 0 ? own : own.slice() });
      at = start + header + columns;
    }
    this.#rest = data.slice(at);
    return found;
  }

  /** Throws if the last frame is cut off. */
  finish(): void {
    if (this.#rest.length > 0) throw new Error("the answer ends within a frame");
  }
}

/** A curve by one axis, ready to be drawn; all arrays have one item for each bucket. */
export interface Curve {
  header: CurveHeader;
  axis: Axis;
  length: number;
  /** Places of the last points. */
  place: Float64Array;
  min: Float64Array;
  max: Float64Array;
  mean: Float64Array;
  /** Points, finite or not. */
  count: Float64Array;
  /** Points that are not finite. */
  nan: Float64Array;
  /** The steps of the points, where the places are those of a metric that counts them. */
  steps?: Float64Array;
}

/** Returns the curve of a frame by an axis; null if the frame has no places on it. */
export function curveOf(frame: Frame, axis: Axis): Curve | null {
  const { header } = frame;
  const length = header.buckets;
  const columns = columnsOf(frame);
  const place = columns.get(axis);
  const mean = columns.get("mean");
  if (!place || !mean) return null;
  const { level, tail = level, nan } = header;
  return {
    header, axis, length, place, min: columns.get("min") ?? mean, max: columns.get("max") ?? mean, mean,
    count: columns.get("count") ?? even([level, 0, tail], length), nan: nan ? spread(nan, length) : even([0, 0, 0], length),
  };
}

const SHARED = new Map<string, Float64Array>();
/** More columns that curves share are not remembered. */
const MOST_SHARED = 200;

/** Returns a column without bytes, which curves share, since most have the same places: nothing may write into it. */
function even([first, difference, last]: Exclude<Sent, string>, length: number): Float64Array {
  const key = `${first} ${difference} ${last} ${length}`;
  let found = SHARED.get(key);
  if (!found) {
    if (SHARED.size >= MOST_SHARED) SHARED.clear();
    found = new Float64Array(length).map((_, at) => first + at * difference);
    if (length > 0) found[length - 1] = last;
    SHARED.set(key, found);
  }
  return found;
}

function spread(pairs: NonNullable<CurveHeader["nan"]>, length: number): Float64Array {
  const found = new Float64Array(length);
  for (const [bucket, values] of pairs) found[bucket] = values;
  return found;
}

/** The run of a curve that is a mean. */
export const MEAN = "\0mean";

export interface Columns {
  places: Float64Array;
  mean: Float64Array;
  low: Float64Array;
  high: Float64Array;
  count: Float64Array;
}

/** Returns the curve of a mean, with its range at each place, by the axis of one of its curves. */
export function curveOfColumns({ header, axis }: Curve, { places, mean, low, high, count }: Columns): Curve {
  const { length } = places;
  // A level above 1 has the band drawn.
  const own = { ...header, run: MEAN, level: 2, buckets: length, range: { [axis]: [places[0]!, places.at(-1)!] as [number, number] }, gaps: [], resumes: [], alerts: [], best: null };
  return { header: own, axis, length, place: places, min: low, max: high, mean, count, nan: new Float64Array(length) };
}

function columnsOf({ header: { buckets, columns }, columns: bytes }: Frame): Map<string, Float64Array> {
  const found = new Map<string, Float64Array>();
  let at = 0;
  for (const [name, sent] of Object.entries(columns)) {
    if (typeof sent !== "string") {
      found.set(name, even(sent, buckets));
      continue;
    }
    const type = sent === "f8" ? Float64Array : Float32Array;
    const end = at + buckets * type.BYTES_PER_ELEMENT;
    if (end > bytes.length) throw new Error("a column is cut off");
    const column = new type(bytes.buffer as ArrayBuffer, bytes.byteOffset + at, buckets);
    found.set(name, column instanceof Float64Array ? column : new Float64Array(column));
    at = Math.ceil(end / 8) * 8;
  }
  return found;
}

/** Returns a frame of columns in binary64; the test back end and the reader of dropped folders make them. */
export function frameOf(header: Omit<CurveHeader, "columns">, values: { [column: string]: Float64Array }): Frame {
  const nan = values["nan"] && [...values["nan"].entries()].filter(([, number]) => number > 0);
  const kept = Object.entries(values).filter(([name]) => name !== "nan");
  const columns = Object.fromEntries(kept.map(([name]) => [name, "f8" as const]));
  return { header: { ...header, columns, ...(nan && nan.length > 0 && { nan }) }, columns: together(kept.map(([, column]) => column)) };
}

function together(columns: readonly Float64Array[]): Uint8Array {
  const all = new Uint8Array(columns.reduce((total, column) => total + column.byteLength, 0));
  let at = 0;
  for (const column of columns) {
    all.set(new Uint8Array(column.buffer, column.byteOffset, column.byteLength), at);
    at += column.byteLength;
  }
  return all;
}

/** Returns a frame as bytes. */
export function packed({ header, columns }: AnyFrame): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const head = Math.ceil(text.length / 8) * 8;
  const frame = new Uint8Array(PREFIX + head + columns.length).fill(0x20, PREFIX, PREFIX + head);
  new DataView(frame.buffer).setUint32(0, head, true);
  new DataView(frame.buffer).setUint32(4, columns.length, true);
  frame.set(text, PREFIX);
  frame.set(columns, PREFIX + head);
  return frame;
}

/** Returns the curve of some buckets of another one, with its header. */
export function picked(curve: Curve, kept: readonly number[]): Curve {
  const only = (name: "place" | "min" | "max" | "mean" | "count" | "nan") => Float64Array.from(kept, (at) => curve[name][at]!);
  return { ...curve, length: kept.length, place: only("place"), min: only("min"), max: only("max"), mean: only("mean"), count: only("count"), nan: only("nan") };
}

/** Returns the index of the first of ascending places that is not below *value*; their number if all are. */
export function firstAt(places: Float64Array, value: number): number {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
