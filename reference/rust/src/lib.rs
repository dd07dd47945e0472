//! Reads, writes, checks and follows training logs of the profiles toy/v1, metrics/v1 and kaun/v1.
//!
//! ```no_run
//! let mut run = toyspec::Writer::open("runs/llama-001", toyspec::Exist::Replace)?;
//! run.write(&serde_json::json!({"kind": "run_start", "schema": "toy/v1", "run_id": "llama-001"}))?;
//! run.write(&serde_json::json!({"kind": "step", "step": 1, "loss": 2.5}))?;
//! for record in toyspec::Reader::open("runs/llama-001", toyspec::Options::default())? {
//!     println!("{}", record?.kind.unwrap_or_default());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempts;
mod bundle_files;
mod canonical;
mod check;
mod column_parts;
mod columns;
mod composer;
mod dates;
mod digests;
mod ends;
mod escape;
mod follower;
mod layouts;
mod lines;
mod live_file;
mod locks;
mod looks;
#[rustfmt::skip]
mod messages;
mod nearest;
mod numbers;
mod phrases;
mod profile;
mod reader;
mod record;
mod record_numbers;
mod scanner;
mod schema;
mod source;
mod stream_file;
#[rustfmt::skip]
mod tables;
mod line_validation;
mod tape;
#[cfg(test)]
mod test_random;
mod unescape;
mod value;
mod views;
mod walk;
mod writer;

pub use attempts::Attempts;
pub use bundle_files::{rank_file, ranks};
pub use canonical::{encode, Refused};
pub use check::{
    cause_of, check_file, check_source, find_streams, no_stream, CheckOptions, Excerpt, FileReport, Finding, Found,
    StreamChecker, LARGE_BYTES,
};
pub use column_parts::step_columns_on;
pub use columns::{Column, Columns, Piece, Rows};
pub use composer::{check_run_id, Composer};
pub use digests::{Digest, DigestReader, Extremes, Numbers, Part};
pub use ends::{Ends, EndsReader};
pub use escape::printable;
pub use follower::{Event, Followed, Follower};
pub use numbers::{binary32_text, binary64_text};
pub use profile::Profile;
pub use reader::{Error, Gap, Mode, Options, Reader, Record, Report, State};
pub use schema::{NumberPlace, Severity};
pub use source::{open_regular, Source};
pub use tables::{Rule, MAX_DEPTH, MAX_LINE_BYTES, RULES};
pub use value::{Map, Number, Value};
pub use views::{KaunViews, MetricsViews, Point, RankViews, Summary, TagViews, ToyViews, Views, Whole};
pub use walk::{Walk, Walked};
pub use writer::{End, Exist, WriteError, Writer};
