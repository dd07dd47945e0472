/** Numbers and their canonical text: see spec/encoding.md#numbers. */

/** Returns the binary64 value of a number as it is written. Digits are an integer first, which has no sign of zero. */
export function numberOf(text: string): number {
  return text === "-0" ? 0 : Number(text);
}

/** A number as it is written. */
interface Written {
  text: string;
  /** True where it is digits alone. */
  isInteger: boolean;
}

/** Returns whether a number is an integer by its value: digits are, others where their nearest binary64 number is. */
export function isWhole({ text, isInteger }: Written): boolean {
  return isInteger || Number.isInteger(Number(text));
}

/** Returns the value of a number that is whole. */
export function integerOf({ text, isInteger }: Written): bigint {
  return BigInt(isInteger ? text : Number(text));
}

/** Returns the shortest digits that read back to a finite binary64 number, in the layout of the specification. */
export function binary64Text(number: number): string {
  return layout(number, number.toExponential());
}

/** Returns the shortest digits that read back to the same binary32 number; the number is rounded to binary32 first. */
export function binary32Text(number: number): string {
  const narrow = Math.fround(number);
  const size = Math.abs(narrow);
  for (let digits = 1; digits < 9; digits++) {
    const near = even(size, size.toExponential(digits - 1), digits);
    // Near a power of two the right digits can be on the other side of the nearest.
    for (const text of [near, neighbour(near, 1), neighbour(near, -1)]) {
      if (readsBack(text, size)) return layout(narrow, (narrow < 0 || Object.is(narrow, -0) ? "-" : "") + text);
    }
  }
  return layout(narrow, narrow.toExponential(8));
}

/** Returns, of two texts that are equally close, the even one; JavaScript gives the larger. */
function even(size: number, near: string, digits: number): string {
  const longer = size.toExponential(digits);
  const isTie = longer.split("e")[0]!.endsWith("5") && Number(longer) === size;
  return isTie && /[13579](?=e)/.test(near) ? neighbour(near, -1) : near;
}

/** Returns whether decimal text, read as binary64 and then rounded, gives the binary32 number. */
function readsBack(text: string, narrow: number): boolean {
  return Math.fround(Number(text)) === narrow;
}

/** Adds a step to the last digit of d.ddde±x. */
function neighbour(text: string, step: number): string {
  const [mantissa, exponent] = text.split("e") as [string, string];
  const digits = BigInt(mantissa.replace(".", "")) + BigInt(step);
  const places = mantissa.replace(".", "").length - 1;
  return `${digits}e${Number(exponent) - places}`;
}

function layout(number: number, text: string): string {
  if (number === 0) return Object.is(number, -0) ? "-0.0" : "0.0";
  const sign = number < 0 ? "-" : "";
  const [mantissa, exponent] = text.replace("-", text.startsWith("-") ? "" : "-").split("e") as [string, string];
  const whole = mantissa.split(".")[0]!;
  const digits = mantissa.replace(".", "").replace(/0+$/, "");
  const point = Number(exponent) + whole.length;
  if (point > 16 || point <= -5) {
    return `${sign}${digits[0]}${digits.length > 1 ? "." : ""}${digits.slice(1)}e${point - 1}`;
  }
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits.padEnd(point, "0")}.0`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}
