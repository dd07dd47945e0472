//! Compares the files of a bundle with its seal, SHA256SUMS: see spec/rules/seal-broken.md.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::check::bundle::content;
use crate::check::collect::{Collector, Extra, Place};
use crate::escape::shortened;
use crate::messages;
use crate::reader::stream_names;
use crate::tables::Rule;

const SEAL: &str = "SHA256SUMS";
const SHOWN_DIGITS: usize = 12;
const DIGITS: usize = 64;

/// Reads a file, and computes the digest of what was read.
pub(crate) struct Hashed {
    file: File,
    hash: Sha256,
    size: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.size += count as u64;
        Ok(count)
    }
}

impl Hashed {
    pub fn new(file: File) -> Hashed {
        Hashed { file, hash: Sha256::new(), size: 0 }
    }

    fn finish(self) -> FileDigest {
        let digits = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        FileDigest { digits, size: self.size }
    }
}

/// The digest of a file.
struct FileDigest {
    digits: String,
    size: u64,
}

/// Why a file has no digest.
enum Unusable {
    Missing,
    Outside,
    Irregular,
    Unreadable(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unusable::Missing,
            _ if is_irregular(&error) => Unusable::Irregular,
            _ => Unusable::Unreadable(error),
        }
    }
}

/// The seal of the bundle that a stream is in.
pub(crate) struct Seal {
    directory: PathBuf,
    name: OsString,
    limit: usize,
}

/// One line of a seal: the digest, and the path as it is written.
struct Line {
    digits: String,
    name: Vec<u8>,
}

impl Seal {
    /// Returns the seal beside the stream at a path; None if it is not in a sealed bundle.
    pub fn beside(stream: &Path, limit: usize) -> Option<Seal> {
        let name = stream.file_name()?.to_os_string();
        stream_names().find(|known| name == known.as_str())?;
        let directory = stream.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        directory.join(SEAL).symlink_metadata().ok()?;
        Some(Seal { directory: directory.to_path_buf(), name, limit })
    }

    /// Reports what differs from the seal.
    pub fn check(&self, stream: Hashed, found: &mut Collector) {
        let data = match content(&self.directory.join(SEAL), self.limit) {
            Ok(data) => data,
            Err(cause) => return report(found, Place::line(1, 0), messages::sidecar_unreadable(SEAL, &cause)),
        };
        let mut lines =
            Lines { seal: self, own: vec![bytes_of(&self.name)], stream: stream.finish(), first: HashMap::new() };
        let mut offset = 0;
        for (line, number) in data.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            match line.strip_suffix(b"\n").map(|text| (text, parse(text))) {
                Some((_, Some(sealed))) => {
                    if let Some(message) = lines.broken(&sealed, number) {
                        report(found, Place::line(number, offset), message);
                    }
                }
                Some((text, None)) => {
                    report(found, Place { line: number, offset, byte: 0, data: text }, messages::SEAL_LINE.to_string());
                }
                None => {
                    report(
                        found,
                        Place { line: number, offset, byte: 0, data: line },
                        messages::SEAL_CUT_OFF.to_string(),
                    );
                }
            }
            offset += line.len() as u64;
        }
        if !lines.first.contains_key(&lines.own) {
            let name = shortened(&self.name.to_string_lossy());
            report(found, Place::line(1, 0), messages::seal_without_stream(&name));
        }
    }

    /// Returns the digest of a file by its path from the bundle; None leaves the bundle, and is not opened.
    fn digest(&self, parts: Option<&[Vec<u8>]>) -> Result<FileDigest, Unusable> {
        let parts = parts.ok_or(Unusable::Outside)?;
        let root = fs::canonicalize(&self.directory)?;
        let mut path = root.clone();
        for part in parts {
            path.push(path_of(part).ok_or(Unusable::Outside)?);
        }
        let path = fs::canonicalize(path)?;
        if !path.starts_with(&root) {
            return Err(Unusable::Outside);
        }
        let file = open(&path)?;
        if !file.metadata()?.is_file() {
            return Err(Unusable::Irregular);
        }
        let mut hashed = Hashed::new(file);
        let mut block = vec![0; 1 << 18];
        while hashed.read(&mut block)? > 0 {}
        Ok(hashed.finish())
    }
}

