//! Finds the streams below a path: see spec/bundle.md.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bundle_files::rank_of;
use crate::reader::stream_names;

/// What is found at or below a path.
#[derive(Debug)]
pub enum Found {
    /// A stream to check.
    Stream(PathBuf),
    /// A directory that was named and has no stream in it or below.
    NoStream(PathBuf),
    /// A path that cannot be read.
    Failure(PathBuf, io::Error),
}

/// Returns the stream at a path, or every stream in the directory and below it, in the order of their names.
///
/// The streams of the other ranks of a run come after that of rank 0, in the order of their numbers.
///
/// Symbolic links to directories are followed only where they are named; below a directory only regular files are
/// streams. A directory that cannot be listed does not stop the rest.
pub fn find_streams(path: &Path) -> Vec<Found> {
    match fs::metadata(path) {
        Err(error) => return vec![Found::Failure(path.to_path_buf(), error)],
        Ok(data) if !data.is_dir() => return vec![Found::Stream(path.to_path_buf())],
        Ok(_) => {}
    }
    let mut found = Vec::new();
    let mut pending = vec![path.to_path_buf()];
    while let Some(directory) = pending.pop() {
        match listed(&directory) {
            Ok(entries) => {
                found.extend(streams_in(&entries).into_iter().map(checked));
                pending.extend(entries.into_iter().filter(|path| is_directory(path)).rev());
            }
            Err(error) => found.push(Found::Failure(directory, error)),
        }
    }
    if found.is_empty() {
        found.push(Found::NoStream(path.to_path_buf()));
    }
    found
}

fn listed(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns the stream of a path below the directory that was named; what is not a regular file is never opened.
fn checked(path: PathBuf) -> Found {
    match fs::metadata(&path) {
        Ok(data) if data.is_file() => Found::Stream(path),
        Ok(_) => Found::Failure(path, io::Error::other("not a regular file")),
        Err(error) => Found::Failure(path, error),
    }
}

/// Returns the streams among what is in a directory.
fn streams_in(entries: &[PathBuf]) -> Vec<PathBuf> {
    let mut streams = Vec::new();
    for path in entries.iter().filter(|path| is_stream(path)) {
        streams.push(path.clone());
        if rank_at(path) == Some(0) {
            streams.extend(other_ranks(entries));
        }
    }
    streams
}

/// Returns the streams of ranks from 1 on, in the order of their numbers.
fn other_ranks(entries: &[PathBuf]) -> Vec<PathBuf> {
    let ranks = entries.iter().filter_map(|path| Some((rank_at(path)?, path)));
    let mut others: Vec<(u64, &PathBuf)> = ranks.filter(|(rank, path)| *rank > 0 && path.is_file()).collect();
    others.sort();
    others.into_iter().map(|(_, path)| path.clone()).collect()
}

fn rank_at(path: &Path) -> Option<u64> {
    rank_of(&path.file_name()?.to_string_lossy())
}

fn is_stream(path: &Path) -> bool {
    stream_names().any(|name| path.file_name() == Some(name.as_ref())) && !path.is_dir()
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
}
