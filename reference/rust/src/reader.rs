//! Turns a stream of any bytes into records and a report: see spec/reading.md.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::line_validation::{LineValidator, Status};
use crate::lines::{is_blank, Line, Splitter};
use crate::looks::known_start;
use crate::profile::{detect, detect_without_record, Hints, COMPRESSED};
use crate::source::Source;
use crate::tables::{Rule, MAX_LINE_BYTES, MAX_LISTED_GAPS};
use crate::{Map, Profile, Value};

/// What reading does with a stream that is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Anything but a complete stream is an error.
    Strict,
    /// A torn end is reported, damage is an error.
    #[default]
    Tail,
    /// Reading stops at the first damage.
    Prefix,
    /// Unreadable lines are skipped.
    Salvage,
}

/// What the bytes of a stream show of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is missing.
    Complete,
    /// The end is missing.
    Torn,
    /// A committed line is unreadable.
    Damaged,
}

impl State {
    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            State::Complete => "complete",
            State::Torn => "torn",
            State::Damaged => "damaged",
        }
    }
}

/// One committed JSON object.
#[derive(Clone, Debug)]
pub struct Record {
    /// The format of the stream; None where it is none that is known here.
    pub profile: Option<Profile>,
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the line, from 0.
    pub offset: u64,
    /// The line without its LF, as it is in the stream.
    pub raw: Vec<u8>,
    /// What the record declares to be; None where it declares nothing.
    pub kind: Option<String>,
    /// The members; of a repeated key, the last value. Where the schema types an integer, it is one, however it is
    /// written in the line.
    pub value: Map,
}

impl Record {
    /// Returns the record as a type of the caller.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.raw)
    }
}

/// A run of bytes that gave no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first line, from 1.
    pub line: u64,
    /// Byte offset, from 0.
    pub offset: u64,
    /// Number of bytes, the LF included.
    pub length: u64,
    /// The id of the rule that the line breaks, or `stopped` for what was left unread.
    pub reason: &'static str,
}

/// Accounts for every byte of a stream: `committed + fragment + gap_bytes` is its size.
#[derive(Clone, Debug)]
pub struct Report {
    /// The format that the stream follows; None where it follows none that is known here.
    pub profile: Option<Profile>,
    /// What the bytes show of its end.
    pub state: State,
    /// Number of records.
    pub records: u64,
    /// Bytes of readable and blank lines, with their LFs.
    pub committed: u64,
    /// Bytes after the last LF.
    pub fragment: u64,
    /// The first `MAX_LISTED_GAPS` gaps, and what was left unread.
    pub gaps: Vec<Gap>,
    /// Bytes of all gaps.
    pub gap_bytes: u64,
}

/// How a stream is read; the default reads in mode tail.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do with a stream that is not complete.
    pub mode: Mode,
    /// The format; None detects it.
    pub profile: Option<Profile>,
    /// Name of the file, where the source is none; it shows the profile where the records do not.
    pub name: String,
    /// The longest line that is read, in bytes without its LF.
    pub max_line_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { mode: Mode::Tail, profile: None, name: String::new(), max_line_bytes: MAX_LINE_BYTES }
    }
}

/// Why reading failed.
#[derive(Debug)]
pub enum Error {
    /// The system refused.
    Io(PathBuf, io::Error),
    /// A directory holds no stream.
    Missing(PathBuf),
    /// The mode refuses the stream, at a gap.
    Gap(PathBuf, Gap),
    /// Mode strict refuses the stream, which is in this state.
    State(PathBuf, State),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Missing(path) => write!(f, "{}: neither events.jsonl nor metrics.jsonl in it", path.display()),
            Error::Gap(path, gap) => {
                write!(f, "{}:{}: {} at byte {}", path.display(), gap.line, gap.reason, gap.offset)
            }
            Error::State(path, state) => write!(f, "{}: the stream is {}", path.display(), state.name()),
        }
    }
}

impl std::error::Error for Error {}

const CHUNK_BYTES: usize = 1 << 16;

