//! Checks streams and bundles and gives findings as data: see spec/checking.md.

mod bundle;
mod collect;
mod containers;
mod discover;
mod fast;
#[cfg(test)]
mod fast_test;
mod fast_values;
mod foreign;
mod hits;
mod hot;
mod roles;
mod rules;
mod seal;
mod split;
#[cfg(test)]
mod split_test;
mod stream;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(crate) use fast::Fast;

pub use discover::{find_streams, Found};
pub use stream::StreamChecker;

use crate::reader::State;
use crate::schema::Severity;
use crate::source::Source;
use crate::tables::{Rule, MAX_LINE_BYTES};
use crate::Profile;

use collect::{Collector, Place};
use seal::{Hashed, Seal};
use split::Division;

/// How to check: which profile, which rules, which limit.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The profile to check by; None detects it from the first readable record.
    pub profile: Option<Profile>,
    /// Rules to report; empty means all.
    pub select: BTreeSet<Rule>,
    /// Rules not to report; wins over `select`.
    pub ignore: BTreeSet<Rule>,
    /// Longest line that is checked, in bytes without its LF.
    pub max_line_bytes: usize,
    /// Number of threads that check a large stream.
    pub threads: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let (select, ignore) = (BTreeSet::new(), BTreeSet::new());
        CheckOptions { profile: None, select, ignore, max_line_bytes: MAX_LINE_BYTES, threads: 1 }
    }
}

impl CheckOptions {
    fn reports(&self, rule: Rule) -> bool {
        !self.ignore.contains(&rule) && (self.select.is_empty() || self.select.contains(&rule))
    }
}

/// One problem, at its cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is broken.
    pub rule: Rule,
    /// How severe it is in the profile.
    pub severity: Severity,
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the place from the start of the stream, from 0.
    pub offset: u64,
    /// RFC 6901 JSON Pointer; "" is the whole line.
    pub pointer: String,
    /// The fact, with the value found; log text in it is inert.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// Name of the file beside the stream that the place is in.
    pub sidecar: Option<&'static str>,
    /// The place in the line, where it helps.
    pub excerpt: Option<Excerpt>,
}

/// A part of a log line around the place of a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// At most `EXCERPT_BYTES` bytes of the line, exactly as they are in the file.
    pub data: Vec<u8>,
    /// Offset of the data from the start of the line, in bytes from 0.
    pub start: usize,
    /// Offset of the finding's place from the start of the line, in bytes from 0.
    pub mark: usize,
}

/// The verdict on one stream.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The format that the stream was checked against; None where there is no stream, or it follows no known format.
    pub profile: Option<Profile>,
    /// What a stream that follows no known format looks like; None for all others.
    pub look: Option<String>,
    /// What the bytes show of its end; None where there is no stream.
    pub state: Option<State>,
    /// Whether no finding, listed or not, is an error.
    pub valid: bool,
    /// Number of readable records.
    pub records: u64,
    /// Size of the stream.
    pub bytes: u64,
    /// The first `MAX_FINDINGS_PER_RULE` findings of each rule, in the order of their lines.
    pub findings: Vec<Finding>,
    /// Number of further findings of each rule.
    pub suppressed: BTreeMap<&'static str, u64>,
}

const CHUNK_BYTES: usize = 1 << 18;
/// Several threads check a file from this size on; a smaller one takes one thread a few hundredths of a second.
pub const LARGE_BYTES: u64 = 1 << 25;

/// Returns the verdict on a stream from any source; `name` is the name of its file, if it has one.
pub fn check_source(mut source: impl Read, name: &str, options: CheckOptions) -> io::Result<FileReport> {
    let mut checker = StreamChecker::named(name, options);
    checker.read(&mut source, u64::MAX)?;
    Ok(checker.finish())
}

/// Returns the verdict on the stream at a path, and on the files beside it that belong to its bundle.
pub fn check_file(path: &Path, options: CheckOptions) -> io::Result<FileReport> {
    let checker = StreamChecker::at(path, options.clone());
    let threads = options.threads;
    let Some(seal) = Seal::beside(path, options.max_line_bytes).filter(|_| options.reports(Rule::SealBroken)) else {
        let file = File::open(path)?;
        let threads = threads_for(&file, threads);
        return check_all(Source::new(file), checker, threads);
    };
    let file = File::open(path)?;
    let threads = threads_for(&file, threads);
    let mut stream = Hashed::new(file);
    let mut report = check_all(Source::new(&mut stream), checker, threads)?;
    let mut found = Collector::new(options);
    seal.check(stream, &mut found);
    if found.has_error {
        // Damage can take the profile from a stream; a broken seal shows that it is a run.
        (report.valid, report.look) = (false, None);
    }
    report.findings.extend(found.take());
    report.suppressed.append(&mut found.suppressed);
    Ok(report)
}

/// Returns the verdict on a directory that was named and has no stream.
pub fn no_stream(options: CheckOptions) -> FileReport {
    let mut found = Collector::new(options);
    let message = || crate::messages::STREAM_MISSING.to_string();
    found.add(Rule::StreamMissing, Place::line(1, 0), "", message);
    let valid = !found.has_error;
    let findings = found.take();
    FileReport {
        profile: None,
        look: None,
        state: None,
        valid,
        records: 0,
        bytes: 0,
        findings,
        suppressed: BTreeMap::new(),
    }
}

fn check_all(mut source: impl Read + Send, mut checker: StreamChecker, threads: usize) -> io::Result<FileReport> {
    if threads > 1 {
        checker.read(&mut source, CHUNK_BYTES as u64)?;
        checker.read_on_threads(&mut source, threads, |_| true)?;
    } else {
        checker.read(&mut source, u64::MAX)?;
    }
    Ok(checker.finish())
}

/// Returns how many of the threads are worth starting for a file.
fn threads_for(file: &File, threads: usize) -> usize {
    let is_large = file.metadata().is_ok_and(|found| found.len() >= LARGE_BYTES);
    if is_large {
        threads
    } else {
        1
    }
}

impl StreamChecker {
    /// Checks what a source gives, up to so many bytes.
    fn read(&mut self, source: &mut impl Read, most: u64) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let end = self.size().saturating_add(most);
        while self.size() < end {
            match source.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => self.feed(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks what a source gives on threads of its own, as `feed` would. `goes_on` is given the number of bytes of each
    /// piece that is done; the work ends once it returns false.
    ///
    /// # Errors
    ///
    /// What reading the source gives.
    pub fn read_on_threads<R: Read + Send>(
        &mut self,
        source: &mut R,
        threads: usize,
        goes_on: impl FnMut(u64) -> bool,
    ) -> io::Result<()> {
        split::feed_rest(self, source, Division { workers: threads.max(1), block_bytes: CHUNK_BYTES }, goes_on)
    }
}

/// Returns why a system call failed, without the number of the error.
pub fn cause_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(cause, _)| cause.to_string())
}