/// The lines of a seal so far.
struct Lines<'s> {
    seal: &'s Seal,
    /// The path of the stream.
    own: Vec<Vec<u8>>,
    /// The digest of the stream.
    stream: FileDigest,
    /// The first line of each path.
    first: HashMap<Vec<Vec<u8>>, u64>,
}

impl Lines<'_> {
    /// Returns what is wrong with the file that a line names.
    fn broken(&mut self, sealed: &Line, number: u64) -> Option<String> {
        let name = shortened(&String::from_utf8_lossy(&sealed.name));
        let parts = parts(&sealed.name);
        if let Some(parts) = &parts {
            let first = *self.first.entry(parts.clone()).or_insert(number);
            if first != number {
                return Some(messages::sealed_twice(&name, first));
            }
        }
        if parts.as_ref() == Some(&self.own) {
            return difference(&self.stream, sealed, &name);
        }
        match self.seal.digest(parts.as_deref()) {
            Ok(now) => difference(&now, sealed, &name),
            Err(Unusable::Missing) => Some(messages::sealed_missing(&name)),
            Err(Unusable::Outside) => Some(messages::sealed_outside(&name)),
            Err(Unusable::Irregular) => Some(messages::sealed_irregular(&name)),
            Err(Unusable::Unreadable(error)) => Some(messages::sealed_unreadable(&name, crate::cause_of(&error))),
        }
    }
}

fn difference(now: &FileDigest, sealed: &Line, name: &str) -> Option<String> {
    // A bit may have flipped in the seal itself: as many digits are shown as tell the two apart.
    let same = now.digits.bytes().zip(sealed.digits.bytes()).position(|(one, other)| one != other)?;
    let shown = SHOWN_DIGITS.max(same + 1);
    Some(messages::sealed_changed(name, &now.digits[..shown], &sealed.digits[..shown], now.size))
}

/// Returns what a line without its LF says; None if it is not a line of sha256sum.
fn parse(line: &[u8]) -> Option<Line> {
    let (text, has_escapes) = line.strip_prefix(b"\\").map_or((line, false), |text| (text, true));
    let (digits, rest) = text.split_at_checked(DIGITS)?;
    let name = rest.strip_prefix(b"  ").or(rest.strip_prefix(b" *"))?;
    let is_digest = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_digest || name.is_empty() || name.contains(&0) {
        return None;
    }
    let name = if has_escapes { unescaped(name)? } else { name.to_vec() };
    Some(Line { digits: String::from_utf8_lossy(digits).into_owned(), name })
}

fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match (byte, byte == &b'\\') {
            (_, false) => *byte,
            _ => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
        });
    }
    Some(plain)
}

/// Returns the parts of a path that count; None if it leaves the bundle by itself.
fn parts(name: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parts = || name.split(|byte| *byte == b'/');
    if name.starts_with(b"/") || parts().any(|part| part == b"..") {
        return None;
    }
    Some(parts().filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect())
}

fn report(found: &mut Collector, place: Place, message: String) {
    found.add_full(Rule::SealBroken, place, "", || message, Extra { sidecar: Some(SEAL), ..Extra::default() });
}

#[cfg(unix)]
fn path_of(part: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(part)))
}

#[cfg(not(unix))]
fn path_of(part: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(part).ok()?;
    (!text.contains([':', '\\'])).then(|| PathBuf::from(text))
}

#[cfg(unix)]
fn bytes_of(name: &std::ffi::OsStr) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec()
}

#[cfg(not(unix))]
fn bytes_of(name: &std::ffi::OsStr) -> Vec<u8> {
    name.to_string_lossy().into_owned().into_bytes()
}

/// Opens a file that is not a link, without waiting for the other end of a pipe.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use nix::fcntl::OFlag;
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns whether an error means links in a circle, or a socket.
#[cfg(unix)]
fn is_irregular(error: &io::Error) -> bool {
    use nix::errno::Errno;
    error.raw_os_error().is_some_and(|number| matches!(Errno::from_raw(number), Errno::ELOOP | Errno::ENXIO))
}

#[cfg(not(unix))]
fn is_irregular(_: &io::Error) -> bool {
    false
}
