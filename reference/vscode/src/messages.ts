/** What the extension and the page of a panel send to each other. */

/** The runs of a panel: a folder with everything in it, or a log of its own. */
export interface Shown {
  type: "shown";
  root: string;
  isFolder: boolean;
  /** Path of every file in the panel, from the root; a file of media is named and not sent. */
  paths: string[];
  /** What was not sent, each with the reason. */
  leftOut: string[];
}

/** Bytes of a file from an offset on; those after them are no longer there. */
export interface Piece {
  type: "piece";
  path: string;
  from: number;
  bytes: Uint8Array;
}

export type ToPage = Shown | Piece;

export type FromPage = { type: "ready" };
