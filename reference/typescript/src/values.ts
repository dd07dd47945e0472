/** Values that a writer is given, in which no number is lost. */

/** A number whose type the writer states; plain numbers are binary64, bigints are integers. */
export class Binary32 {
  constructor(readonly value: number) {}
}

/**
 * A value of a record. A `number` is written as an integer in integer fields and, where the schema does not say, when it
 * is a safe integer; `Float` says that it is none.
 */
export type Value = null | boolean | string | number | bigint | Float | Binary32 | Value[] | { [key: string]: Value };

/** A binary64 number also where its value is whole: in open maps it is written with a point. */
export class Float {
  constructor(readonly value: number) {}
}
