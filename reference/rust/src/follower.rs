//! Follows a stream that is being written: see spec/following.md.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::live_file::{Content, LiveFile};
use crate::profile::Hints;
use crate::reader::{locate, Feed, Gap, Item};
use crate::tables::MAX_LINE_BYTES;
use crate::{Profile, Record};

const CHUNK_BYTES: usize = 1 << 16;

/// What happens to a followed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another file is at the path; the old one was renamed, and read to its end. Records start again.
    Rotated,
    /// The file is shorter than what had been committed. Records start again.
    Truncated,
    /// Another file is at the path and the old one is gone, or the file has other bytes where it was read. Records
    /// start again.
    Replaced,
    /// No file is at the path, and the old one was read to its end.
    Gone,
    /// The run wrote its last event.
    Ended,
}

impl Event {
    /// Returns the name of the event.
    pub fn name(self) -> &'static str {
        match self {
            Event::Rotated => "rotated",
            Event::Truncated => "truncated",
            Event::Replaced => "replaced",
            Event::Gone => "gone",
            Event::Ended => "ended",
        }
    }
}

/// One thing that following gives.
#[derive(Clone, Debug)]
pub enum Followed {
    /// A record whose LF has arrived.
    Record(Record),
    /// A committed line that is unreadable.
    Gap(Gap),
    /// Something happened to the file.
    Event(Event),
}

/// Whether NUL bytes are what they seem: on a network file system the new size can be visible before the new data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nul {
    Trust,
    Doubt,
}

/// Follows one path, which need not exist yet. It waits for nothing: who follows calls `look` again and again.
pub struct Follower {
    path: PathBuf,
    limit: usize,
    file: Option<LiveFile>,
    feed: Feed,
    /// Size and time of the file at the last look.
    seen: Option<(u64, SystemTime)>,
    is_gone: bool,
    /// NUL bytes were seen that count when they are seen twice: those before the second number.
    doubts: bool,
    trusted: u64,
}

impl Follower {
    /// Follows the stream at a path, or in the directory that it is. `max_line_bytes` is the longest line that is read.
    pub fn new(path: impl AsRef<Path>, max_line_bytes: Option<usize>) -> Follower {
        let path = path.as_ref().to_path_buf();
        let limit = max_line_bytes.unwrap_or(MAX_LINE_BYTES);
        Follower {
            feed: Feed::new(None, Hints::of_path(&path), limit),
            path,
            limit,
            file: None,
            seen: None,
            is_gone: false,
            doubts: false,
            trusted: 0,
        }
    }

    /// Returns the format of the stream as far as it is known now; None where it has none.
    pub fn profile(&self) -> Option<Profile> {
        self.feed.profile()
    }

    /// Returns all that is new since the last look. Where it fails, what was found before is lost; `look_each` gives it.
    pub fn look(&mut self) -> io::Result<Vec<Followed>> {
        let mut items = Vec::new();
        self.look_each(&mut |item| items.push(item))?;
        Ok(items)
    }

    /// Gives `each` all that is new since the last look, one by one. After an error, looking again is right.
    pub fn look_each(&mut self, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        let done = self.look_closely(each);
        if done.is_err() {
            self.seen = None;
        }
        done
    }

    fn look_closely(&mut self, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        let Some(mut file) = self.file.take() else { return self.begin(each) };
        let done = self.look_at(&mut file, each);
        // Looking may have opened another one.
        self.file.get_or_insert(file);
        done
    }

    fn begin(&mut self, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        let Ok(stream) = locate(&self.path) else { return Ok(()) };
        let Some(mut file) = LiveFile::open(&stream)? else { return Ok(()) };
        self.start_over(&file);
        let done = self.go_on(&mut file, each);
        self.file = Some(file);
        done
    }

