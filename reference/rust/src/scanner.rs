//! Scans one JSON text, byte by byte from the left, without recursion.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::escape::shortened;
use crate::line_validation::{Problem, Problems};
use crate::messages;
use crate::tables::{Rule, MAX_DEPTH};
use crate::tape::{push_token, Entry, Kind, Node};
use crate::unescape::{lone_surrogate, unescaped};

/// Beyond this many members, keys are looked up in a table.
const FEW_KEYS: usize = 16;

/// An object or array that is open.
struct Open<'a> {
    /// Its entry.
    entry: usize,
    is_object: bool,
    /// Number of members or items before the current one.
    count: usize,
    /// Entry of the current key.
    key: usize,
    /// Whether one of the first keys has an escape.
    has_escapes: bool,
    keys: Option<HashMap<Cow<'a, [u8]>, usize>>,
}

/// One scan of one text, strict and without recursion. It follows RFC 8259, except that it takes NaN and infinities
/// for numbers and half a surrogate pair for an escape, and notes them as problems.
pub(crate) struct Scanner<'a, 'f> {
    text: &'a [u8],
    entries: &'f mut Vec<Entry>,
    problems: &'f mut Problems,
    open: Vec<Open<'a>>,
}

type Stop = Problem;

impl<'a, 'f> Scanner<'a, 'f> {
    pub fn new(text: &'a [u8], entries: &'f mut Vec<Entry>, problems: &'f mut Problems) -> Self {
        entries.clear();
        Scanner { text, entries, problems, open: Vec::new() }
    }

    /// Scans the whole text; fails where it stops being JSON or is nested too deep.
    pub fn scan(mut self) -> Result<(), Stop> {
        let mut at = self.skip(0);
        at = self.value(at)?;
        while !self.open.is_empty() {
            at = self.member(at)?;
        }
        at = self.skip(at);
        if at != self.text.len() {
            return Err(self.unexpected(at, messages::EXPECTED_END_OF_LINE));
        }
        Ok(())
    }

    fn byte(&self, at: usize) -> u8 {
        // No NUL is in the text.
        self.text.get(at).copied().unwrap_or(0)
    }

