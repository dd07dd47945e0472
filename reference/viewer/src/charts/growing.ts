/** A picture of many curves, to which those that come are added: it is begun again only where what it depends on has changed or a curve is gone. */

import { lineOf, type Series } from "./plot.js";

export class Growing<Picture> {
  #parts: readonly unknown[] = [];
  private readonly known = new Map<Series["curve"], { line: Float64Array; shift: number }>();
  #picture: Picture | null = null;

  /** Returns the picture of *series*, which depends on *parts* too: *begin* makes an empty one, to which *add* adds curves. */
  of(parts: readonly unknown[], series: readonly Series[], { begin, add }: { begin(): Picture; add(picture: Picture, series: readonly Series[]): void }): Picture {
    const { known } = this;
    const others = series.filter((each) => {
      const drawn = known.get(each.curve);
      return drawn === undefined || drawn.shift !== each.shift || drawn.line !== lineOf(each);
    });
    const isSame = this.#picture !== null && parts.length === this.#parts.length && parts.every((part, at) => part === this.#parts[at]);
    const isLonger = series.length - others.length >= known.size && others.every(({ curve }) => !known.has(curve));
    const isNew = !isSame || !isLonger;
    if (isNew) known.clear();
    const picture = this.#picture === null || isNew ? begin() : this.#picture;
    const added = isNew ? series : others;
    if (added.length > 0) add(picture, added);
    for (const each of added) known.set(each.curve, { line: lineOf(each), shift: each.shift });
    this.#parts = parts;
    this.#picture = picture;
    return picture;
  }
}
