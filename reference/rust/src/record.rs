//! Judges one record by its schema and names every fault in it: see spec/checking.md.

use crate::dates::is_date_time;
use crate::escape::shortened;
use crate::schema::{Constant, Field, Form, KindTable, Schema};
use crate::tables::{Rule, BINARY32_LIMIT, MAX_SAFE_INTEGER};
use crate::tape::{push_token, Kind, Node};
use crate::vet::Fault;

/// A key that the schema does not declare.
pub(crate) struct UnknownKey {
    /// The key with those of the objects around it, array indexes left out.
    pub path: String,
    pub pointer: String,
    pub at: usize,
    /// The declared key that was probably meant.
    pub meant: Option<&'static str>,
}

/// What is wrong with one record.
#[derive(Default)]
pub(crate) struct Judgement {
    /// Missing keys of one object are in the order of the schema.
    pub faults: Vec<Fault>,
    pub unknown: Vec<UnknownKey>,
}

impl Judgement {
    /// Returns the fields that have an error of their own, and take no part in the rules between lines.
    pub fn faulty_fields(&self) -> impl Iterator<Item = &str> {
        let grave = self.faults.iter().filter(|fault| fault.rule != Rule::UnsafeInteger);
        grave.map(|fault| fault.pointer[1..].split('/').next().unwrap_or_default())
    }
}

/// Judges a record, or manifest, of a kind.
pub(crate) fn judge(kind: &'static KindTable, record: Node) -> Judgement {
    let mut judge = Judge { kind: kind.name, found: Judgement::default() };
    judge.object(record, kind.fields, "", "");
    judge.found
}

struct Judge {
    kind: &'static str,
    found: Judgement,
}

impl Judge {
    fn add(&mut self, rule: Rule, node: Node, pointer: &str, message: String) {
        self.found.faults.push(Fault { rule, at: node.at(), pointer: pointer.to_string(), message });
    }

    fn object(&mut self, object: Node, fields: &'static [Field], path: &str, pointer: &str) {
        let mut present = vec![false; fields.len()];
        for (key, value) in object.members() {
            let name = key.string();
            let inner = joined(pointer, &name);
            if let Some(index) = fields.iter().position(|field| field.name == name) {
                present[index] = true;
                self.field(value, &fields[index], &format!("{path}{name}"), &inner);
            } else {
                let path = format!("{path}{name}");
                self.found.unknown.push(UnknownKey { path, pointer: inner, at: value.at(), meant: None });
            }
        }
        for (field, present) in fields.iter().zip(&present) {
            if field.required && !present {
                let place = if pointer.is_empty() { self.kind.to_string() } else { shown_pointer(pointer) };
                let message = format!("{place} has no `{}`", field.name);
                self.add(Rule::MissingKey, object, &joined(pointer, field.name), message);
            }
        }
        let absent = || fields.iter().zip(&present).filter(|(_, present)| !**present).map(|(field, _)| field.name);
        let depth = pointer.matches('/').count();
        for key in &mut self.found.unknown {
            if key.meant.is_none() && key.pointer.starts_with(pointer) && key.pointer.matches('/').count() == depth + 1
            {
                key.meant = nearest(key.path.rsplit('.').next().unwrap_or_default(), absent());
            }
        }
    }

    fn field(&mut self, value: Node, field: &'static Field, path: &str, pointer: &str) {
        let before = self.found.faults.len();
        self.value(value, &field.schema, path, pointer);
        if field.declares {
            for fault in &mut self.found.faults[before..] {
                if fault.rule == Rule::UnexpectedValue {
                    fault.rule = Rule::UnsupportedSchema;
                }
            }
        }
    }

    fn value(&mut self, value: Node, schema: &'static Schema, path: &str, pointer: &str) {
        if value.kind() == Kind::Null && schema.nullable {
            return;
        }
        if !has_type(value, &schema.form) {
            let message = format!("{} is {}, not {}", shown_pointer(pointer), typed(value), noun(schema));
            self.add(Rule::WrongType, value, pointer, message);
            if let Form::OpenMap = schema.form {
                self.integers(value, pointer);
            }
            return;
        }
        match &schema.form {
            Form::Integer | Form::Number | Form::Binary32 => self.number(value, schema, pointer),
            Form::String => self.text(value, schema, pointer),
            Form::Object(fields) => self.object(value, fields, &format!("{path}."), pointer),
            Form::Open | Form::OpenMap => self.integers(value, pointer),
            Form::Map(of) => self.map(value, of, path, pointer),
            Form::Array(of, least, most) => {
                let count = value.items().count();
                if !(*least..=*most).contains(&count) {
                    let message = format!("{} has {count} items, not {least}", shown_pointer(pointer));
                    self.add(Rule::OutOfRange, value, pointer, message);
                }
                for (index, item) in value.items().enumerate() {
                    self.value(item, of, path, &format!("{pointer}/{index}"));
                }
            }
            Form::Boolean => {}
        }
    }

    fn map(&mut self, value: Node, of: &'static Schema, path: &str, pointer: &str) {
        for (key, item) in value.members() {
            let inner = joined(pointer, &key.string());
            let before = self.found.faults.len();
            self.value(item, of, path, &inner);
            // Values of a map are written as they come: an integer literal there must be exact.
            if before == self.found.faults.len() && !matches!(of.form, Form::Integer) && item.is_integer() {
                self.integers(item, &inner);
            }
        }
    }

