//! Appends records to a stream: see spec/writing.md.

mod errors;
mod looking;
mod starting;

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::bundle_files::{digest, leaves, media_file, store_once, MEDIA_FOLDER};
use crate::canonical::Refused;
use crate::check::cause_of;
use crate::composer::Composer;
use crate::stream_file::StreamFile;
use crate::tables::MAX_LINE_BYTES;
use crate::{Map, Profile, Value};

pub use errors::{End, Exist, WriteError};
use starting::{Start, Undo};

/// Appends records to one stream, each with its LF in one write. Dropping it releases the stream; a run that has
/// not written `run_end` stays torn.
#[derive(Debug)]
pub struct Writer {
    file: Option<StreamFile>,
    start: Start,
    path: PathBuf,
    profile: Profile,
    composer: Composer,
    process: u32,
    opened: Instant,
    looked: Instant,
    /// The `t` of the stream when it was opened, in seconds.
    t_opened: f64,
    dropped: u64,
    /// The records that were dropped since the last one that was written, and why.
    outage: Option<(u64, String)>,
}

impl Writer {
    /// Opens a toy/v1 stream in a directory. Nothing changes on the disk before the first record is written.
    pub fn open(directory: impl AsRef<Path>, exist: Exist) -> Result<Writer, WriteError> {
        let path = directory.as_ref().join(Profile::Toy.file());
        match exist {
            Exist::Resume => Writer::reopen(path, Profile::Toy),
            Exist::Fail if path.symlink_metadata().is_ok() => Err(WriteError::Exists(path)),
            Exist::Fail => Ok(Writer::new(path, Profile::Toy, None)),
            Exist::Replace => {
                let old = StreamFile::open(&path)?;
                let is_empty = old.as_ref().is_some_and(|old| old.len().is_ok_and(|size| size == 0));
                let mut writer = Writer::new(path, Profile::Toy, old);
                if writer.file.is_some() && !is_empty {
                    writer.start = Start::Replace;
                }
                Ok(writer)
            }
        }
    }

    /// Opens a metrics/v1 or kaun/v1 stream and goes on at its end. Nothing changes on the disk before the first
    /// record is written. A toy/v1 stream holds one run, so it is refused: see [`Writer::open`].
    pub fn append(path: impl AsRef<Path>, profile: Profile) -> Result<Writer, WriteError> {
        let path = path.as_ref().to_path_buf();
        if profile == Profile::Toy {
            return Err(WriteError::Refused(path, Refused("a toy/v1 stream is not appended to".to_string())));
        }
        Writer::reopen(path, profile)
    }

    /// Writes a record: anything that serializes to an object. In toy/v1, its `t` is the seconds since the start
    /// unless it has one; in kaun/v1, the `wall_time` of a scalar is the current time unless it has one.
    pub fn write<T: serde::Serialize + ?Sized>(&mut self, record: &T) -> Result<(), WriteError> {
        let record = self.object(record)?;
        self.write_record(&record)
    }

    /// Writes a record of this crate's values, integers of any length included.
    pub fn write_record(&mut self, record: &Map) -> Result<(), WriteError> {
        let is_closed = self.file.is_none() && matches!(self.start, Start::Done);
        if is_closed || self.composer.is_ended() || self.process != std::process::id() {
            return Err(WriteError::Closed(self.path.clone()));
        }
        let (mut line, mut next) = self.compose(record)?;
        self.look()?;
        let undo = self.begin()?;
        if self.note_dropped() {
            (line, next) = self.compose(record)?;
        }
        self.append_line(&line, undo)?;
        self.composer = next;
        let kind = record.get("kind").and_then(Value::as_str);
        if self.profile == Profile::Toy && matches!(kind, Some("run_start" | "run_end")) {
            self.sync()?;
        }
        Ok(())
    }

    /// Writes a picture, a sound, a table or another file into the folder `media` of the bundle, and then the media
    /// record that names it. The record has `name` and `media_type`; its `sha256` follows from the content, and is
    /// refused if it is another one. Where the record is refused, neither is written.
    pub fn write_media<T: serde::Serialize + ?Sized>(&mut self, record: &T, content: &[u8]) -> Result<(), WriteError> {
        let record = self.object(record)?;
        self.write_media_record(&record, content)
    }