/// Gives the records of a stream in order. After the last one, or after an error, `report` accounts for every byte.
pub struct Reader<R> {
    source: R,
    path: PathBuf,
    mode: Mode,
    feed: Feed,
    chunk: Vec<u8>,
    at: usize,
    gaps: Vec<Gap>,
    gap_bytes: u64,
    blank_bytes: u64,
    record_bytes: u64,
    records: u64,
    last: Option<String>,
    is_done: bool,
}

impl Reader<Source<File>> {
    /// Opens the stream at a path, which may be the directory of a bundle; gzip data is decompressed.
    pub fn open(path: impl AsRef<Path>, mut options: Options) -> Result<Reader<Source<File>>, Error> {
        let path = locate(path.as_ref())?;
        let file = Source::open(&path).map_err(|error| Error::Io(path.clone(), error))?;
        options.name = path.to_string_lossy().into_owned();
        let hints = Hints::of_path(&path);
        Ok(Reader::with_hints(file, options, hints))
    }
}

impl<R: Read> Reader<R> {
    /// Reads a stream from any source.
    pub fn new(source: R, options: Options) -> Reader<R> {
        let hints = Hints::of_name(&options.name);
        Reader::with_hints(source, options, hints)
    }

    pub(crate) fn with_hints(source: R, options: Options, hints: Hints) -> Reader<R> {
        Reader {
            source,
            path: PathBuf::from(&options.name),
            mode: options.mode,
            feed: Feed::new(options.profile, hints, options.max_line_bytes),
            chunk: Vec::new(),
            at: 0,
            gaps: Vec::new(),
            gap_bytes: 0,
            blank_bytes: 0,
            record_bytes: 0,
            records: 0,
            last: None,
            is_done: false,
        }
    }

    /// Returns the account of what was read so far.
    pub fn report(&self) -> Report {
        Report {
            profile: self.feed.profile(),
            state: self.state(),
            records: self.records,
            committed: self.blank_bytes + self.record_bytes,
            fragment: self.feed.splitter.pending,
            gaps: self.gaps.clone(),
            gap_bytes: self.gap_bytes,
        }
    }

    fn state(&self) -> State {
        let last = self.feed.profile().and_then(|profile| profile.table().last);
        let is_unfinished = last.is_some() && self.last.as_deref() != last;
        if self.gap_bytes > 0 {
            State::Damaged
        } else if self.feed.splitter.pending > 0 || self.records == 0 || is_unfinished {
            State::Torn
        } else {
            State::Complete
        }
    }