    fn skip(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
        }
        at
    }

    /// Goes over what follows in the innermost container: a member, or its end.
    fn member(&mut self, at: usize) -> Result<usize, Stop> {
        let mut at = self.skip(at);
        let Some(container) = self.open.last() else { return Ok(at) };
        let (is_object, count) = (container.is_object, container.count);
        if self.byte(at) == if is_object { b'}' } else { b']' } {
            let entry = container.entry;
            self.entries[entry].next = self.entries.len() as u32;
            self.open.pop();
            return Ok(at + 1);
        }
        if count > 0 || self.entries.len() > container.entry + 1 {
            if self.byte(at) != b',' {
                let array = messages::EXPECTED_MEMBER_OF_ARRAY;
                return Err(self.unexpected(at, if is_object { messages::EXPECTED_MEMBER_OF_OBJECT } else { array }));
            }
            at = self.skip(at + 1);
            if let Some(container) = self.open.last_mut() {
                container.count += 1;
            }
        }
        if is_object {
            at = self.key(at)?;
        }
        self.value(at)
    }

    /// Goes over a key and its colon, up to the value.
    fn key(&mut self, start: usize) -> Result<usize, Stop> {
        if self.byte(start) != b'"' {
            return Err(self.unexpected(start, messages::EXPECTED_KEY));
        }
        let (end, suspicious) = self.string(start)?;
        let colon = self.skip(end);
        if self.byte(colon) != b':' {
            return Err(self.unexpected(colon, messages::EXPECTED_COLON));
        }
        let at = self.skip(colon + 1);
        let index = self.push(Kind::Key, start, end);
        if let Some(container) = self.open.last_mut() {
            container.key = index;
        }
        if suspicious {
            self.note_surrogate(start, end);
        }
        if let Some(earlier) = self.earlier(index) {
            self.entries[earlier].kind = Kind::Replaced;
            let key = crate::unescape::visible(&unescaped(&self.text[start + 1..end - 1])).into_owned();
            self.note(Rule::DuplicateKey, at, || messages::duplicate_key(shortened(&key)));
        }
        Ok(at)
    }

    /// Returns the entry of an earlier member with the key of entry `index`.
    fn earlier(&mut self, index: usize) -> Option<usize> {
        let text = self.text;
        let raw = |entry: Entry| &text[entry.at as usize + 1..entry.end as usize - 1];
        let body = |entry: Entry| unescaped(raw(entry));
        let entries = &self.entries;
        let container = self.open.last_mut()?;
        let first = container.entry + 1;
        let before = || {
            let mut at = first;
            std::iter::from_fn(move || {
                (at < index).then(|| {
                    let found = at;
                    at = entries[at + 1].next as usize;
                    found
                })
            })
        };
        let own = raw(entries[index]);
        if container.count < FEW_KEYS {
            container.has_escapes |= own.contains(&b'\\');
            let is_same = |at: &usize| {
                let other = raw(entries[*at]);
                other == own || container.has_escapes && unescaped(other) == unescaped(own)
            };
            return before().find(|at| entries[*at].kind == Kind::Key && is_same(at));
        }
        let keys = container.keys.get_or_insert_with(|| {
            before().filter(|&at| entries[at].kind == Kind::Key).map(|at| (body(entries[at]), at)).collect()
        });
        keys.insert(unescaped(own), index)
    }

    fn push(&mut self, kind: Kind, at: usize, end: usize) -> usize {
        let index = self.entries.len();
        self.entries.push(Entry { at: at as u32, end: end as u32, next: index as u32 + 1, kind });
        index
    }

    fn value(&mut self, start: usize) -> Result<usize, Stop> {
        match self.byte(start) {
            b'"' => {
                let (end, suspicious) = self.string(start)?;
                if suspicious {
                    self.note_surrogate(start, end);
                }
                self.push(Kind::String, start, end);
                Ok(end)
            }
            bracket @ (b'{' | b'[') => {
                if self.open.len() == MAX_DEPTH {
                    let message = messages::nested_too_deep(MAX_DEPTH);
                    return Err(Problem::whole(Rule::NestedTooDeep, start, message));
                }
                let is_object = bracket == b'{';
                let entry = self.push(if is_object { Kind::Object } else { Kind::Array }, start, start + 1);
                self.open.push(Open { entry, is_object, count: 0, key: 0, has_escapes: false, keys: None });
                Ok(start + 1)
            }
            b't' => self.word(start, b"true", Kind::True),
            b'f' => self.word(start, b"false", Kind::False),
            b'n' => self.word(start, b"null", Kind::Null),
            b'N' => self.word(start, b"NaN", Kind::Number),
            b'I' => self.word(start, b"Infinity", Kind::Number),
            b'-' if self.byte(start + 1) == b'I' => self.word(start, b"-Infinity", Kind::Number),
            b'-' | b'0'..=b'9' => self.number(start),
            _ => Err(self.unexpected(start, messages::EXPECTED_VALUE)),
        }
    }

    fn word(&mut self, start: usize, word: &'static [u8], kind: Kind) -> Result<usize, Stop> {
        for (i, &expected) in word.iter().enumerate() {
            if self.byte(start + i) != expected {
                return Err(self.unexpected(start + i, &messages::expected_word(String::from_utf8_lossy(word))));
            }
        }
        if kind == Kind::Number {
            self.note(Rule::NonFiniteNumber, start, || messages::non_finite_number(String::from_utf8_lossy(word)));
        }
        self.push(kind, start, start + word.len());
        Ok(start + word.len())
    }

    fn number(&mut self, start: usize) -> Result<usize, Stop> {
        let mut at = start + usize::from(self.byte(start) == b'-');
        at = if self.byte(at) == b'0' { at + 1 } else { self.digits(at)? };
        if self.byte(at) == b'.' {
            at = self.digits(at + 1)?;
        }
        let mut has_exponent = false;
        if matches!(self.byte(at), b'e' | b'E') {
            has_exponent = true;
            at = self.digits(at + 1 + usize::from(matches!(self.byte(at + 1), b'+' | b'-')))?;
        }
        let index = self.push(Kind::Number, start, at);
        // The largest binary64 has 309 digits: a shorter number without exponent cannot overflow.
        if has_exponent || at - start >= 309 {
            let literal = Node::at_entry(self.text, self.entries, index).literal();
            if literal.parse().is_ok_and(f64::is_infinite) {
                let shown = shortened(literal);
                self.note(Rule::NonFiniteNumber, start, || messages::non_finite_number_too_large(shown));
            }
        }
        Ok(at)
    }

    fn digits(&self, start: usize) -> Result<usize, Stop> {
        let count = self.text[start.min(self.text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.unexpected(start, messages::EXPECTED_DIGIT));
        }
        Ok(start + count)
    }

    /// Returns where a string ends, and whether it has an escape that may be half a surrogate pair.
    fn string(&self, start: usize) -> Result<(usize, bool), Stop> {
        let mut at = start + 1;
        let mut suspicious = false;
        loop {
            match self.byte(at) {
                b'"' => return Ok((at + 1, suspicious)),
                b'\\' => {
                    at += 1;
                    match self.byte(at) {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 1,
                        b'u' => {
                            let hex = (1..=4).take_while(|i| self.byte(at + i).is_ascii_hexdigit()).count();
                            if hex < 4 {
                                return Err(self.unexpected(at + 1 + hex, messages::EXPECTED_HEX));
                            }
                            suspicious |= matches!(self.byte(at + 1), b'd' | b'D') && self.byte(at + 2) >= b'8';
                            at += 5;
                        }
                        _ => return Err(self.unexpected(at, messages::EXPECTED_ESCAPE)),
                    }
                }
                0..=0x1F => return Err(self.unexpected(at, messages::EXPECTED_END_OF_STRING)),
                _ => at += 1,
            }
        }
    }

    fn note_surrogate(&mut self, start: usize, end: usize) {
        if let Some(escape) = lone_surrogate(&self.text[start + 1..end - 1]) {
            let escape = String::from_utf8_lossy(escape);
            self.note(Rule::LoneSurrogate, start, || messages::lone_surrogate(escape));
        }
    }

    fn note(&mut self, rule: Rule, at: usize, message: impl FnOnce() -> String) {
        if self.problems.counts(rule) {
            let pointer = self.pointer();
            self.problems.list(Problem { rule, at, pointer, message: message() });
        }
    }

    /// Returns the pointer to the current member.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for container in &self.open {
            pointer.push('/');
            if container.is_object {
                let entry = self.entries[container.key];
                let key = unescaped(&self.text[entry.at as usize + 1..entry.end as usize - 1]);
                push_token(&mut pointer, &crate::unescape::shown(&key));
            } else {
                pointer += &container.count.to_string();
            }
        }
        pointer
    }

    fn unexpected(&self, at: usize, expected: &str) -> Stop {
        let at = at.min(self.text.len());
        let rest = &self.text[at..self.text.len().min(at + 4)];
        let found = match String::from_utf8_lossy(rest).chars().next() {
            None => messages::FOUND_END_OF_LINE.to_string(),
            Some('"') => messages::FOUND_DOUBLE_QUOTE.to_string(),
            Some(other) => messages::found_character(crate::escape::printable(&other.to_string())),
        };
        Problem::whole(Rule::InvalidJson, at, messages::invalid_json(expected, found))
    }
}
