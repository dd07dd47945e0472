//! Finds the streams below a directory, with what says whether they have changed: see spec/bundle.md.

use std::collections::VecDeque;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::reader::stream_names;

/// Each checkpoint of Hugging Face's Trainer has the whole log until then.
const CHECKPOINT: &str = "checkpoint-";
const CHECKPOINTED: &str = "trainer_state.json";
const SEAL: &str = "SHA256SUMS";
/// Files of a run that are not streams.
const OF_A_BUNDLE: [&str; 3] = ["run.json", "flow.json", SEAL];

/// A file below a directory.
#[derive(Debug, PartialEq)]
pub struct Walked {
    /// Its path.
    pub path: PathBuf,
    /// Number of bytes.
    pub size: u64,
    /// A text that changes with the file and with those of its run beside it; empty where it is not known.
    pub identity: String,
    /// Whether its name alone says that it may be a log of another program.
    pub is_hinted: bool,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// Whether a seal is beside it.
    pub is_sealed: bool,
}

/// Goes through a directory and those below it, in the order of their names.
pub struct Walk {
    /// Patterns of names of files that are looked for in directories without a stream.
    hints: Vec<String>,
    /// The names that streams have.
    names: Vec<String>,
    /// Directories that are still to be listed, the next one last, and whether hints count there.
    pending: Vec<(PathBuf, bool)>,
    found: VecDeque<Result<Walked, (PathBuf, io::Error)>>,
}

struct Entry {
    name: String,
    entry: DirEntry,
    kind: FileType,
}

impl Walk {
    /// Returns a walk through the directory `root`. Of files without the name of a stream, it finds those that one of
    /// the patterns `hints` fits, in directories without a stream.
    pub fn new(root: &Path, hints: Vec<String>) -> Walk {
        Walk {
            hints,
            names: stream_names().collect(),
            pending: vec![(root.to_path_buf(), true)],
            found: VecDeque::new(),
        }
    }

    fn list(&mut self, directory: PathBuf, is_hinting: bool) {
        let entries = match entries_of(&directory) {
            Ok(entries) => entries,
            Err(error) => return self.found.push_back(Err((directory, error))),
        };
        let mut files: Vec<&Entry> =
            entries.iter().filter(|entry| self.names.contains(&entry.name) && entry.is_file()).collect();
        let is_hinted = files.is_empty();
        if is_hinted && is_hinting {
            let fits = |entry: &&Entry| self.hints.iter().any(|hint| fits(hint, &entry.name)) && entry.is_file();
            files = entries.iter().filter(fits).collect();
        }
        let bundle = |name: &&Entry| OF_A_BUNDLE.contains(&name.name.as_str());
        let beside: String =
            entries.iter().filter(bundle).map(|entry| format!(" {} {}", entry.name, entry.identity())).collect();
        let is_sealed = entries.iter().any(|entry| entry.name == SEAL);
        let has_log = files.iter().any(|file| file.name == CHECKPOINTED);
        self.found.extend(files.iter().map(|file| {
            let path = file.entry.path();
            let status = fs::metadata(&path).ok();
            Ok(Walked {
                size: status.as_ref().map_or(0, Metadata::len),
                identity: status.map_or(String::new(), |status| identity_of(&status) + &beside),
                path,
                is_hinted,
                is_link: file.kind.is_symlink(),
                is_sealed,
            })
        }));
        let last = entries.iter().filter(|entry| entry.kind.is_dir()).filter_map(|entry| step_of(&entry.name)).max();
        let is_older = |step: Option<u64>| step.is_some() && (has_log || step != last);
        let folders = entries.iter().rev().filter(|entry| entry.kind.is_dir());
        self.pending.extend(folders.map(|entry| (entry.entry.path(), is_hinting && !is_older(step_of(&entry.name)))));
    }
}

impl Iterator for Walk {
    type Item = Result<Walked, (PathBuf, io::Error)>;

