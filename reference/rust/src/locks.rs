//! The locks of a stream: see spec/writing.md.
//!
//! `flock` is seen by programs that take it too, a record lock by Java, by OCaml and by `lockf`. On Linux neither kind
//! sees the other, so that both are taken.

use std::fs::{File, TryLockError};
use std::io;

/// What came of taking a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// It is taken, or the system or the file system has none of this kind.
    Taken,
    /// Another writer holds the stream.
    Held,
}

/// Takes every lock that there is on a whole file, without waiting.
#[cfg(not(windows))]
pub(crate) fn lock(file: &File) -> io::Result<Lock> {
    let whole = match file.try_lock() {
        Ok(()) => Ok(Lock::Taken),
        Err(TryLockError::WouldBlock) => Ok(Lock::Held),
        Err(TryLockError::Error(error)) => of_error(error),
    };
    match whole? {
        Lock::Taken => records::lock(file),
        Lock::Held => Ok(Lock::Held),
    }
}

/// Opening has locked the file.
#[cfg(windows)]
pub(crate) fn lock(_: &File) -> io::Result<Lock> {
    Ok(Lock::Taken)
}

/// Releases the locks at once, also where a program that was just started holds the descriptor for a moment.
pub(crate) fn unlock(file: &File) {
    // Closing the file does the same where this fails.
    let _ = file.unlock();
    records::unlock(file);
}

/// Returns what an error means for a lock: only some errors mean that another writer holds it.
#[cfg(unix)]
fn of_error(error: io::Error) -> io::Result<Lock> {
    use nix::libc::{EACCES, EAGAIN, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP};
    match error.raw_os_error() {
        Some(EAGAIN | EACCES) => Ok(Lock::Held),
        Some(ENOLCK | EOPNOTSUPP | ENOSYS | EINVAL) => Ok(Lock::Taken),
        _ => Err(error),
    }
}

#[cfg(not(any(unix, windows)))]
fn of_error(_: io::Error) -> io::Result<Lock> {
    Ok(Lock::Taken)
}

/// Record locks, which other systems than Linux do not keep apart from `flock`.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod records {
    use std::fs::File;
    use std::io;

    use nix::fcntl::{fcntl, FcntlArg};
    use nix::libc::{self, EINVAL};

    use super::{of_error, Lock};

    pub fn lock(file: &File) -> io::Result<Lock> {
        match set(file, libc::F_WRLCK, true) {
            Err(error) if error.raw_os_error() == Some(EINVAL) => set(file, libc::F_WRLCK, false),
            done => done,
        }
        .map_or_else(of_error, |()| Ok(Lock::Taken))
    }

    pub fn unlock(file: &File) {
        let _ = set(file, libc::F_UNLCK, true);
    }

    /// Locks the whole file, for the open descriptor or, where the kernel is old, for the process.
    fn set(file: &File, kind: libc::c_int, of_descriptor: bool) -> io::Result<()> {
        let whence = libc::SEEK_SET as libc::c_short;
        let lock = libc::flock { l_type: kind as libc::c_short, l_whence: whence, l_start: 0, l_len: 0, l_pid: 0 };
        let argument = if of_descriptor { FcntlArg::F_OFD_SETLK(&lock) } else { FcntlArg::F_SETLK(&lock) };
        fcntl(file, argument).map(|_| ()).map_err(io::Error::from)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod records {
    use std::fs::File;
    use std::io;

    pub fn lock(_: &File) -> io::Result<super::Lock> {
        Ok(super::Lock::Taken)
    }

    pub fn unlock(_: &File) {}
}
