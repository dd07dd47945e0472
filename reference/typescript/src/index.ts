/** Reads, writes and checks training logs in JSON Lines; runs in Node and in browsers. */

export { encode, RefusedError } from "./canonical.js";
export { check, type CheckOptions, type Excerpt, type FileReport, type Finding, type Sidecar, StreamChecker, type Watch } from "./checker.js";
export { isDateTime } from "./date-times.js";
export { binary32Text, binary64Text } from "./numbers.js";
export { knownLook, type Look } from "./looks.js";
export { detectProfile, fallbackProfile } from "./profiles.js";
export {
  type Gap, type Mode, read, readAsync, type ReadOptions, Record, type Report, type State, StreamError,
} from "./reader.js";
export { Sequence } from "./sequence.js";
export { type KaunSummary, type MetricsSummary, type Point, type RankSummary, summarize, type Summary, type TagSummary, type ToySummary } from "./views.js";
export { LIMITS, type ProfileName, RULES, type Severity } from "./tables.js";
export { Binary32, Float, type Value } from "./values.js";
