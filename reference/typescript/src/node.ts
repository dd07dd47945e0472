/** Files: what needs Node. Writes streams and opens bundles. */

export { StreamRefusedError, StreamWriteError } from "./append-file.js";
export { type Bundle, openBundle, rankFile, ranksIn, readFile, summarizeDirectory } from "./bundles.js";
export { hasLocks } from "./locks.js";
export { type Exist, Writer, type WriterOptions } from "./writer.js";
