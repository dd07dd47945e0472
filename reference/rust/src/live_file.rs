//! Reads on in a file that others write, rotate, cut and replace, and knows when its content is no longer the same.
//!
//! Identity is the open descriptor, since inodes are used again, and a fingerprint of the content, since a file can be
//! cut and grow again between two looks: its first line, what was committed last, and what was read last.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::source::open_regular;

const FINGERPRINT_BYTES: usize = 4096;

/// What became of the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Same,
    /// Only bytes after the last committed line were taken back or changed.
    UncommittedChanged,
    /// The file is shorter than what was committed.
    Truncated,
    /// The file has other bytes where it was read.
    Replaced,
}

/// A regular file that is open at one position.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub path: PathBuf,
    file: File,
    /// Byte offset of the next byte, from 0.
    pub position: u64,
    /// Byte offset after the last LF that was read.
    committed: u64,
    first_line: Vec<u8>,
    last_committed: Vec<u8>,
    uncommitted: Vec<u8>,
    fragment_start: Vec<u8>,
}

impl LiveFile {
    /// Opens a file; None where there is none, or none that is regular.
    pub fn open(path: &Path) -> io::Result<Option<LiveFile>> {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        match open_regular(path) {
            Ok(None) => Err(io::Error::other("it is not a regular file")),
            Ok(Some(file)) => Ok(Some(LiveFile {
                path: path.to_path_buf(),
                file,
                position: 0,
                committed: 0,
                first_line: Vec::new(),
                last_committed: Vec::new(),
                uncommitted: Vec::new(),
                fragment_start: Vec::new(),
            })),
            Err(error) if missing.contains(&error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Goes back to the first byte, as if nothing had been read.
    pub fn restart(&mut self) {
        self.position = 0;
        self.committed = 0;
        self.first_line.clear();
        self.last_committed.clear();
        self.uncommitted.clear();
        self.fragment_start.clear();
    }

    /// Returns at most `size` bytes from the position; none at the end of the file.
    pub fn peek(&mut self, size: usize) -> io::Result<Vec<u8>> {
        read_at(&mut self.file, self.position, size)
    }

    /// Moves past `data`, which are bytes from the position.
    pub fn take(&mut self, data: &[u8]) {
        if self.committed == 0 && self.first_line.len() < FINGERPRINT_BYTES {
            let end = memchr::memchr(b'\n', data).map_or(data.len(), |at| at + 1);
            let room = FINGERPRINT_BYTES - self.first_line.len();
            self.first_line.extend_from_slice(&data[..end.min(room)]);
        }
        let end = memchr::memrchr(b'\n', data).map_or(0, |at| at + 1);
        if end > 0 {
            let pending = std::mem::take(&mut self.uncommitted);
            keep_last(&mut self.last_committed, &[&pending, &data[..end]]);
            self.committed = self.position + end as u64;
            self.fragment_start.clear();
        }
        let room = FINGERPRINT_BYTES - self.fragment_start.len();
        self.fragment_start.extend_from_slice(&data[end..data.len().min(end + room)]);
        keep_last(&mut self.uncommitted, &[&data[end..]]);
        self.position += data.len() as u64;
    }

    /// Goes back to the end of the last committed line.
    pub fn drop_uncommitted(&mut self) {
        if self.committed == 0 {
            self.restart();
        }
        self.position = self.committed;
        self.uncommitted.clear();
        self.fragment_start.clear();
    }

    /// Compares the file with what was read of it.
    pub fn content(&mut self) -> io::Result<Content> {
        if self.committed > 0 {
            if self.file.metadata()?.len() < self.committed {
                return Ok(Content::Truncated);
            }
            let last = self.committed - self.last_committed.len() as u64;
            if read_at(&mut self.file, 0, self.first_line.len())? != self.first_line
                || read_at(&mut self.file, last, self.last_committed.len())? != self.last_committed
            {
                return Ok(Content::Replaced);
            }
        }
        Ok(if self.has_fragment()? { Content::Same } else { Content::UncommittedChanged })
    }

    /// Returns whether the file has what was read after the last committed line.
    pub fn has_fragment(&mut self) -> io::Result<bool> {
        // A record that is written in place of a cut one may have the same bytes where that ended.
        let end = self.position - self.uncommitted.len() as u64;
        Ok(read_at(&mut self.file, end, self.uncommitted.len())? == self.uncommitted
            && read_at(&mut self.file, self.committed, self.fragment_start.len())? == self.fragment_start)
    }

    pub fn status(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Returns whether `status`, that of the path now, is of this file.
    pub fn is_at_path(&self, status: &Metadata) -> io::Result<bool> {
        Ok(is_same(&self.status()?, status))
    }

    /// Returns whether some path still names the file.
    pub fn has_name(&self) -> io::Result<bool> {
        Ok(has_name(&self.status()?))
    }

    /// Opens the path again if it still names this file: a network file system shows what others wrote when a file is
    /// opened.
    pub fn reopen(&mut self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        if is_same(&self.status()?, &file.metadata()?) {
            self.file = file;
        }
        Ok(())
    }
}

fn keep_last(held: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        held.extend_from_slice(&piece[piece.len().saturating_sub(FINGERPRINT_BYTES)..]);
    }
    held.drain(..held.len().saturating_sub(FINGERPRINT_BYTES));
}

fn read_at(file: &mut File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(size);
    file.seek(SeekFrom::Start(offset))?;
    file.take(size as u64).read_to_end(&mut data)?;
    Ok(data)
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(unix)]
fn has_name(status: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    status.nlink() > 0
}

/// Without inodes, the time of creation distinguishes files.
#[cfg(not(unix))]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    one.created().ok() == other.created().ok()
}

#[cfg(not(unix))]
fn has_name(_: &Metadata) -> bool {
    true
}