    fn look_at(&mut self, file: &mut LiveFile, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        match file.path.metadata() {
            Ok(status) if file.is_at_path(&status)? => {
                self.is_gone = false;
                self.go_on(file, each)
            }
            Ok(_) => self.change_over(file, each),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.go_on(file, each)?;
                if !self.is_gone && !self.doubts {
                    self.is_gone = true;
                    each(Followed::Event(Event::Gone));
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the rest of the old file, then what is in the file that took its place.
    fn change_over(&mut self, old: &mut LiveFile, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        let Some(mut new) = LiveFile::open(&old.path)? else { return Ok(()) };
        let content = old.content()?;
        if content == Content::UncommittedChanged {
            self.take_back(old);
        }
        if matches!(content, Content::Same | Content::UncommittedChanged) {
            self.drain(old, Nul::Trust, each)?;
        }
        let event = if old.has_name()? { Event::Rotated } else { Event::Replaced };
        each(Followed::Event(event));
        self.is_gone = false;
        self.start_over(&new);
        let done = self.go_on(&mut new, each);
        self.file = Some(new);
        done
    }

    /// Gives what is new in a file.
    fn go_on(&mut self, file: &mut LiveFile, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        let status = file.status()?;
        let seen = (status.len(), status.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        if self.seen == Some(seen) && !self.doubts {
            return Ok(());
        }
        if self.doubts {
            // Where this fails, the file that is open does as well.
            let _ = file.reopen();
            self.doubts = false;
        }
        match file.content()? {
            Content::Same => {}
            Content::UncommittedChanged => self.take_back(file),
            changed => {
                let event = if changed == Content::Truncated { Event::Truncated } else { Event::Replaced };
                each(Followed::Event(event));
                file.restart();
                self.start_over(file);
            }
        }
        self.seen = Some(seen);
        self.drain(file, Nul::Doubt, each)
    }

    fn start_over(&mut self, file: &LiveFile) {
        self.feed = Feed::new(None, Hints::of_path(&file.path), self.limit);
        self.seen = None;
        self.doubts = false;
        self.trusted = 0;
    }

    /// Forgets a fragment that a repair cut off, or that was written again.
    fn take_back(&mut self, file: &mut LiveFile) {
        file.drop_uncommitted();
        self.feed.splitter.drop_fragment();
    }

    /// Gives what is in a file from its position on.
    fn drain(&mut self, file: &mut LiveFile, nul: Nul, each: &mut dyn FnMut(Followed)) -> io::Result<()> {
        loop {
            let mut data = file.peek(CHUNK_BYTES)?;
            if data.is_empty() {
                return Ok(());
            }
            // A fragment may have been cut off since it was read, and other lines been written over its place.
            if data.contains(&b'\n') && !file.has_fragment()? {
                if file.content()? != Content::UncommittedChanged {
                    self.seen = None;
                    return Ok(());
                }
                self.take_back(file);
                continue;
            }
            let trusted = (self.trusted.saturating_sub(file.position) as usize).min(data.len());
            if let Some(at) = memchr::memchr(0, &data[trusted..]).filter(|_| nul == Nul::Doubt) {
                self.doubts = true;
                self.trusted = file.status()?.len();
                data.truncate(trusted + at);
            }
            file.take(&data);
            self.feed(&data, each);
            if self.doubts {
                return Ok(());
            }
        }
    }

    fn feed(&mut self, mut data: &[u8], each: &mut dyn FnMut(Followed)) {
        while !data.is_empty() {
            let (taken, item) = self.feed.feed_one(data);
            data = &data[taken..];
            match item {
                Some(Item::Gap(gap)) => each(Followed::Gap(gap)),
                Some(Item::Record(record)) => {
                    let last = record.profile.and_then(|profile| profile.table().last);
                    let is_last = last.is_some() && record.kind.as_deref() == last;
                    each(Followed::Record(record));
                    if is_last {
                        each(Followed::Event(Event::Ended));
                    }
                }
                Some(Item::Blank) | None => {}
            }
        }
    }
}
