//! Appends records to a stream: see spec/writing.md.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::canonical::Refused;
use crate::composer::Composer;
use crate::reader::{Mode, Options, Reader};
use crate::tables::MAX_LINE_BYTES;
use crate::{Map, Profile, Record, State, Value};

/// What a writer does with a stream that is there. A new stream is made by each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exist {
    /// The old stream moves to `events.jsonl.prev`.
    Replace,
    /// The stream is refused.
    Fail,
    /// A torn stream goes on; its fragment is kept beside it.
    Resume,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The run reached its planned end.
    Completed,
    /// Its user stopped it.
    Interrupted,
    /// The run stopped itself by its own rules.
    Aborted,
    /// An error ended it, with this text.
    Errored(String),
}

/// Why nothing was written.
#[derive(Debug)]
pub enum WriteError {
    /// The record may not be written; others may.
    Refused(PathBuf, Refused),
    /// The stream exists.
    Exists(PathBuf),
    /// The stream is in a state in which nothing may be added.
    State(PathBuf, State),
    /// Another writer holds the stream.
    Locked(PathBuf),
    /// The writer is closed: it was told to, the run has ended, it has failed before, or this process was forked.
    Closed(PathBuf),
    /// The system failed. After a failure that cannot be undone, the writer is closed.
    Io(PathBuf, io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            WriteError::Refused(path, refused) => write!(f, "{}: {refused}", path.display()),
            WriteError::Exists(path) => write!(f, "{}: the stream exists", path.display()),
            WriteError::State(path, state) => write!(f, "{}: the stream is {}", path.display(), state.name()),
            WriteError::Locked(path) => write!(f, "{}: another writer holds the stream", path.display()),
            WriteError::Closed(path) => write!(f, "{}: the writer is closed", path.display()),
            WriteError::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for WriteError {}

/// Appends records to one stream, each with its LF in one write. Dropping it lets go of the stream; a run that has
/// not written `run_end` stays torn.
#[derive(Debug)]
pub struct Writer {
    file: Option<File>,
    path: PathBuf,
    profile: Profile,
    composer: Composer,
    committed: u64,
    process: u32,
    opened: Instant,
    /// The `t` of the stream when it was opened, in seconds.
    t_opened: f64,
}

impl Writer {
    /// Opens a toy/v1 stream in a directory, which is made.
    pub fn open(directory: impl AsRef<Path>, exist: Exist) -> Result<Writer, WriteError> {
        let path = directory.as_ref().join(Profile::Toy.file());
        create_parent(&path)?;
        match exist {
            Exist::Resume => Writer::take_over(path, Profile::Toy),
            Exist::Fail => Writer::create(path),
            Exist::Replace => {
                move_aside(&path)?;
                Writer::create(path)
            }
        }
    }

    /// Opens a metrics/v1 or kaun/v1 stream and goes on at its end.
    pub fn append(path: impl AsRef<Path>, profile: Profile) -> Result<Writer, WriteError> {
        let path = path.as_ref().to_path_buf();
        create_parent(&path)?;
        Writer::take_over(path, profile)
    }

    /// Writes a record: anything that serializes to an object. In toy/v1, its `t` is the seconds since the start
    /// unless it has one.
    pub fn write<T: serde::Serialize + ?Sized>(&mut self, record: &T) -> Result<(), WriteError> {
        let value = serde_json::to_value(record).map_err(|error| self.refused(Refused(error.to_string())))?;
        match Value::from(value) {
            Value::Object(record) => self.write_record(&record),
            _ => Err(self.refused(Refused("it is no object".to_string()))),
        }
    }

    /// Writes a record of this crate's values, integers of any length included.
    pub fn write_record(&mut self, record: &Map) -> Result<(), WriteError> {
        if self.composer.is_ended() || self.process != std::process::id() {
            return Err(WriteError::Closed(self.path.clone()));
        }
        let now = self.t_opened + self.opened.elapsed().as_secs_f64();
        let (line, next) = self.composer.compose(record, now).map_err(|refused| self.refused(refused))?;
        let Some(file) = self.file.as_mut() else { return Err(WriteError::Closed(self.path.clone())) };
        match append(file, &line, self.committed) {
            Ok(()) => {}
            Err(Failure { error, undone }) => {
                if !undone {
                    self.file = None;
                }
                return Err(WriteError::Io(self.path.clone(), error));
            }
        }
        self.committed += line.len() as u64;
        self.composer = next;
        let kind = record.get("kind").and_then(Value::as_str);
        if self.profile == Profile::Toy && matches!(kind, Some("run_start" | "run_end")) {
            self.sync()?;
        }
        Ok(())
    }

    /// Writes `run_end`, with the step and the loss of the last training step, and lets go of the stream.
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

    fn create(path: PathBuf) -> Result<Writer, WriteError> {
        match options().create_new(true).open(&path) {
            Ok(file) => Writer::hold(file, path, Profile::Toy),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(WriteError::Exists(path)),
            Err(error) => Err(WriteError::Io(path, error)),
        }
    }

    fn hold(file: File, path: PathBuf, profile: Profile) -> Result<Writer, WriteError> {
        lock(&file, &path)?;
        let (composer, process) = (Composer::new(profile), std::process::id());
        let opened = Instant::now();
        Ok(Writer { file: Some(file), path, profile, composer, committed: 0, process, opened, t_opened: 0.0 })
    }

    /// Opens a stream that someone else may have left, and brings it to a line end.
    fn take_over(path: PathBuf, profile: Profile) -> Result<Writer, WriteError> {
        let file = options().create(true).open(&path).map_err(|error| open_failed(&path, error))?;
        let mut writer = Writer::hold(file, path, profile)?;
        let report = writer.read_all()?;
        if report.state == State::Damaged || report.state == State::Complete && profile == Profile::Toy {
            return Err(WriteError::State(writer.path.clone(), report.state));
        }
        writer.composer.resume();
        writer.committed = report.committed;
        writer.t_opened = writer.composer.t();
        if report.fragment > 0 {
            writer.set_aside(report.fragment).map_err(|error| WriteError::Io(writer.path.clone(), error))?;
        }
        Ok(writer)
    }

    fn read_all(&mut self) -> Result<crate::Report, WriteError> {
        let Some(file) = &self.file else { return Err(WriteError::Closed(self.path.clone())) };
        let options = Options { mode: Mode::Salvage, profile: Some(self.profile), ..Options::default() };
        let mut reader = Reader::new(file, options);
        for record in &mut reader {
            let record: Record = record.map_err(|error| match error {
                crate::Error::Io(_, error) => WriteError::Io(self.path.clone(), error),
                _ => WriteError::State(self.path.clone(), State::Damaged),
            })?;
            self.composer.take(&record);
        }
        Ok(reader.report())
    }

    /// Keeps the fragment in a file beside the stream and cuts the stream after its last LF.
    fn set_aside(&mut self, length: u64) -> io::Result<()> {
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        file.seek(SeekFrom::Start(self.committed))?;
        let aside = free_name(&self.path, self.committed);
        let mut copy = OpenOptions::new().write(true).create_new(true).open(&aside)?;
        io::copy(&mut file.take(length), &mut copy)?;
        copy.sync_all()?;
        sync_directory(&aside)?;
        file.set_len(self.committed)
    }

    /// Brings what was written to the disk. After a sync that failed, another one proves nothing: the writer closes.
    fn sync(&mut self) -> Result<(), WriteError> {
        let Some(file) = &self.file else { return Ok(()) };
        let done = file.sync_all().and_then(|()| sync_directory(&self.path));
        done.map_err(|error| {
            self.file = None;
            WriteError::Io(self.path.clone(), error)
        })
    }

    fn refused(&self, refused: Refused) -> WriteError {
        WriteError::Refused(self.path.clone(), refused)
    }
}

/// Lets go of the lock at once, also where a program that was just started holds the descriptor for a moment. A forked
/// process does not: the lock is its parent's.
impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.process == std::process::id()) {
            // Closing the file does the same where this fails.
            let _ = file.unlock();
        }
    }
}

