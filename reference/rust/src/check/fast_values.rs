//! Proves values of fields free of problems.

use crate::check::containers::{anything, array, boolean, exact, object};
use crate::check::hot::{Said, MAX_PHASES};
use crate::check::roles::{Role, Roles};
use crate::check::words::{byte, integer, number, string, word, Token};
use crate::schema::{Constant, Field, Form, Schema};

/// What the fast path demands of a value.
#[derive(Clone)]
enum Check {
    /// An integer, not negative, up to a greatest value.
    Count(f64),
    Number(Option<(f64, f64)>),
    Binary32,
    Text,
    OneOf(Vec<Token>),
    Boolean,
    Array(Box<Nullable>, usize, usize),
    Map(Box<Nullable>),
    /// An object of any values.
    OpenMap,
    /// Never proven here.
    Exact,
}

#[derive(Clone)]
struct Nullable {
    check: Check,
    nullable: bool,
}

#[derive(Clone)]
pub(crate) struct FastField {
    /// The key with its quotes and its colon.
    pub key: Token,
    value: Nullable,
    role: Role,
}

impl FastField {
    /// Returns the field of a key that the schema does not declare.
    pub fn undeclared(key: &str) -> FastField {
        let value = Nullable { check: Check::Exact, nullable: false };
        FastField { key: Token::new(&format!("\"{key}\":")), value, role: Role::Nothing }
    }

    pub fn new(field: &'static Field, roles: &Roles) -> FastField {
        let key = Token::new(&format!("\"{}\":", field.name));
        FastField { key, value: Nullable::new(&field.schema), role: roles.role(field.name) }
    }

    /// Goes over the value and notes what it says.
    #[inline(always)]
    pub fn value(&self, text: &[u8], at: usize, said: &mut Said) -> Option<usize> {
        match (self.role, &self.value.check) {
            (Role::Clock, Check::Number(limits)) => {
                let literal = number(text, at)?;
                said.clock = literal.value(text)?;
                let (least, greatest) = limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                (least <= said.clock && said.clock <= greatest).then_some(literal.end)
            }
            (Role::Count, Check::Count(greatest)) => {
                let (value, end) = integer(text, at, said.floats)?;
                said.count = value;
                (value as f64 <= *greatest).then_some(end)
            }
            (Role::Phase, Check::OneOf(values)) => {
                let head = word(text, at)?;
                let index = values.iter().position(|value| value.is_at_with_head(head, text, at))?;
                said.phase = Some(index).filter(|index| *index < MAX_PHASES);
                said.phase.map(|index| at + values[index].length)
            }
            (Role::Loss, _) => {
                let end = self.value.skip(text, at, said)?;
                said.loss = Some((at, end));
                Some(end)
            }
            (Role::Nothing, _) => self.value.skip(text, at, said),
            _ => None,
        }
    }

    /// Goes over a value of another type than the schema allows, and counts it; None for a field that the rules that
    /// relate records need, and for one that was not proven for another reason.
    #[cold]
    #[inline(never)]
    pub fn wrong_type(&self, text: &[u8], at: usize, said: &mut Said) -> Option<usize> {
        let first = byte(text, at);
        let may_have_type = match &self.value.check {
            Check::Count(_) | Check::Number(_) | Check::Binary32 => matches!(first, b'-' | b'0'..=b'9'),
            Check::Text | Check::OneOf(_) => first == b'"',
            Check::Boolean => matches!(first, b't' | b'f'),
            Check::Array(..) => first == b'[',
            Check::Map(_) => first == b'{',
            // The integers in a value that should be an open map are looked at.
            Check::OpenMap | Check::Exact => true,
        };
        let is_open = matches!(self.role, Role::Nothing | Role::Loss);
        if may_have_type || !is_open || self.value.nullable && first == b'n' {
            return None;
        }
        said.wrong_types += 1;
        anything(text, at, 0)
    }
}

impl Nullable {
    fn new(schema: &'static Schema) -> Nullable {
        Nullable { check: Check::new(schema), nullable: schema.nullable }
    }

    #[inline(always)]
    fn skip(&self, text: &[u8], at: usize, said: &mut Said) -> Option<usize> {
        if byte(text, at) == b'n' {
            said.has_null = true;
            return (self.nullable && text.get(at..at + 4)? == b"null").then_some(at + 4);
        }
        match &self.check {
            Check::Number(None) => number(text, at).map(|literal| literal.end),
            Check::Number(Some((least, greatest))) => {
                let literal = number(text, at)?;
                let value = literal.value(text)?;
                (*least <= value && value <= *greatest).then_some(literal.end)
            }
            Check::Count(greatest) => {
                let (value, end) = integer(text, at, said.floats)?;
                (value as f64 <= *greatest).then_some(end)
            }
            Check::Binary32 => {
                let literal = number(text, at)?;
                let is_small = literal.is_small()
                    || literal.value(text).is_some_and(|value| value.abs() < crate::tables::BINARY32_LIMIT);
                is_small.then_some(literal.end)
            }
            other => other.skip(text, at, said),
        }
    }
}

impl Check {
    fn new(schema: &'static Schema) -> Check {
        if schema.pattern.is_some() || schema.date_time {
            return Check::Exact;
        }
        match &schema.form {
            Form::Integer if schema.values.is_empty() => match schema.limits {
                Some((0.0, greatest)) => Check::Count(greatest),
                _ => Check::Exact,
            },
            Form::Number => Check::Number(schema.limits),
            Form::Binary32 => Check::Binary32,
            Form::Boolean => Check::Boolean,
            Form::String if schema.values.is_empty() => Check::Text,
            Form::String => Check::OneOf(schema.values.iter().filter_map(quoted).collect()),
            Form::Array(of, least, most) => Check::Array(Box::new(Nullable::new(of)), *least, *most),
            Form::Map(of) => Check::Map(Box::new(Nullable::new(of))),
            Form::OpenMap => Check::OpenMap,
            _ => Check::Exact,
        }
    }

    fn skip(&self, text: &[u8], at: usize, said: &mut Said) -> Option<usize> {
        match self {
            Check::Text => (byte(text, at) == b'"').then(|| string(text, at + 1, true))?,
            Check::OneOf(values) => values.iter().find(|value| value.is_at(text, at)).map(|value| at + value.length),
            Check::Boolean => boolean(text, at),
            Check::Array(of, least, most) => {
                let mut items = 0;
                let end = array(text, at, |at| {
                    items += 1;
                    of.skip(text, at, said)
                })?;
                (*least..=*most).contains(&items).then_some(end)
            }
            Check::Map(of) => object(text, at, |at| match of.check {
                // An integer that is not exact is a finding in a map of numbers too.
                Check::Number(None) | Check::Binary32 if byte(text, at) != b'n' => {
                    let literal = number(text, at).filter(|literal| literal.is_safe())?;
                    let is_open = matches!(of.check, Check::Number(None)) || literal.is_small();
                    if is_open {
                        Some(literal.end)
                    } else {
                        of.skip(text, at, said)
                    }
                }
                _ => of.skip(text, at, said),
            }),
            Check::OpenMap => object(text, at, |at| exact(text, at, 0)),
            _ => None,
        }
    }
}

fn quoted(constant: &Constant) -> Option<Token> {
    match constant {
        Constant::Text(text) => Some(Token::new(&format!("\"{text}\""))),
        Constant::Integer(_) => None,
    }
}