    /// Writes a file and its record of this crate's values, as [`Writer::write_media`] does.
    pub fn write_media_record(&mut self, record: &Map, content: &[u8]) -> Result<(), WriteError> {
        let refused = |writer: &Writer, fact: String| Err(writer.refused(Refused(fact)));
        let digest = digest(content);
        let mut named = record.clone();
        named.insert("kind", Value::String("media".to_string()));
        if let Some(given) = named.insert("sha256", Value::String(digest.clone())) {
            if given.as_str() != Some(&digest) {
                return refused(self, format!("the content has the sha256 {digest}, and not that of the record"));
            }
        }
        if self.profile != Profile::Toy {
            return refused(self, "only toy/v1 has media".to_string());
        }
        if self.composer.is_ended() || self.process != std::process::id() {
            return Err(WriteError::Closed(self.path.clone()));
        }
        self.compose(&named)?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let folder = directory.join(MEDIA_FOLDER);
        if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return refused(self, format!("{} must be a folder of the bundle, not a link or a file", folder.display()));
        }
        let media_type = named.get("media_type").and_then(Value::as_str).unwrap_or_default();
        let path = directory.join(media_file(&digest, media_type).unwrap_or_default());
        store_once(&path, content).map_err(|error| WriteError::Io(path, error))?;
        self.write_record(&named)
    }

    /// Returns how many records were lost to failures of the system.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes `run_end`, with the step and the loss of the last training step, and releases the stream.
    pub fn end(mut self, end: &End) -> Result<(), WriteError> {
        let text = |text: &str| Value::String(text.to_string());
        let mut record = Map::default();
        record.insert("kind", text("run_end"));
        let reason = match end {
            End::Completed => "completed",
            End::Interrupted => "interrupted",
            End::Aborted => "aborted",
            End::Errored(error) => {
                record.insert("error", text(error));
                "errored"
            }
        };
        record.insert("reason", text(reason));
        for (key, value) in self.composer.final_values() {
            record.insert(key, value);
        }
        self.write_record(&record)
    }

    fn new(path: PathBuf, profile: Profile, file: Option<StreamFile>) -> Writer {
        let now = Instant::now();
        Writer {
            start: if file.is_some() { Start::Done } else { Start::Create },
            file,
            path,
            profile,
            composer: Composer::new(profile),
            process: std::process::id(),
            opened: now,
            looked: now,
            t_opened: 0.0,
            dropped: 0,
            outage: None,
        }
    }

    fn object<T: serde::Serialize + ?Sized>(&self, record: &T) -> Result<Map, WriteError> {
        let value = serde_json::to_value(record).map_err(|error| self.refused(Refused(error.to_string())))?;
        match Value::from(value) {
            Value::Object(record) => Ok(record),
            _ => Err(self.refused(Refused("it is not an object".to_string()))),
        }
    }

    fn compose(&self, record: &Map) -> Result<(Vec<u8>, Composer), WriteError> {
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        if let (Profile::Toy, Some("artifact"), Some(path)) = (self.profile, text("kind"), text("path")) {
            if leaves(path) {
                let advice = "copy the file into it, or write a reference";
                return Err(self.refused(Refused(format!("the path {path:?} leaves the bundle: {advice}"))));
            }
        }
        self.composer.compose(record, self.now()).map_err(|refused| self.refused(refused))
    }

    /// Returns the time of a record: seconds since the Unix epoch in kaun/v1, else since the start of the run.
    fn now(&self) -> f64 {
        match self.profile {
            Profile::Kaun => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            _ => self.t_opened + self.opened.elapsed().as_secs_f64(),
        }
    }

    fn append_line(&mut self, line: &[u8], undo: Undo) -> Result<(), WriteError> {
        let Some(file) = self.file.as_mut() else { return Err(WriteError::Closed(self.path.clone())) };
        let Err(failure) = file.append(line) else {
            if matches!(undo, Undo::MoveBack(..)) {
                self.move_ranks();
            }
            return Ok(());
        };
        let (can_pass, cause) = (failure.can_pass(), cause_of(&failure.error));
        self.dropped += 1;
        match undo {
            Undo::Nothing => {
                let (count, _) = self.outage.take().unwrap_or_default();
                self.outage = Some((count + 1, cause));
            }
            start => self.undo(start),
        }
        if !can_pass {
            self.close();
        }
        Err(WriteError::Io(self.path.clone(), failure.error))
    }

    /// Writes how many records were dropped, once there is room; where that fails, it is tried with the next record.
    fn note_dropped(&mut self) -> bool {
        let (Some((count, cause)), Profile::Toy) = (&self.outage, self.profile) else { return false };
        let records = if *count == 1 { "1 record".to_string() } else { format!("{count} records") };
        let mut note = Map::default();
        note.insert("kind", Value::String("note".to_string()));
        note.insert("text", Value::String(format!("{records} dropped here: {cause}")));
        let composed = self.composer.compose(&note, self.now());
        let (Ok((line, next)), Some(file)) = (composed, &mut self.file) else { return false };
        if file.append(&line).is_err() {
            return false;
        }
        self.composer = next;
        self.outage = None;
        true
    }

    /// Brings what was written to the disk. After a sync that failed, another one proves nothing: the writer closes.
    fn sync(&mut self) -> Result<(), WriteError> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync().map_err(|error| {
            self.close();
            WriteError::Io(self.path.clone(), error)
        })
    }

    fn close(&mut self) {
        self.file = None;
        self.start = Start::Done;
    }

    fn refused(&self, refused: Refused) -> WriteError {
        WriteError::Refused(self.path.clone(), refused)
    }
}

const _: () = assert!(MAX_LINE_BYTES < u32::MAX as usize);
