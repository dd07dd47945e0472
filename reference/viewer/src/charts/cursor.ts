/** What the pointer is at: all charts show it. */

export interface Cursor {
  /** The chart that the pointer is over. */
  metric: string;
  place: number;
  /** In pixels of the chart; null where a key moved the cursor. */
  pointer: { x: number; y: number } | null;
}

/** Tells charts and tables where the pointer is. */
export class Pointing {
  cursor: Cursor | null = null;
  /** Id of the highlighted run. */
  run: string | null = null;
  readonly #listeners = new Set<(isRunChanged: boolean) => void>();
  #frame = 0;
  private isRunChanged = false;

  listen(listener: (isRunChanged: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  move(cursor: Cursor | null): void {
    this.cursor = cursor;
    this.#tell();
  }

  hover(run: string | null): void {
    if (run === this.run) return;
    this.run = run;
    this.isRunChanged = true;
    this.#tell();
  }

  #tell(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const { isRunChanged } = this;
      this.isRunChanged = false;
      for (const listener of [...this.#listeners]) listener(isRunChanged);
    });
  }
}
