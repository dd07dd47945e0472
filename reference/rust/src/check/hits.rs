//! What the rules that relate records see of a stream: one record after the other, and facts that hold throughout.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::numbers::integer_of;
use crate::phrases::plain_number;
use crate::schema::{member, Form, KindTable, Schema};
use crate::tables::Rule;
use crate::tape::{Kind, Node};

/// A broken rule, at the record that is being observed.
pub(crate) struct Hit {
    pub rule: Rule,
    pub pointer: String,
    /// The first byte of the place in the line; None is the line.
    pub at: Option<usize>,
    pub message: String,
}

/// The rules that one record breaks. Text is made only for findings that will be listed; the others are counted.
pub(crate) struct Hits<'l> {
    pub found: Vec<Hit>,
    is_listed: &'l dyn Fn(Rule) -> bool,
}

impl<'l> Hits<'l> {
    /// Returns no hits; `is_listed` says whether a finding of a rule would be listed.
    pub fn new(is_listed: &'l dyn Fn(Rule) -> bool) -> Hits<'l> {
        Hits { found: Vec::new(), is_listed }
    }

    /// Adds a hit at the whole line.
    pub fn line(&mut self, rule: Rule, message: impl FnOnce() -> String) {
        self.add(rule, None, || (String::new(), message()));
    }

    /// Adds a hit at a member.
    pub fn at(&mut self, rule: Rule, field: &str, value: Node, message: impl FnOnce() -> String) {
        self.add(rule, Some(value.at()), || (format!("/{field}"), message()));
    }

    /// Adds a hit at a place, with its pointer and its message.
    pub fn add(&mut self, rule: Rule, at: Option<usize>, text: impl FnOnce() -> (String, String)) {
        let (pointer, message) = if (self.is_listed)(rule) { text() } else { Default::default() };
        self.found.push(Hit { rule, pointer, at, message });
    }
}

/// One record as the rules see it.
pub(crate) struct Seen<'a> {
    pub node: Node<'a>,
    /// The kind; None where the tag is missing or no string.
    pub kind: Option<&'a str>,
    /// What this revision knows of the kind.
    pub table: Option<&'static KindTable>,
    /// Fields that have an error of their own and take no part.
    pub invalid: &'a [String],
    /// Line number, from 1.
    pub line: u64,
}

impl<'a> Seen<'a> {
    /// Returns the value of a field that takes part.
    pub fn field(&self, name: &str) -> Option<Node<'a>> {
        if self.table.is_none() || self.invalid.iter().any(|invalid| invalid == name) {
            return None;
        }
        self.node.get(name)
    }

    /// Returns a number or null that takes part.
    pub fn scalar(&self, name: &str) -> Option<Scalar> {
        let value = self.field(name)?;
        let is_integer = |schema: &Schema| matches!(schema.form, Form::Integer);
        if value.kind() == Kind::Number && self.table.and_then(|kind| member(kind.fields, name)).is_some_and(is_integer)
        {
            return integer_of(value.literal()).map(Scalar::Integer);
        }
        Some(Scalar::of(value))
    }

    /// Returns a string that takes part.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.field(name).filter(|value| value.kind() == Kind::String).map(|value| value.string())
    }

    /// Returns the value at a pointer whose first field takes part.
    pub fn at(&self, pointer: &str) -> Option<Node<'a>> {
        let mut keys = pointer[1..].split('/');
        let first = self.field(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    }

    pub fn is(&self, kind: &str) -> bool {
        self.kind == Some(kind)
    }
}

/// A number that counts, of any length and not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Small(u64),
    Large(String),
}

impl Count {
    pub fn of(value: Node) -> Count {
        if let Ok(number) = value.literal().parse() {
            return Count::Small(number);
        }
        let text = integer_of(value.literal()).unwrap_or_default();
        text.parse().map_or_else(|_| Count::Large(text), Count::Small)
    }

    /// Returns how many numbers are between this and a smaller one.
    pub fn between(&self, other: &Count) -> String {
        if let (Count::Small(one), Count::Small(two)) = (self, other) {
            return (one - two - 1).to_string();
        }
        let (one, two) = (self.text(), other.successor());
        let two = format!("{two:0>width$}", width = one.len());
        let mut borrowed = 0;
        let mut digits: Vec<u8> = Vec::with_capacity(one.len());
        for (high, low) in one.bytes().rev().zip(two.bytes().rev()) {
            let taken = low - b'0' + borrowed;
            borrowed = u8::from(high - b'0' < taken);
            digits.push(high + 10 * borrowed - taken);
        }
        let text: String = digits.iter().rev().map(|digit| char::from(*digit)).collect();
        let text = text.trim_start_matches('0');
        if text.is_empty() {
            "0".to_string()
        } else {
            text.to_string()
        }
    }

    /// Returns whether this is one more than another.
    pub fn follows(&self, other: &Count) -> bool {
        match (other, self) {
            (Count::Small(one), Count::Small(two)) => one.checked_add(1) == Some(*two),
            (one, Count::Large(two)) => one.successor() == *two,
            _ => false,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Count::Small(number) => number.to_string(),
            Count::Large(text) => text.clone(),
        }
    }

    fn successor(&self) -> String {
        let text = self.text();
        let nines = text.len() - text.trim_end_matches('9').len();
        let (head, tail) = text.split_at(text.len() - nines);
        let raised = match head.as_bytes().split_last() {
            Some((last, before)) => format!("{}{}", String::from_utf8_lossy(before), (last + 1) as char),
            None => "1".to_string(),
        };
        raised + &"0".repeat(tail.len())
    }
}

impl PartialOrd for Count {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Count {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Count::Small(one), Count::Small(two)) => one.cmp(two),
            (Count::Small(_), Count::Large(_)) => Ordering::Less,
            (Count::Large(_), Count::Small(_)) => Ordering::Greater,
            (Count::Large(one), Count::Large(two)) => (one.len(), one).cmp(&(two.len(), two)),
        }
    }
}

/// A number or null, compared by value.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Null,
    Integer(String),
    Float(f64),
}

impl Scalar {
    pub fn of(value: Node) -> Scalar {
        if value.kind() == Kind::Null {
            Scalar::Null
        } else {
            Scalar::of_text(value.literal())
        }
    }

    /// Returns the scalar with this text.
    pub fn of_text(text: &str) -> Scalar {
        if text == "null" {
            return Scalar::Null;
        }
        Scalar::Float(text.parse().unwrap_or(f64::NAN))
    }

    /// Returns whether this is a smaller number than another; integers have no sign.
    pub fn is_less(&self, other: &Scalar) -> bool {
        match (self, other) {
            (Scalar::Integer(one), Scalar::Integer(two)) => (one.len(), one) < (two.len(), two),
            _ => self.value() < other.value(),
        }
    }

    pub fn shown(&self) -> String {
        match self {
            Scalar::Null => "null".to_string(),
            Scalar::Integer(text) => crate::escape::shortened(text),
            Scalar::Float(number) => plain_number(*number),
        }
    }

    fn value(&self) -> f64 {
        match self {
            Scalar::Null => f64::NAN,
            Scalar::Integer(text) => text.parse().unwrap_or(f64::NAN),
            Scalar::Float(number) => *number,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => true,
            (Scalar::Integer(one), Scalar::Integer(two)) => one == two,
            _ => self.value() == other.value(),
        }
    }
}
