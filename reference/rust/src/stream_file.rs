//! The file of a stream that is being written, and the files beside it: see spec/writing.md.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::locks::{lock, unlock, Lock};
use crate::WriteError;

/// So often a stream is opened again that others move away meanwhile.
const MAX_ATTEMPTS: usize = 100;

/// A regular file that is open for appending, and locked.
#[derive(Debug)]
pub(crate) struct StreamFile {
    file: File,
    pub path: PathBuf,
    /// The process that opened it.
    process: u32,
}

/// Why a line was not appended.
pub(crate) struct Failure {
    pub error: io::Error,
    /// Nothing of it is in the file.
    pub undone: bool,
}

impl Failure {
    /// Returns whether a later line may fit.
    pub fn can_pass(&self) -> bool {
        self.undone && can_pass(&self.error)
    }
}

impl StreamFile {
    /// Opens and locks the file at a path; None where there is none.
    pub fn open(path: &Path) -> Result<Option<StreamFile>, WriteError> {
        for _ in 0..MAX_ATTEMPTS {
            let file = match options().open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(open_failed(path, error)),
                Ok(file) => file,
            };
            let file = StreamFile::held(file, path)?;
            // Another writer may have moved the file away before it was locked.
            if file.is_at_path() {
                return Ok(Some(file));
            }
        }
        Err(WriteError::Locked(path.to_path_buf()))
    }

    /// Makes and locks the file at a path where there is none.
    pub fn create(path: &Path) -> Result<StreamFile, WriteError> {
        match options().create_new(true).open(path) {
            Ok(file) => StreamFile::held(file, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(WriteError::Exists(path.to_path_buf())),
            Err(error) => Err(WriteError::Io(path.to_path_buf(), error)),
        }
    }

    fn held(file: File, path: &Path) -> Result<StreamFile, WriteError> {
        let failed = |error| WriteError::Io(path.to_path_buf(), error);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(WriteError::NotAFile(path.to_path_buf()));
        }
        match lock(&file).map_err(failed)? {
            Lock::Held => Err(WriteError::Locked(path.to_path_buf())),
            Lock::Taken => Ok(StreamFile { file, path: path.to_path_buf(), process: std::process::id() }),
        }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|data| data.len())
    }

    /// Returns the bytes from the start, to be read through the same descriptor: closing another one would release
    /// some kinds of locks.
    pub fn content(&mut self) -> io::Result<&mut File> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(&mut self.file)
    }

    /// Returns whether the path names this file.
    pub fn is_at_path(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(own), Ok(named)) => is_same(&own, &named),
            _ => false,
        }
    }

    /// Returns whether this process opened the file.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Appends a whole line in one write, or takes back what was written of it.
    pub fn append(&mut self, line: &[u8]) -> Result<(), Failure> {
        let mut written = 0;
        let mut result = self.demand_room(line.len());
        while result.is_ok() && written < line.len() {
            match self.file.write(&line[written..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
        }
        result.map_err(|error| Failure { error, undone: written == 0 || self.take_back(written as u64).is_ok() })
    }

    /// Cuts off the last `count` bytes that were written, if the file still ends with them.
    fn take_back(&mut self, count: u64) -> io::Result<()> {
        let end = self.file.stream_position()?;
        match self.len()?.cmp(&end) {
            std::cmp::Ordering::Equal => self.file.set_len(end - count),
            // Another process has emptied the file: nothing of the line is there.
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Greater => Err(io::Error::other("another process writes the file")),
        }
    }

    /// Fails where the process may not write so large a file: its write would end it by a signal.
    #[cfg(unix)]
    fn demand_room(&self, count: usize) -> io::Result<()> {
        use nix::sys::resource::{getrlimit, Resource, RLIM_INFINITY};
        let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(RLIM_INFINITY, |(soft, _)| soft);
        if limit != RLIM_INFINITY && self.len()? + count as u64 > limit {
            return Err(io::Error::from_raw_os_error(nix::libc::EFBIG));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn demand_room(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    /// Brings the file and its name to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        sync_directory(&self.path)
    }

    /// Keeps the bytes from `committed` on in a file beside the stream and cuts the stream there; returns the file.
    pub fn move_fragment(&mut self, committed: u64) -> io::Result<PathBuf> {
        self.file.seek(SeekFrom::Start(committed))?;
        let (side_file, mut copy) = create_free(|number| side_name(&self.path, committed, number))?;
        let kept = io::copy(&mut self.file, &mut copy)
            .and_then(|_| copy.sync_all())
            .and_then(|()| sync_directory(&side_file))
            .and_then(|()| self.file.set_len(committed));
        if let Err(error) = kept {
            // The fragment is in the stream still.
            let _ = fs::remove_file(&side_file);
            return Err(error);
        }
        Ok(side_file)
    }

    /// Puts a fragment back that `move_fragment` has kept; where that fails, it stays beside the stream.
    pub fn put_back(&mut self, side_file: &Path) {
        let fragment = fs::read(side_file).unwrap_or_default();
        if !fragment.is_empty() && self.append(&fragment).is_ok() {
            let _ = fs::remove_file(side_file);
        }
    }

    /// Removes the file, which this writer has made, unless it has records or another one is at its path.
    pub fn remove(self) {
        if self.len().is_ok_and(|size| size == 0) && self.is_at_path() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Moves the file to the name of an earlier log, and one that has that name already to another; returns what was
    /// moved where.
    pub fn move_to_previous(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let mut moves = Vec::new();
        let previous = with_suffix(&self.path, ".prev");
        if previous.symlink_metadata().is_ok() {
            let names = (1_u64..).map(|number| with_suffix(&self.path, &format!(".prev-{number}")));
            let free = names.into_iter().find(|name| name.symlink_metadata().is_err()).unwrap_or_default();
            fs::rename(&previous, &free)?;
            moves.push((previous.clone(), free));
        }
        match fs::rename(&self.path, &previous) {
            Ok(()) => moves.push((self.path.clone(), previous)),
            Err(error) => {
                move_back(&moves);
                return Err(error);
            }
        }
        Ok(moves)
    }

    /// Copies everything of another file that is open into this one, which is new.
    pub fn copy_from(&mut self, other: &mut StreamFile) -> io::Result<u64> {
        let copied = io::copy(other.content()?, &mut self.file).and_then(|size| self.sync().map(|()| size));
        if copied.is_err() {
            self.file.set_len(0)?;
        }
        copied
    }
}

/// A forked process does not release the locks: they are its parent's.
impl Drop for StreamFile {
    fn drop(&mut self) {
        if self.is_own() {
            unlock(&self.file);
        }
    }
}

/// Undoes moves, the last first.
pub(crate) fn move_back(moves: &[(PathBuf, PathBuf)]) {
    for (from, to) in moves.iter().rev() {
        if from.symlink_metadata().is_err() {
            let _ = fs::rename(to, from);
        }
    }
}

/// Makes the first file of some names that is not there.
fn create_free(name: impl Fn(u64) -> PathBuf) -> io::Result<(PathBuf, File)> {
    for number in 1.. {
        let path = name(number);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn side_name(stream: &Path, offset: u64, number: u64) -> PathBuf {
    let count = if number == 1 { String::new() } else { format!("-{number}") };
    with_suffix(stream, &format!(".torn-{offset}{count}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns whether a later write may succeed: a full disk, a quota and a limit of size can pass.
pub(crate) fn can_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, Interrupted, QuotaExceeded, StorageFull, WouldBlock};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | Interrupted | WouldBlock)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe would block until someone reads it.
        options.custom_flags(nix::libc::O_NONBLOCK);
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // Others may read, rename and delete; no other may write.
        options.share_mode(1 | 4).access_mode(0x8000_0000 | 0x4000_0000);
    }
    options
}

fn open_failed(path: &Path, error: io::Error) -> WriteError {
    const SHARING_VIOLATION: i32 = 32;
    if cfg!(windows) && error.raw_os_error() == Some(SHARING_VIOLATION) {
        return WriteError::Locked(path.to_path_buf());
    }
    if error.kind() == io::ErrorKind::IsADirectory || is_special(path) {
        return WriteError::NotAFile(path.to_path_buf());
    }
    WriteError::Io(path.to_path_buf(), error)
}

/// Returns whether something other than a regular file is at a path: a socket cannot even be opened.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.is_file())
}

/// Makes the directory of a stream.
pub(crate) fn create_parent(path: &Path) -> Result<(), WriteError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| WriteError::Io(parent.to_path_buf(), error))
}

/// Brings the name of a file to the disk, where the system can do so. Some file systems cannot sync directories.
fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(parent).and_then(|directory| directory.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Without inodes, a file that is open cannot be replaced.
#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}
