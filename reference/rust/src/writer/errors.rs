//! How a writer treats what is there, how a run ended, and why nothing was written.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::canonical::Refused;
use crate::check::cause_of;
use crate::State;

/// What a writer does with a stream that is there. A new stream is made by each of them, with its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exist {
    /// The old stream moves to `events.jsonl.prev`, and what is there already to `events.jsonl.prev-N`.
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
    /// The stream follows no format that is known here, or another one than the writer.
    Foreign(PathBuf, String),
    /// A directory, a pipe, a socket or a device is at the path.
    NotAFile(PathBuf),
    /// Another writer holds the stream.
    Locked(PathBuf),
    /// The writer is closed: by its caller, the run has ended, it has failed before, or this process was forked.
    Closed(PathBuf),
    /// The system failed. After a failure that can pass, such as a full disk, later records may fit; after any other
    /// the writer is closed.
    Io(PathBuf, io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            WriteError::Refused(path, refused) => write!(f, "{}: {refused}", path.display()),
            WriteError::Exists(path) => write!(f, "{}: the stream exists", path.display()),
            WriteError::State(path, state) => write!(f, "{}: the stream is {}", path.display(), state.name()),
            WriteError::Foreign(path, what) => write!(f, "{}: the stream was not changed: {what}", path.display()),
            WriteError::NotAFile(path) => write!(f, "{}: not a regular file", path.display()),
            WriteError::Locked(path) => write!(f, "{}: another writer holds the stream", path.display()),
            WriteError::Closed(path) => write!(f, "{}: the writer is closed", path.display()),
            WriteError::Io(path, error) => write!(f, "{}: {}", path.display(), cause_of(error)),
        }
    }
}

impl std::error::Error for WriteError {}