    /// Returns the next file, or a directory that cannot be listed and why; such a one does not stop the rest.
    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let (directory, is_hinting) = self.pending.pop()?;
            self.list(directory, is_hinting);
        }
        self.found.pop_front()
    }
}

impl Entry {
    /// Returns whether this is a file or a link to one.
    fn is_file(&self) -> bool {
        self.kind.is_file()
            || self.kind.is_symlink() && fs::metadata(self.entry.path()).is_ok_and(|found| found.is_file())
    }

    fn identity(&self) -> String {
        fs::metadata(self.entry.path()).map_or(String::new(), |status| identity_of(&status))
    }
}

/// Returns what is in a directory, by name.
fn entries_of(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), entry, kind });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Returns the step of a directory that is named as a checkpoint.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(CHECKPOINT)?;
    let is_number = !digits.is_empty() && digits.len() <= 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the text that changes with a file.
#[cfg(unix)]
fn identity_of(status: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let time = i128::from(status.mtime()) * 1_000_000_000 + i128::from(status.mtime_nsec());
    format!("{}-{time}-{}", status.len(), status.ino())
}

#[cfg(not(unix))]
fn identity_of(status: &Metadata) -> String {
    let time = status.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{}-{}", status.len(), time.map_or(0, |time| time.as_nanos()))
}

/// Returns whether a pattern with `*`, `?` and `[…]` fits a whole name.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    fits_from(&pattern, &name)
}

fn fits_from(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skipped| fits_from(rest, &name[skipped..])),
        ['?', rest @ ..] => !name.is_empty() && fits_from(rest, &name[1..]),
        ['[', rest @ ..] if rest.contains(&']') => {
            let end = rest.iter().position(|&sign| sign == ']').unwrap_or_default();
            name.first().is_some_and(|&sign| is_among(&rest[..end], sign)) && fits_from(&rest[end + 1..], &name[1..])
        }
        [sign, rest @ ..] => name.first() == Some(sign) && fits_from(rest, &name[1..]),
    }
}

/// Returns whether a sign is one of a set such as `0-9`.
fn is_among(set: &[char], sign: char) -> bool {
    match set {
        ['!', rest @ ..] => !is_among(rest, sign),
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&sign) || is_among(rest, sign),
        [one, rest @ ..] => *one == sign || is_among(rest, sign),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::{fits, Walk};

    #[test]
    fn streams_come_in_order_and_older_checkpoints_are_left_out() {
        let root = std::env::temp_dir().join(format!("toyspec-walk-{}", std::process::id()));
        for name in ["b/events.jsonl", "a/log.csv", "a/x/events.jsonl.gz", "a/x/log.csv", "a/x/run.json"] {
            create_dir_all(root.join(name).parent().unwrap()).unwrap();
            write(root.join(name), "x").unwrap();
        }
        for step in [9, 10] {
            create_dir_all(root.join(format!("checkpoint-{step}"))).unwrap();
            write(root.join(format!("checkpoint-{step}/trainer_state.json")), "{}").unwrap();
        }
        let hints = ["*.csv", "trainer_state.json"].map(String::from).to_vec();
        let found: Vec<_> = Walk::new(&root, hints).map(|found| found.unwrap()).collect();
        let names: Vec<_> = found.iter().map(|file| file.path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        let expected = ["a/log.csv", "a/x/events.jsonl.gz", "b/events.jsonl", "checkpoint-10/trainer_state.json"];
        assert_eq!(expected, names[..]);
        assert!(found[1].identity.contains(" run.json 1-") && found[0].is_hinted && !found[1].is_hinted);
        assert_eq!((1, false, false), (found[1].size, found[1].is_link, found[1].is_sealed));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name) in [("a*b?", "a--b-"), ("[0-9][!x]", "3y"), ("*", ""), ("[", "["), ("[a-]", "-")] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a*", "ba"), ("[0-9]", "x"), ("[!x]", "x"), ("?", ""), ("a", "ab")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
