//! Writes records in canonical form: see spec/encoding.md.

use std::fmt;

use crate::line_validation::{LineValidator, Status};
use crate::numbers::{binary32_text, binary64_text};
use crate::record::{validate, Integers};
use crate::schema::{member, Field, Form, Schema, Severity};
use crate::tables::{MAX_DEPTH, MAX_LINE_BYTES};
use crate::{Map, Number, Profile, Value};

/// Why a record is not written: no reader would accept it, or not at this place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the record is refused: {}", self.0)
    }
}

impl std::error::Error for Refused {}

static OPEN: Schema = Schema::OPEN;

/// Returns the canonical line of a record, LF included. NaN and infinities become null.
pub fn encode(profile: Profile, record: &Map) -> Result<Vec<u8>, Refused> {
    let name = match profile.tag() {
        None => "entry",
        Some(tag) => {
            record.get(tag).and_then(Value::as_str).ok_or_else(|| Refused(format!("it has no string `{tag}`")))?
        }
    };
    let kind = profile.kind(name);
    let tag = profile.tag().unwrap_or_default();
    let mut out = Vec::with_capacity(256);
    match kind {
        Some(kind) => object(&mut out, record, kind.fields, 1)?,
        None => of_unknown_kind(&mut out, record, tag)?,
    }
    if out.len() > MAX_LINE_BYTES {
        return Err(Refused(format!("the line has {} bytes, the limit is {MAX_LINE_BYTES}", out.len())));
    }
    let mut validator = LineValidator::default();
    if validator.validate(&out, false) != Status::Readable {
        let problem = validator.problems.listed.first();
        return Err(Refused(problem.map_or_else(String::new, |problem| problem.message.clone())));
    }
    if let (Some(kind), Some(node)) = (kind, validator.record(&out)) {
        let found = validate(kind, node, Integers::Written);
        let error = found.problems.iter().find(|problem| problem.rule.severity(profile, false) == Severity::Error);
        if let Some(problem) = error {
            return Err(Refused(format!("{}: {}", problem.rule.id(), problem.message)));
        }
    }
    out.push(b'\n');
    Ok(out)
}

/// Writes an object: declared members in the order of the schema, then all others by the bytes of their keys.
fn object(out: &mut Vec<u8>, value: &Map, fields: &'static [Field], depth: usize) -> Result<(), Refused> {
    let mut members = Vec::with_capacity(value.len());
    let empty = Value::Object(Map::default());
    for field in fields {
        match value.get(field.name) {
            Some(item) => members.push((field.name, item, &field.schema)),
            None if field.always => members.push((field.name, &empty, &field.schema)),
            None => {}
        }
    }
    let declared = members.len();
    members.extend(value.iter().filter(|(key, _)| member(fields, key).is_none()).map(|(key, item)| (key, item, &OPEN)));
    members[declared..].sort_by_key(|(key, ..)| key.as_bytes());
    all(out, members, depth)
}

/// Writes a record of unknown kind: its tag, then all other members by the bytes of their keys.
fn of_unknown_kind(out: &mut Vec<u8>, record: &Map, tag: &str) -> Result<(), Refused> {
    let mut members: Vec<_> = record.iter().map(|(key, item)| (key, item, &OPEN)).collect();
    members.sort_by_key(|(key, ..)| (*key != tag, key.as_bytes()));
    all(out, members, 1)
}

fn all(out: &mut Vec<u8>, members: Vec<(&str, &Value, &'static Schema)>, depth: usize) -> Result<(), Refused> {
    check_depth(depth)?;
    out.push(b'{');
    for (index, (key, item, schema)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        text(out, key);
        out.push(b':');
        write(out, item, schema, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn write(out: &mut Vec<u8>, value: &Value, schema: &'static Schema, depth: usize) -> Result<(), Refused> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Number(value) => number(out, value, schema),
        Value::String(value) => text(out, value),
        Value::Array(items) => {
            check_depth(depth + 1)?;
            let of = if let Form::Array(of, ..) = schema.form { of } else { &OPEN };
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, item, of, depth + 1)?;
            }
            out.push(b']');
        }
        Value::Object(value) => match schema.form {
            Form::Object(fields) => object(out, value, fields, depth + 1)?,
            Form::Map(of) => sorted(out, value, of, depth + 1)?,
            _ => sorted(out, value, &OPEN, depth + 1)?,
        },
    }
    Ok(())
}

fn sorted(out: &mut Vec<u8>, value: &Map, of: &'static Schema, depth: usize) -> Result<(), Refused> {
    let mut members: Vec<_> = value.iter().map(|(key, item)| (key, item, of)).collect();
    members.sort_by_key(|(key, ..)| key.as_bytes());
    all(out, members, depth)
}

fn check_depth(depth: usize) -> Result<(), Refused> {
    if depth > MAX_DEPTH {
        return Err(Refused(format!("it is nested deeper than {MAX_DEPTH}")));
    }
    Ok(())
}

fn number(out: &mut Vec<u8>, value: &Number, schema: &Schema) {
    let text = match (&schema.form, value.integer_text()) {
        (Form::Number, _) => finite(value.as_f64()).map(binary64_text),
        (Form::Binary32, _) => Some(value.as_f32()).filter(|number| number.is_finite()).map(binary32_text),
        (_, Some(integer)) => Some(integer),
        (_, None) => finite(value.as_f64()).map(binary64_text),
    };
    out.extend_from_slice(text.as_deref().unwrap_or("null").as_bytes());
}

fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            8 => out.extend(b"\\b"),
            9 => out.extend(b"\\t"),
            10 => out.extend(b"\\n"),
            12 => out.extend(b"\\f"),
            13 => out.extend(b"\\r"),
            0..=0x1F => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
