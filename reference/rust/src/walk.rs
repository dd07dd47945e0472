//! Finds the streams below a directory, with what says whether they have changed: see spec/bundle.md.

use std::collections::VecDeque;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use crate::bundle_files::rank_of;
use crate::reader::stream_names;

/// Each checkpoint of Hugging Face's Trainer has the whole log until then.
const CHECKPOINT: &str = "checkpoint-";
const CHECKPOINTED: &str = "trainer_state.json";
const SEAL: &str = "SHA256SUMS";
/// Directories that are listed at once; more would only take memory.
const MOST_AHEAD: usize = 1024;
/// With fewer directories for each, starting threads takes longer than they save.
const LEAST_DIRECTORIES: usize = 64;
/// Directories of version control and installed software, which have no runs.
const PASSED_OVER: [&str; 6] = [".git", ".hg", ".svn", "node_modules", "site-packages", "__pycache__"];
/// The file by which a virtual environment of Python is known.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// What a run shows, tables among it, which are not logs.
const MEDIA: &str = "media";
/// What people and programs say about a run afterwards; never a log.
const ANNOTATIONS: &str = "annotations.jsonl";
/// Files of a run that are not streams.
const OF_A_BUNDLE: [&str; 4] = ["run.json", "flow.json", SEAL, ANNOTATIONS];

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
}

/// Goes through a directory and those below it, in the order of their names. Directories are listed on several threads.
pub struct Walk {
    rules: Rules,
    /// What is still to be given, the next one last.
    pending: Vec<Pending>,
    found: VecDeque<Found>,
}

type Found = Result<Walked, (PathBuf, io::Error)>;

/// Which files are found.
struct Rules {
    /// Patterns of names of files that are looked for in directories without a stream.
    hints: Vec<String>,
    /// The names that streams have.
    names: Vec<String>,
}

enum Pending {
    /// A directory that is still to be listed, and whether hints count there.
    Directory(PathBuf, bool),
    Listed(Listed),
}

/// What is in a directory.
struct Listed {
    found: Vec<Found>,
    /// Its directories, the last one first.
    folders: Vec<Pending>,
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
            rules: Rules { hints, names: stream_names().collect() },
            pending: vec![Pending::Directory(root.to_path_buf(), true)],
            found: VecDeque::new(),
        }
    }

    /// Lists the directories that come next.
    fn look_ahead(&mut self) {
        let is_unlisted = |pending: &&Pending| matches!(pending, Pending::Directory(..));
        let number = self.pending.iter().rev().take(MOST_AHEAD).take_while(is_unlisted).count();
        let directories = self.pending.split_off(self.pending.len() - number);
        let threads = match number / LEAST_DIRECTORIES {
            0 | 1 => 1,
            most => thread::available_parallelism().map_or(1, usize::from).min(most),
        };
        let rules = &self.rules;
        let share = number.div_ceil(threads).max(1);
        let mut shares: Vec<Vec<Pending>> = Vec::new();
        for directory in directories {
            match shares.last_mut().filter(|last| last.len() < share) {
                Some(last) => last.push(directory),
                None => shares.push(vec![directory]),
            }
        }
        thread::scope(|scope| {
            let own = shares.pop().unwrap_or_default();
            let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || rules.list_all(share))).collect();
            let own = rules.list_all(own);
            for other in others {
                match other.join() {
                    Ok(listed) => self.pending.extend(listed),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            self.pending.extend(own);
        });
    }
}

impl Rules {
    fn list_all(&self, directories: Vec<Pending>) -> Vec<Pending> {
        let listed = |pending| match pending {
            Pending::Directory(directory, is_hinting) => Pending::Listed(self.list(directory, is_hinting)),
            listed => listed,
        };
        directories.into_iter().map(listed).collect()
    }

