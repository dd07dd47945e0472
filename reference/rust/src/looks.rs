//! Names the format of a file that follows no profile, by its first bytes: see schemas/meta/looks.json.

use crate::escape::shortened;
use crate::tables::{
    LOOK_BINARY, LOOK_EMPTY_RECORD, LOOK_FIRST_LINES, LOOK_HEAD_BYTES, LOOK_RECORD, LOOK_SHOWN_KEYS, LOOK_STARTS,
    LOOK_TEXT,
};

/// What a file is known as.
pub(crate) struct Look {
    /// The format, or what is known of the first record.
    pub fact: String,
    /// A program that reads or converts such a file.
    pub read_with: Option<&'static str>,
}

impl Look {
    fn of(fact: impl Into<String>) -> Look {
        Look { fact: fact.into(), read_with: None }
    }

    /// Returns what to do about such a file; None where nothing is known.
    pub fn advice(&self) -> Option<String> {
        self.read_with.map(|command| crate::messages::other_format_advice(command))
    }
}

/// Returns what a file without profile looks like. `head` is its first bytes, `is_all` says that it has no more, and
/// `keys` are those of its first readable record.
pub(crate) fn look_of(head: &[u8], keys: Option<&[String]>, is_all: bool) -> Look {
    let head = &head[..head.len().min(LOOK_HEAD_BYTES)];
    if let Some(known) = known_start(head).or_else(|| known_first_line(head, is_all)) {
        return known;
    }
    let Some(keys) = keys else { return Look::of(if head.contains(&0) { LOOK_BINARY } else { LOOK_TEXT }) };
    if keys.is_empty() {
        return Look::of(LOOK_EMPTY_RECORD);
    }
    let mut shown: Vec<String> = keys.iter().take(LOOK_SHOWN_KEYS).map(|key| shortened(key)).collect();
    if keys.len() > LOOK_SHOWN_KEYS {
        shown.push("…".to_string());
    }
    Look::of(LOOK_RECORD.replace("{keys}", &shown.join(", ")))
}

/// Returns the look of a file that begins with bytes of its own, such as an archive.
pub(crate) fn known_start(head: &[u8]) -> Option<Look> {
    let mut starts = LOOK_STARTS.iter().filter(|(at, start, ..)| head.get(*at..).is_some_and(|h| h.starts_with(start)));
    starts.next().map(|(_, _, fact, read_with)| Look { fact: fact.to_string(), read_with: *read_with })
}

fn known_first_line(head: &[u8], is_all: bool) -> Option<Look> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let begin = head.iter().position(|byte| !is_space(byte))?;
    let line = match memchr::memchr(b'\n', &head[begin..]) {
        Some(length) => &head[begin..begin + length],
        None if is_all => &head[begin..],
        None => return None,
    };
    // Each byte counts as one character.
    let text: String = line.iter().map(|byte| char::from(*byte)).collect();
    let text = text.trim_end_matches([' ', '\t', '\r', '\n']);
    let matches = |pattern: &str| regex_lite::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|it| it.is_match(text));
    let mut known = LOOK_FIRST_LINES.iter().filter(|(pattern, ..)| matches(pattern));
    known.next().map(|(_, fact, read_with)| Look { fact: fact.to_string(), read_with: *read_with })
}
