//! The values of one JSON text, in the order of their bytes.

use std::borrow::Cow;

use crate::unescape::unescaped;

/// More keys of an object are not asked for.
const MAX_KEYS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    False,
    True,
    Number,
    String,
    Array,
    Object,
    /// The key of the member whose value comes next.
    Key,
    /// The key of a member that a later one with the same key replaces.
    Replaced,
}

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The first byte of the value.
    pub at: u32,
    /// The byte after it; of a container, the end of its opening bracket.
    pub end: u32,
    /// The entry after the value and all that is in it.
    pub next: u32,
    pub kind: Kind,
}

/// A value in a scanned text.
#[derive(Clone, Copy)]
pub(crate) struct Node<'t> {
    text: &'t [u8],
    entries: &'t [Entry],
    index: usize,
}

impl<'t> Node<'t> {
    pub fn root(text: &'t [u8], entries: &'t [Entry]) -> Node<'t> {
        Node { text, entries, index: 0 }
    }

    /// Returns the value of an entry.
    pub fn at_entry(text: &'t [u8], entries: &'t [Entry], index: usize) -> Node<'t> {
        Node { text, entries, index }
    }

    fn entry(self) -> Entry {
        self.entries[self.index]
    }

    pub fn kind(self) -> Kind {
        self.entry().kind
    }

    /// Returns the offset of the first byte.
    pub fn at(self) -> usize {
        self.entry().at as usize
    }

    /// Returns the text of a scalar.
    pub fn raw(self) -> &'t [u8] {
        &self.text[self.at()..self.entry().end as usize]
    }

    /// Returns the text of a number.
    pub fn literal(self) -> &'t str {
        std::str::from_utf8(self.raw()).unwrap_or_default()
    }

    /// Returns the characters of a string or key of a readable line.
    pub fn string(self) -> Cow<'t, str> {
        match unescaped(self.body()) {
            Cow::Borrowed(text) => String::from_utf8_lossy(text),
            Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(&text).into_owned()),
        }
    }

    /// Returns whether this is a number without fraction and exponent.
    pub fn is_integer(self) -> bool {
        self.kind() == Kind::Number && !self.raw().iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }

    /// Returns the members of an object: of a repeated key, the last.
    pub fn members(self) -> impl Iterator<Item = (Node<'t>, Node<'t>)> {
        let mut index = self.index + 1;
        let end = self.end_of(Kind::Object);
        std::iter::from_fn(move || {
            while index < end {
                let key = Node { index, ..self };
                let value = Node { index: index + 1, ..self };
                index = value.entry().next as usize;
                if key.kind() == Kind::Key {
                    return Some((key, value));
                }
            }
            None
        })
    }

    /// Returns the keys of an object, each once, where it comes last; at most a few dozen.
    pub fn keys(self) -> Vec<String> {
        self.members().take(MAX_KEYS).map(|(key, _)| key.string().into_owned()).collect()
    }

    /// Returns the items of an array.
    pub fn items(self) -> impl Iterator<Item = Node<'t>> {
        let mut index = self.index + 1;
        let end = self.end_of(Kind::Array);
        std::iter::from_fn(move || {
            (index < end).then(|| {
                let item = Node { index, ..self };
                index = item.entry().next as usize;
                item
            })
        })
    }

    /// Returns kind, first byte and end of all that is in an object and is neither key nor container, at any depth.
    pub fn scalars(self) -> impl Iterator<Item = (Kind, usize, usize)> + use<'t> {
        let inside = &self.entries[self.index + 1..self.end_of(Kind::Object).max(self.index + 1)];
        let is_scalar = |entry: &&Entry| !matches!(entry.kind, Kind::Key | Kind::Replaced | Kind::Array | Kind::Object);
        inside.iter().filter(is_scalar).map(|entry| (entry.kind, entry.at as usize, entry.end as usize))
    }

    /// Returns the value of a member.
    pub fn get(self, key: &str) -> Option<Node<'t>> {
        self.members().find(|(name, _)| name.is_named(key)).map(|(_, value)| value)
    }

    /// Returns whether the characters of a string or key are `name`.
    pub fn is_named(self, name: &str) -> bool {
        let body = self.body();
        // An escape is longer than the character that it is written for.
        body == name.as_bytes() || body.len() > name.len() && body.contains(&b'\\') && self.string() == name
    }

    /// Returns what is between the quotes of a string or key.
    pub fn body(self) -> &'t [u8] {
        let raw = self.raw();
        &raw[1..raw.len() - 1]
    }

    fn end_of(self, kind: Kind) -> usize {
        if self.kind() == kind {
            self.entry().next as usize
        } else {
            0
        }
    }
}

/// Appends a key to a pointer, with the escapes of RFC 6901.
pub(crate) fn push_token(pointer: &mut String, key: &str) {
    *pointer += &key.replace('~', "~0").replace('/', "~1");
}
