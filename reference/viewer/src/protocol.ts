/** What the viewer asks of whoever has the runs. See ../PROTOCOL.md, which says what each member means. */

/** Of a run that is `unread` only the id, the name and the size are known. */
export type State = "running" | "complete" | "torn" | "damaged" | "unread";
export type Severity = "error" | "warning" | "info";
export type Goal = "min" | "max" | null;
export type Axis = "step" | "time" | "epoch" | "tokens";
export type Scalar = string | number | boolean | null;
export type Json = Scalar | Json[] | { [key: string]: Json };

/** The facts about one metric of one run; numbers that are not finite are null. */
export interface MetricFacts {
  last: number | null;
  best: number | null;
  goal: Goal;
  count: number;
  nan: number;
  /** True where a value that is not finite came after `last`. */
  last_not_finite?: true;
  /** True where there are several values, all finite and the same. */
  constant?: true;
  /** The metric that counts the steps of this one, where the run defines it. */
  step_name?: string;
}

/** One run in the list. */
export interface Run {
  id: string;
  run_id: string | null;
  /** The name of the root that has it, where several are shown. */
  root?: string;
  name: string;
  group: string | null;
  tags: string[];
  notes: string | null;
  /** Whether an annotation marks the run, and whether one leaves it out of lists. */
  starred: boolean;
  hidden: boolean;
  /** What the run itself says where an annotation says otherwise. */
  said?: { name?: string; group?: string | null; tags?: string[]; notes?: string | null };
  state: State;
  profile: string | null;
  dialect: string | null;
  /** RFC 3339. */
  started_at: string | null;
  seconds: number | null;
  first_step: number | null;
  last_step: number | null;
  records: number | null;
  /** What the run says at its end, else its last loss. */
  final_loss: number | null;
  /** True where the loss at the end is not finite. */
  loss_not_finite?: true;
  /** The ranks from 1 on that have a log. */
  other_ranks?: number[];
  /** Number of processes of the latest attempt; absent where the run does not say it. */
  world_size?: number;
  /** Those whose log is damaged, or torn and of the latest attempt, and which it is; `state` is that of rank 0. */
  unended_ranks?: [number, "torn" | "damaged"][];
  /** Whether the run says that it ended; unknown where its format has no end. */
  ended: "yes" | "no" | "unknown";
  /** How it ended. */
  reason: string | null;
  /** What went wrong. */
  error: string | null;
  sealed: boolean;
  /** From 0 to 1. */
  progress: number | null;
  /** Seconds that the planned steps still take. */
  remaining: number | null;
  bytes: number;
  /** Null while nothing has checked the run. */
  findings: { [severity in Severity]: number } | null;
  /** Incidents that health rules find, and those that have not ended; absent or null where they are not counted. */
  alerts?: number | null;
  open_alerts?: number | null;
  config: { [key: string]: Scalar };
  metrics: { [name: string]: MetricFacts };
  /** Counts of what is not listed. */
  left_out: { metrics: number; config: number };
  /** Why the run could not be read. */
  message: string | null;
}

export interface Listing {
  revision: string;
  /** False where only what changed since another revision is listed. */
  complete: boolean;
  root: string;
  version: string;
  runs: Run[];
  removed?: string[];
  /** Why some of the runs may be missing: a root that cannot be searched. */
  problems?: string[];
}

export interface CurveRequest {
  metric: string;
  runs: readonly string[];
  axis: Axis;
  buckets: number;
  /** A range of the axis; undefined is the whole curve. */
  from?: number | undefined;
  to?: number | undefined;
}

export type Places = { [axis in Axis]?: number | null };

/** Binary64, binary32, or without bytes: the first number, the difference to the next one each time, and the last number, which may be another. */
export type Sent = "f8" | "f4" | readonly [first: number, difference: number, last: number];