    fn list(&self, directory: PathBuf, is_hinting: bool) -> Listed {
        let entries = match entries_of(&directory) {
            Ok(entries) => entries,
            Err(error) => return Listed { found: vec![Err((directory, error))], folders: Vec::new() },
        };
        if entries.iter().any(|entry| entry.name == ENVIRONMENT) {
            return Listed { found: Vec::new(), folders: Vec::new() };
        }
        let mut files: Vec<&Entry> =
            entries.iter().filter(|entry| self.names.contains(&entry.name) && !entry.is_folder()).collect();
        let is_hinted = files.is_empty();
        if is_hinted && is_hinting {
            let fits = |entry: &&Entry| {
                entry.name != ANNOTATIONS && entry.is_file() && self.hints.iter().any(|hint| fits(hint, &entry.name))
            };
            files = entries.iter().filter(fits).collect();
        }
        let is_of_run = |name: &str| OF_A_BUNDLE.contains(&name) || rank_of(name).is_some_and(|rank| rank > 0);
        let bundle = |entry: &&Entry| is_of_run(&entry.name);
        let beside: String =
            entries.iter().filter(bundle).map(|entry| format!(" {} {}", entry.name, entry.identity())).collect();
        let has_log = files.iter().any(|file| file.name == CHECKPOINTED);
        let walked = files.iter().map(|file| {
            let status = file.status();
            Ok(Walked {
                size: status.as_ref().map_or(0, Metadata::len),
                identity: status.map_or(String::new(), |status| identity_of(&status) + &beside),
                path: file.entry.path(),
                is_hinted,
                is_link: file.kind.is_symlink(),
            })
        });
        let found = walked.collect();
        let last = entries.iter().filter(|entry| entry.kind.is_dir()).filter_map(|entry| step_of(&entry.name)).max();
        let is_older = |step: Option<u64>| step.is_some() && (has_log || step != last);
        let is_searched = |entry: &&Entry| {
            let is_shown = !is_hinted && entry.name == MEDIA;
            entry.kind.is_dir() && !is_shown && !PASSED_OVER.contains(&entry.name.as_str())
        };
        let folders = entries.iter().rev().filter(is_searched);
        let folder =
            |entry: &Entry| Pending::Directory(entry.entry.path(), is_hinting && !is_older(step_of(&entry.name)));
        Listed { found, folders: folders.map(folder).collect() }
    }
}

impl Iterator for Walk {
    type Item = Result<Walked, (PathBuf, io::Error)>;

    /// Returns the next file, or a directory that cannot be listed and why; such a one does not stop the rest.
    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            match self.pending.pop()? {
                Pending::Listed(listed) => {
                    self.found.extend(listed.found);
                    self.pending.extend(listed.folders);
                }
                directory => {
                    self.pending.push(directory);
                    self.look_ahead();
                }
            }
        }
        self.found.pop_front()
    }
}

impl Entry {
    /// Returns whether this is a directory or a link to one. Nothing else with the name of a stream is left out, so that
    /// a FIFO or a device is reported.
    fn is_folder(&self) -> bool {
        self.kind.is_dir()
            || self.kind.is_symlink() && fs::metadata(self.entry.path()).is_ok_and(|found| found.is_dir())
    }

    /// Returns whether this is a file or a link to one.
    fn is_file(&self) -> bool {
        self.kind.is_file()
            || self.kind.is_symlink() && fs::metadata(self.entry.path()).is_ok_and(|found| found.is_file())
    }

    /// Returns the status of the file, or of the one that it links to.
    fn status(&self) -> Option<Metadata> {
        // By its name in the directory that is open, a file is found sooner than by its path.
        if self.kind.is_symlink() { fs::metadata(self.entry.path()) } else { self.entry.metadata() }.ok()
    }

    fn identity(&self) -> String {
        self.status().map_or(String::new(), |status| identity_of(&status))
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
        let streams = ["b/events.jsonl", "b/media/events.jsonl", "a/log.csv", "a/x/events.jsonl.gz", "a/x/log.csv"];
        for name in streams.iter().chain(&["a/x/run.json"]) {
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
        assert_eq!((1, false), (found[1].size, found[1].is_link));
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