    fn number(&mut self, value: Node, schema: &'static Schema, pointer: &str) {
        let number: f64 = value.literal().parse().unwrap_or(f64::NAN);
        let (least, greatest) = schema.limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let beyond = matches!(schema.form, Form::Binary32) && number.abs() >= BINARY32_LIMIT;
        let allowed =
            |constant: &Constant| matches!(constant, Constant::Integer(n) if value.literal() == n.to_string());
        if !schema.values.is_empty() && !schema.values.iter().any(allowed) {
            let message = format!("{} is {}, which it may not be", shown_pointer(pointer), shown(value));
            self.add(Rule::UnexpectedValue, value, pointer, message);
        } else if number < least || number > greatest || beyond {
            let message = format!("{} is {}, outside its range", shown_pointer(pointer), shown(value));
            self.add(Rule::OutOfRange, value, pointer, message);
        } else if let Form::Integer = schema.form {
            self.integers(value, pointer);
        }
    }

    fn text(&mut self, value: Node, schema: &'static Schema, pointer: &str) {
        let text = value.string();
        let allowed = |constant: &Constant| matches!(constant, Constant::Text(known) if *known == text);
        if !schema.values.is_empty() && !schema.values.iter().any(allowed) {
            let message = format!("{} is {}, which it may not be", shown_pointer(pointer), shown(value));
            self.add(Rule::UnexpectedValue, value, pointer, message);
        } else if schema.pattern.as_ref().is_some_and(|pattern| !pattern.matches(&text)) {
            let message =
                format!("{} is {}, which does not have the required form", shown_pointer(pointer), shown(value));
            self.add(Rule::BadFormat, value, pointer, message);
        } else if schema.date_time && !is_date_time(&text) {
            let message = format!("{} is {}, not a date-time with a zone", shown_pointer(pointer), shown(value));
            self.add(Rule::BadFormat, value, pointer, message);
        }
    }

    /// Reports the integers in a value that binary64 may not hold exactly.
    fn integers(&mut self, value: Node, pointer: &str) {
        match value.kind() {
            Kind::Number if value.is_integer() && is_unsafe(value.literal()) => {
                let message = format!("{} at {} is beyond ±{MAX_SAFE_INTEGER}", shown(value), shown_pointer(pointer));
                self.add(Rule::UnsafeInteger, value, pointer, message);
            }
            Kind::Array => {
                for (index, item) in value.items().enumerate() {
                    self.integers(item, &format!("{pointer}/{index}"));
                }
            }
            Kind::Object => {
                for (key, item) in value.members() {
                    self.integers(item, &joined(pointer, &key.string()));
                }
            }
            _ => {}
        }
    }
}

fn has_type(value: Node, form: &Form) -> bool {
    match form {
        Form::Open => true,
        Form::Integer => value.is_integer(),
        Form::Number | Form::Binary32 => value.kind() == Kind::Number,
        Form::String => value.kind() == Kind::String,
        Form::Boolean => matches!(value.kind(), Kind::True | Kind::False),
        Form::OpenMap | Form::Object(_) | Form::Map(_) => value.kind() == Kind::Object,
        Form::Array(..) => value.kind() == Kind::Array,
    }
}

fn is_unsafe(literal: &str) -> bool {
    let digits = literal.trim_start_matches('-');
    digits.len() > 16 || digits.parse().is_ok_and(|number: u64| number > MAX_SAFE_INTEGER)
}

/// Returns the name that was probably meant.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if name.len() > 64 {
        return None;
    }
    let distances = known.map(|other| (distance(name.as_bytes(), other.as_bytes()), other));
    let (changes, other) = distances.min_by_key(|&(changes, _)| changes)?;
    (changes * 10 <= 3 * name.len().max(other.len())).then_some(other)
}

/// Returns how many bytes have to be added, removed or changed to make one text of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// Returns the JSON type of a value with the value, as a noun.
pub(crate) fn typed(value: Node) -> String {
    match value.kind() {
        Kind::Null => "null".to_string(),
        Kind::True => "the boolean true".to_string(),
        Kind::False => "the boolean false".to_string(),
        Kind::Object => "an object".to_string(),
        Kind::Array => "an array".to_string(),
        Kind::Number => format!("the number {}", shown(value)),
        _ => format!("the string {}", shown(value)),
    }
}

fn noun(schema: &Schema) -> String {
    let noun = match schema.form {
        Form::Open => "a value",
        Form::Integer => "an integer",
        Form::Number | Form::Binary32 => "a number",
        Form::String => "a string",
        Form::Boolean => "a boolean",
        Form::OpenMap | Form::Object(_) | Form::Map(_) => "an object",
        Form::Array(..) => "an array",
    };
    format!("{noun}{}", if schema.nullable { " or null" } else { "" })
}

fn shown(value: Node) -> String {
    // Cut first: a long string must not be copied whole for a message.
    let raw = value.raw();
    shortened(&String::from_utf8_lossy(&raw[..raw.len().min(400)]))
}

fn shown_pointer(pointer: &str) -> String {
    format!("`{}`", shortened(pointer.trim_start_matches('/')))
}

fn joined(pointer: &str, key: &str) -> String {
    let mut joined = format!("{pointer}/");
    push_token(&mut joined, key);
    joined
}