    /// Returns the next record, or the end of the stream.
    fn advance(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if self.at == self.chunk.len() && !self.fill()? {
                let is_refused = self.mode == Mode::Strict && self.state() != State::Complete;
                return if is_refused { Err(Error::State(self.path.clone(), self.state())) } else { Ok(None) };
            }
            let before = self.feed.splitter.committed;
            let (taken, item) = self.feed.feed_one(&self.chunk[self.at..]);
            self.at += taken;
            let length = self.feed.splitter.committed - before;
            match item {
                Some(Item::Record(record)) => {
                    self.record_bytes += length;
                    self.records += 1;
                    self.last.clone_from(&record.kind);
                    return Ok(Some(record));
                }
                Some(Item::Gap(gap)) => {
                    self.add_gap(gap.clone());
                    if self.mode == Mode::Salvage {
                        continue;
                    }
                    self.leave_rest()?;
                    return if self.mode == Mode::Prefix { Ok(None) } else { Err(Error::Gap(self.path.clone(), gap)) };
                }
                Some(Item::Blank) => self.blank_bytes += length,
                None => {}
            }
        }
    }

    fn fill(&mut self) -> Result<bool, Error> {
        self.chunk.resize(CHUNK_BYTES, 0);
        self.at = 0;
        loop {
            match self.source.read(&mut self.chunk) {
                Ok(count) => {
                    self.chunk.truncate(count);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.chunk.clear();
                    return Err(Error::Io(self.path.clone(), error));
                }
            }
        }
    }

    /// Counts the bytes that are left as one gap. No record among them determines the profile.
    fn leave_rest(&mut self) -> Result<(), Error> {
        let (line, offset) = (self.feed.splitter.number, self.feed.splitter.committed);
        let mut length = (self.chunk.len() - self.at) as u64;
        while self.fill()? {
            length += self.chunk.len() as u64;
        }
        self.at = self.chunk.len();
        self.feed.splitter.drop_fragment();
        if length > 0 {
            self.add_gap(Gap { line, offset, length, reason: "stopped" });
        }
        Ok(())
    }

    fn add_gap(&mut self, gap: Gap) {
        self.gap_bytes += gap.length;
        if self.gaps.len() < MAX_LISTED_GAPS || gap.reason == "stopped" {
            self.gaps.push(gap);
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.advance().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Returns the stream that a path names, itself or in the directory that it is.
pub(crate) fn locate(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let mut names = stream_names().map(|name| path.join(name));
    let found = names.find(|stream| stream.symlink_metadata().is_ok());
    found.ok_or_else(|| Error::Missing(path.to_path_buf()))
}

/// Returns the names that a stream has in a bundle.
pub(crate) fn stream_names() -> impl Iterator<Item = String> {
    let plain = [Profile::Toy.file(), Profile::Metrics.file()];
    ["", COMPRESSED].into_iter().flat_map(move |end| plain.map(|name| format!("{name}{end}")))
}

/// What a committed line gives.
pub(crate) enum Item {
    Blank,
    Record(Record),
    Gap(Gap),
}

/// Turns bytes into records and gaps, in pieces of any size.
pub(crate) struct Feed {
    pub splitter: Splitter,
    /// The profile, once it is known; Some(None) is a stream that has none.
    decided: Option<Option<Profile>>,
    has_gap: bool,
    hints: Hints,
    validator: LineValidator,
    limit: usize,
}

impl Feed {
    pub fn new(profile: Option<Profile>, hints: Hints, limit: usize) -> Feed {
        let (splitter, validator) = (Splitter::new(limit), LineValidator::default());
        Feed { splitter, decided: profile.map(Some), has_gap: false, hints, validator, limit }
    }

    /// Returns the format of the stream as far as it is known now; None where it has none.
    pub fn profile(&self) -> Option<Profile> {
        let is_foreign = || self.has_gap || known_start(self.splitter.fragment_head()).is_some();
        self.decided.unwrap_or_else(|| detect_without_record(self.hints, is_foreign()))
    }

    /// Takes the bytes of `chunk` up to its first LF, and returns how many they are and what they give.
    pub fn feed_one(&mut self, chunk: &[u8]) -> (usize, Option<Item>) {
        let Feed { splitter, decided, has_gap, hints, validator, limit } = self;
        let found = splitter.feed_one(chunk, |line| item(line, decided, *hints, validator, *limit));
        *has_gap |= matches!(found, (_, Some(Item::Gap(_))));
        found
    }
}

fn item(
    line: Line,
    decided: &mut Option<Option<Profile>>,
    hints: Hints,
    validator: &mut LineValidator,
    limit: usize,
) -> Item {
    let status = match line.data {
        Some(data) if is_blank(data) => return Item::Blank,
        Some(data) => validator.validate(data, line.number == 1),
        None => validator.too_long(line.length, limit),
    };
    let text = line.data.unwrap_or_default();
    let Some(node) = validator.record(text) else {
        debug_assert_eq!(status, Status::Unreadable);
        let rule = validator.problems.listed.iter().find(|problem| problem.rule != Rule::DuplicateKey);
        let reason = rule.map_or("", |problem| problem.rule.id());
        return Item::Gap(Gap { line: line.number, offset: line.offset, length: line.length + 1, reason });
    };
    let profile = *decided.get_or_insert_with(|| detect(node, hints));
    let mut value = Map::of(node);
    if let Some(profile) = profile {
        profile.take_integers(&mut value);
    }
    let kind = profile.and_then(Profile::tag).and_then(|tag| value.get(tag)).and_then(Value::as_str).map(String::from);
    Item::Record(Record { profile, line: line.number, offset: line.offset, raw: text.to_vec(), kind, value })
}
