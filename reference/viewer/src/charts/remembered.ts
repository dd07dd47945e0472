/** A value that is made again only where what it is made of has changed. */
export class Remembered<Value> {
  private parts: readonly unknown[] | null = null;
  private value: Value | undefined;

  /** Returns the value of *parts*, which *make* makes of them; the one of the last time where all of them are the same. */
  of(parts: readonly unknown[], make: () => Value): Value {
    const known = this.parts;
    if (known === null || known.length !== parts.length || parts.some((part, at) => part !== known[at])) {
      this.value = make();
      this.parts = parts;
    }
    return this.value as Value;
  }
}