export interface CurveHeader {
  run: string;
  metric: string;
  attempt: "latest" | "abandoned";
  axes: Axis[];
  revision: string;
  points: number;
  /** Points in a bucket. */
  level: number;
  buckets: number;
  range: { [axis in Axis]?: [number, number] };
  /** How each column is sent, in the order of the bytes. */
  columns: { [name: string]: Sent };
  /** The buckets with values that are not finite, and how many. */
  nan?: [bucket: number, values: number][];
  /** Points in the last bucket, where they are not as many as in the others. */
  tail?: number;
  /** Without an offset where the stream is compressed, as alerts: no line can be looked up there. */
  gaps?: (Places & { line: number; offset?: number; length: number })[];
  resumes?: (Places & { line: number })[];
  /** Those about this metric, and those about none. */
  alerts?: (Places & { line: number; offset?: number; length?: number; rule?: string; level?: string })[];
  best?: (Places & { value: number }) | null;
  /** Points without a place on the axis. */
  unplaced?: number;
  /** Why there is no curve. */
  message?: string;
}

/** A place on every axis: that of the record of the line, or what the stream has given last before it. */
export interface AxisPlace {
  step: number | null;
  t: number | null;
  epoch: number | null;
  tokens: number | null;
}

export interface Finding extends AxisPlace {
  rule: string;
  severity: Severity;
  file: string;
  line: number;
  /** Null in a compressed stream. */
  offset: number | null;
  pointer: string;
  message: string;
  help: string;
}

interface Placed {
  t: number | null;
  step: number | null;
  line: number;
}

export interface Evaluation extends Placed {
  name: string;
  loss?: number | null;
  ppl?: number | null;
  samples?: number | null;
  extra?: { [name: string]: Json };
  /** What the nulls were, by name. */
  nonfinite?: { [name: string]: string };
}

export interface Sample extends Placed {
  prompt: string;
  text: string;
  id?: string;
  group?: string;
  messages?: { role?: Json; content?: Json }[];
  reward?: number | null;
  rewards?: { [name: string]: number | null };
  advantage?: number | null;
  tokens?: number;
  truncated?: boolean;
}

/** A text that a run logged by name. */
export interface NamedText extends Placed {
  name: string;
  text: Json;
}

export interface Note extends AxisPlace {
  text: string;
  line: number;
  topic?: string;
  by?: { kind?: string; name?: string };
}

/** A picture, a sound, a film, a table or another file that a run shows at a step. */
export interface Media extends Placed {
  name: string;
  media_type: string;
  sha256: string;
  index?: number;
  caption?: string;
  size_bytes?: number;
  width?: number;
  height?: number;
  seconds?: number | null;
}

/** What a rule reported while the run was written. */
export interface Alert extends Placed {
  rule: string;
  level: string;
  text: string;
  metric?: string;
  value?: number | null;
  threshold?: number;
  rank?: number;
}

/** A file elsewhere. */
export interface Reference extends Placed {
  uri: string;
  role?: string;
  size_bytes?: number;
  sha256?: string;
}

export interface Comparison extends Placed {
  baseline_run_id: string;
  verdict: string;
  loss_delta?: number | null;
  ppl_ratio?: number | null;
}

export interface Artifact extends Placed {
  path: string;
  role?: string | null;
  size_bytes?: number | null;
  sha256?: string | null;
  media_type?: string | null;
}

export interface Histogram extends Placed {
  min?: number | null;
  max?: number | null;
  mean?: number | null;
  l2?: number | null;
  nan_count?: number | null;
  /** Counts in bins of equal width that span min to max. */
  histogram?: number[];
  /** Of the kind `histogram`: rising edges of bins of any width, one more than counts. */
  edges?: number[];
  counts?: number[];
}

export interface HistogramSeries {
  kind: "tap" | "grad" | "histogram";
  name: string;
  records: Histogram[];
}

export interface OpTiming extends Placed {
  /** Microseconds by kind of operation. */
  buckets: { [name: string]: number };
  compute_us?: number | null;
}

export interface Region {
  region: string;
  from: number;
  /** Null while it is open. */
  to: number | null;
  depth: number;
}

