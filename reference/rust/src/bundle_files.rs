//! The files of a run beside its stream, by their names: streams of other ranks, and media. See spec/ranks.md.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::tables::{MEDIA_EXTENSIONS, OTHER_MEDIA_EXTENSION};
use crate::Profile;

pub(crate) const MEDIA_FOLDER: &str = "media";

/// Returns the ranks from 1 on that have a stream in the directory of a run, in order.
pub fn ranks(directory: impl AsRef<Path>) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(rank_of(&name).filter(|rank| *rank > 0 && path.is_file()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the name of the stream of a rank, which [`Reader::open`](crate::Reader::open) reads in the directory of its run.
pub fn rank_file(rank: u64) -> String {
    match rank {
        0 => Profile::Toy.file().to_string(),
        _ => format!("events.rank-{rank}.jsonl"),
    }
}

/// Returns the rank whose stream a file name is; None for a name of another form.
pub(crate) fn rank_of(name: &str) -> Option<u64> {
    if name == Profile::Toy.file() {
        return Some(0);
    }
    let digits = name.strip_prefix("events.rank-")?.strip_suffix(".jsonl")?;
    let is_plain = (1..=9).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_plain && !digits.starts_with('0')).then(|| digits.parse().ok()).flatten()
}

/// Returns the path of a media file from the bundle; None unless the hash has 64 lower-case digits.
pub(crate) fn media_file(sha256: &str, media_type: &str) -> Option<String> {
    if sha256.len() != 64 || !sha256.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let name = media_type.split(';').next().unwrap_or_default().trim_matches([' ', '\t']).to_lowercase();
    let known = MEDIA_EXTENSIONS.iter().find(|(known, _)| *known == name);
    Some(format!("{MEDIA_FOLDER}/{sha256}.{}", known.map_or(OTHER_MEDIA_EXTENSION, |(_, extension)| extension)))
}

/// Returns whether a path is absolute or has the part `..`, on POSIX systems or on Windows.
pub(crate) fn leaves(path: &str) -> bool {
    let mut first = path.chars();
    let has_drive = first.next().is_some_and(|letter| letter.is_ascii_alphabetic()) && first.next() == Some(':');
    let is_separator = |letter: char| letter == '/' || letter == '\\';
    path.starts_with(is_separator) || has_drive || path.split(is_separator).any(|part| part == "..")
}

/// Returns the digest of a content, in lower-case digits.
pub(crate) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file that is named after its content: it is whole under its name, or not there.
pub(crate) fn store_once(path: &Path, content: &[u8]) -> io::Result<()> {
    let is_whole = |data: fs::Metadata| data.is_file() && data.len() == content.len() as u64;
    if path.symlink_metadata().is_ok_and(is_whole) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = PathBuf::from(format!("{}.{}.tmp", path.display(), std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