struct Failure {
    error: io::Error,
    undone: bool,
}

/// Appends a whole line, or takes back what was written of it.
fn append(file: &mut File, line: &[u8], committed: u64) -> Result<(), Failure> {
    let mut rest = line;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(take_back(file, io::ErrorKind::WriteZero.into(), rest.len() == line.len(), committed)),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(take_back(file, error, rest.len() == line.len(), committed)),
        }
    }
    Ok(())
}

fn take_back(file: &File, error: io::Error, is_untouched: bool, committed: u64) -> Failure {
    Failure { error, undone: is_untouched || file.set_len(committed).is_ok() }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // Others may read, rename and delete; no other may write.
        options.share_mode(1 | 4).access_mode(0x8000_0000 | 0x4000_0000);
    }
    options
}

#[cfg(not(windows))]
fn lock(file: &File, path: &Path) -> Result<(), WriteError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(fs::TryLockError::WouldBlock) => Err(WriteError::Locked(path.to_path_buf())),
        Err(fs::TryLockError::Error(error)) => Err(WriteError::Io(path.to_path_buf(), error)),
    }
}

/// Opening has locked it.
#[cfg(windows)]
fn lock(_: &File, _: &Path) -> Result<(), WriteError> {
    Ok(())
}

fn open_failed(path: &Path, error: io::Error) -> WriteError {
    const SHARING_VIOLATION: i32 = 32;
    if cfg!(windows) && error.raw_os_error() == Some(SHARING_VIOLATION) {
        return WriteError::Locked(path.to_path_buf());
    }
    WriteError::Io(path.to_path_buf(), error)
}

fn create_parent(path: &Path) -> Result<(), WriteError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| WriteError::Io(parent.to_path_buf(), error))
}

/// Renames a stream that no writer holds, if there is one.
fn move_aside(path: &Path) -> Result<(), WriteError> {
    let file = match options().open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(open_failed(path, error)),
        Ok(file) => file,
    };
    lock(&file, path)?;
    let mut previous = path.as_os_str().to_os_string();
    previous.push(".prev");
    let moved = fs::rename(path, previous).map_err(|error| WriteError::Io(path.to_path_buf(), error));
    // Closing the file does the same where this fails.
    let _ = file.unlock();
    moved
}

/// Returns a name for a fragment that no file has.
fn free_name(stream: &Path, offset: u64) -> PathBuf {
    let names = (1_u32..).map(|number| {
        let mut name = stream.as_os_str().to_os_string();
        name.push(format!(".torn-{offset}"));
        if number > 1 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    });
    names.into_iter().find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

/// Brings the name of a file to the disk, where the system can do so.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

const _: () = assert!(MAX_LINE_BYTES < u32::MAX as usize);