/** One run whole. */
export interface Detail {
  id: string;
  row: Run;
  metadata: { [key: string]: Json };
  end: { [key: string]: Json } | null;
  config: Json;
  metrics: { [name: string]: MetricFacts & { unit?: string | null; description?: string | null } };
  account: { records: number; committed: number; fragment: number; gap_bytes: number; size: number };
  findings: Finding[];
  gaps: { line: number; offset: number; length: number; reason: string }[];
  resumes: { t: number | null; from_step: number | null; reason?: string | null; line: number }[];
  evaluations: Evaluation[];
  samples: Sample[];
  notes: Note[];
  comparisons: Comparison[];
  artifacts: Artifact[];
  media?: Media[];
  alerts?: Alert[];
  references?: Reference[];
  texts?: NamedText[];
  histograms: HistogramSeries[];
  op_timings: OpTiming[];
  regions: Region[];
  files: { path: string; bytes: number }[];
  /** What the log lacks by its own notes: values by name, and records by kind. */
  missing?: { left_out: { [name: string]: number }; dropped: { [kind: string]: number } };
  /** What health rules find in the stream. */
  incidents?: { alerts: number; open_alerts: number };
  /** What the import that made the run changed and dropped; null where none did. */
  imported?: { format: string; item: string; items: number; losses: { effect: "changed" | "dropped"; meaning: string; count: number }[] } | null;
  left_out: { [list: string]: number };
}

/** How far one process of a run came. */
export interface RankProgress {
  rank: number;
  /** The id of its curves: for rank 0 that of the run. */
  run: string;
  state: State;
  reason: string | null;
  error: string | null;
  first_step: number | null;
  last_step: number | null;
  /** Steps that it lacks to the rank that came furthest. */
  behind: number | null;
  /** Medians, in seconds: from one step to the next, and what it computes of that. */
  step_seconds: number | null;
  compute_seconds: number | null;
  /** From its last record to the last one of any rank. */
  silent_seconds: number | null;
}

/** The processes of one run. */
export interface Ranks {
  world_size: number | null;
  ranks: RankProgress[];
  /** Those without a log. */
  missing: number[];
  /** Logs that cannot be read. */
  errors: string[];
  first_to_stop: { rank: number; why: string } | null;
  slowest: { rank: number; factor: number; by: string } | null;
  /** Metrics that rank 0 does not have. */
  metrics_elsewhere: string[];
}

/** What a page says where nothing answers it. */
export const SERVER_IS_GONE = "The server does not answer: is `toyspec view` still running? What is shown may be old. Trying again every second.";

export type Change = { run: string; bytes: number } | { row: string } | { added: string } | { removed: string } | { root: string } | { reached: boolean; /** What the server says where it answers and refuses. */ refused?: string };

/** The header of the first frame of a report. */
export interface ReportHeader {
  report: 1;
  written: string;
  listing: Listing;
  details: { [id: string]: Detail };
  /** Those of runs of several processes, by the ids of the runs. */
  ranks?: { [id: string]: Ranks };
  /** Small media files as Base64, by their hashes. */
  media?: { [sha256: string]: string };
}

/** A frame of a curve as it was sent; `unpacked` of frames.ts makes columns of it. */
export interface Frame {
  header: CurveHeader;
  /** Begins at a multiple of 8 bytes. */
  columns: Uint8Array;
}

/** Whoever has the runs. Every promise rejects with an Error whose message can be shown. */
/** The first step at which two runs differ in a metric. */
export interface Parting {
  metric: string;
  step: number;
}

export interface Backend {
  /** What the page shows as the place of the runs. */
  readonly kind: "served" | "embedded" | "folder";
  /** Asks for all runs, or for those that changed since a revision. */
  runs(since?: string): Promise<Listing>;
  /** Gives each frame to *take* when it arrives; resolves after the last one. */
  curves(request: CurveRequest, take: (frame: Frame) => void, signal: AbortSignal): Promise<void>;
  detail(run: string): Promise<Detail>;
  /** Null where only one process of the run has a log. */
  ranks(run: string): Promise<Ranks | null>;
  /** The earliest first; null where that is not known. */
  partings(a: string, b: string): Promise<Parting[] | null>;
  /** Gives a part of a file of a run, by an empty path of its stream. */
  bytes(run: string, path: string, offset: number, length: number): Promise<Uint8Array>;
  /** Returns the address of a media file; null where it is not at hand. */
  mediaAddress(run: string, media: Pick<Media, "sha256" | "media_type">): string | null;
  mediaBytes(run: string, media: Pick<Media, "sha256" | "media_type">): Promise<Uint8Array>;
  /** Calls *take* at every change until the function that it returns is called. */
  changes(take: (change: Change) => void): () => void;
}
