//! Checks one record against its schema and names every problem in it: see spec/checking.md.

use std::fmt::Display;

use crate::dates::is_date_time;
use crate::line_validation::Problem;
use crate::messages;
use crate::nearest::nearest;
use crate::numbers::integer_of;
use crate::phrases::{constant_text, noun, shown, typed};
use crate::schema::{Constant, Field, Form, KindTable, Schema};
use crate::tables::{Rule, BINARY32_LIMIT, MAX_SAFE_INTEGER};
use crate::tape::{push_token, Kind, Node};
use crate::{escape::shortened, Profile};

/// Which numbers are integers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integers {
    /// Those of digits only: what writers write, and what metrics/v1 accepts.
    Written,
    /// Those whose value is an integer.
    ByValue,
}

impl Integers {
    /// Returns what readers of a profile accept.
    pub fn of(profile: Profile) -> Integers {
        if Rule::IntegerAsFloat.applies(profile) {
            Integers::ByValue
        } else {
            Integers::Written
        }
    }
}

/// A key that the schema does not declare.
pub(crate) struct UnknownKey<'t> {
    /// The key with those of the objects around it, array indexes left out.
    pub path: String,
    pub pointer: String,
    pub at: usize,
    key: Node<'t>,
    object: Node<'t>,
    fields: &'static [Field],
}

impl UnknownKey<'_> {
    /// Returns the declared key that was probably meant: one that the object does not have.
    pub fn meant(&self) -> Option<&'static str> {
        let names = self.fields.iter().map(|field| field.name);
        nearest(&self.key.string(), names.filter(|name| self.object.get(name).is_none()))
    }

    /// Returns the key as it is in the line, where that is without escapes.
    pub fn plain(&self) -> Option<&str> {
        std::str::from_utf8(self.key.body()).ok().filter(|key| !key.contains('\\') && *key == self.path)
    }
}

/// What is wrong with one record.
#[derive(Default)]
pub(crate) struct Validation<'t> {
    /// Missing keys of one object are in the order of the schema.
    pub problems: Vec<Problem>,
    pub unknown: Vec<UnknownKey<'t>>,
    /// The first integer that is written with a fraction or an exponent.
    pub integer_as_float: Option<Problem>,
}

impl Validation<'_> {
    /// Returns the fields that have an error of their own, and take no part in the rules that relate records.
    pub fn invalid_fields(&self) -> impl Iterator<Item = &str> {
        let errors = self.problems.iter().filter(|problem| problem.rule != Rule::UnsafeInteger);
        errors.map(|problem| problem.pointer[1..].split('/').next().unwrap_or_default())
    }
}

/// Checks a record, or a manifest, of a kind.
pub(crate) fn validate<'t>(kind: &'static KindTable, record: Node<'t>, integers: Integers) -> Validation<'t> {
    let mut validator = RecordValidator { kind: kind.name, integers, found: Validation::default() };
    validator.object(record, kind.fields, Trail::Root);
    validator.found
}

/// The keys and indexes that lead to a value; they become text only where something is wrong.
#[derive(Clone, Copy)]
enum Trail<'a> {
    Root,
    Key(&'a Trail<'a>, Node<'a>),
    Name(&'a Trail<'a>, &'static str),
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn pointer(&self) -> String {
        let (mut pointer, token) = match self {
            Trail::Root => return String::new(),
            Trail::Key(outer, key) => (outer.pointer(), key.string()),
            Trail::Name(outer, name) => (outer.pointer(), (*name).into()),
            Trail::Index(outer, index) => (outer.pointer(), index.to_string().into()),
        };
        pointer.push('/');
        push_token(&mut pointer, &token);
        pointer
    }

    /// Returns the keys of objects, with dots between them.
    fn path(&self) -> String {
        let (outer, key) = match self {
            Trail::Root => return String::new(),
            Trail::Key(outer, key) => (outer, key.string()),
            Trail::Name(outer, name) => (outer, (*name).into()),
            Trail::Index(outer, _) => return outer.path(),
        };
        match outer.path() {
            path if path.is_empty() && matches!(outer, Trail::Root) => key.into_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn shown(&self) -> String {
        let pointer = self.pointer();
        shortened(pointer.strip_prefix('/').unwrap_or(&pointer))
    }
}

struct RecordValidator<'t> {
    kind: &'static str,
    integers: Integers,
    found: Validation<'t>,
}

impl<'t> RecordValidator<'t> {
    fn add(&mut self, rule: Rule, node: Node, trail: Trail, message: String) {
        self.found.problems.push(Problem { rule, at: node.at(), pointer: trail.pointer(), message });
    }

    /// Reports a value that its schema does not allow.
    fn report(&mut self, rule: Rule, value: Node, trail: Trail, found: String, expected: impl Display) {
        self.add(rule, value, trail, messages::unexpected(trail.shown(), found, expected));
    }

    fn object(&mut self, object: Node<'t>, fields: &'static [Field], trail: Trail) {
        let mut present = 0_u128;
        let mut next = 0;
        for (key, value) in object.members() {
            let inner = Trail::Key(&trail, key);
            // Keys mostly come in the order of the schema.
            let later = fields[next..].iter().position(|field| key.is_named(field.name)).map(|index| next + index);
            match later.or_else(|| fields[..next].iter().position(|field| key.is_named(field.name))) {
                Some(index) => {
                    present |= 1 << index;
                    next = index + 1;
                    self.field(value, &fields[index], inner);
                }
                None => {
                    let (path, pointer) = (inner.path(), inner.pointer());
                    self.found.unknown.push(UnknownKey { path, pointer, at: value.at(), key, object, fields });
                }
            }
        }
        for (index, field) in fields.iter().enumerate() {
            if field.required && present & 1 << index == 0 {
                let pointer = trail.pointer();
                let place = if pointer.is_empty() { self.kind.to_string() } else { shortened(&pointer[1..]) };
                let message = messages::missing_key(field.name, place);
                self.add(Rule::MissingKey, object, Trail::Name(&trail, field.name), message);
            }
        }
    }

    fn field(&mut self, value: Node<'t>, field: &'static Field, trail: Trail) {
        let before = self.found.problems.len();
        self.value(value, &field.schema, trail);
        if field.declares {
            for problem in &mut self.found.problems[before..] {
                if problem.rule == Rule::UnexpectedValue {
                    problem.rule = Rule::UnsupportedSchema;
                }
            }
        }
    }

    fn value(&mut self, value: Node<'t>, schema: &'static Schema, trail: Trail) {
        if value.kind() == Kind::Null && schema.nullable {
            return;
        }
        if !self.has_type(value, &schema.form, trail) {
            self.report(Rule::WrongType, value, trail, typed(value), noun(schema));
            return;
        }
        match &schema.form {
            Form::Integer | Form::Number | Form::Binary32 => self.number(value, schema, trail),
            Form::String => self.text(value, schema, trail),
            Form::Object(fields) => self.object(value, fields, trail),
            Form::Open | Form::OpenMap => self.unsafe_integers(value, trail),
            Form::Map(of) => self.map(value, of, trail),
            Form::Array(of, least, most) => {
                let count = value.items().count();
                if !(*least..=*most).contains(&count) {
                    let expected = if count < *least {
                        messages::expected_at_least(least)
                    } else {
                        messages::expected_at_most(most)
                    };
                    let message = messages::unexpected_length(trail.shown(), count, expected);
                    self.add(Rule::OutOfRange, value, trail, message);
                }
                for (index, item) in value.items().enumerate() {
                    self.value(item, of, Trail::Index(&trail, index));
                }
            }
            Form::Boolean => {}
        }
    }

    fn map(&mut self, value: Node<'t>, of: &'static Schema, trail: Trail) {
        for (key, item) in value.members() {
            let before = self.found.problems.len();
            self.value(item, of, Trail::Key(&trail, key));
            // Values of a map are written as they come: an integer literal there must be exact.
            if before == self.found.problems.len() && !matches!(of.form, Form::Integer) && item.is_integer() {
                self.unsafe_integers(item, Trail::Key(&trail, key));
            }
        }
    }

    fn has_type(&mut self, value: Node, form: &Form, trail: Trail) -> bool {
        match form {
            Form::Open => true,
            Form::Integer => value.is_integer() || self.is_integer_as_float(value, trail),
            Form::Number | Form::Binary32 => value.kind() == Kind::Number,
            Form::String => value.kind() == Kind::String,
            Form::Boolean => matches!(value.kind(), Kind::True | Kind::False),
            Form::OpenMap | Form::Object(_) | Form::Map(_) => value.kind() == Kind::Object,
            Form::Array(..) => value.kind() == Kind::Array,
        }
    }

    /// Returns whether a value is an integer that is written with a fraction or an exponent, and notes the first.
    fn is_integer_as_float(&mut self, value: Node, trail: Trail) -> bool {
        if value.kind() != Kind::Number || self.integers == Integers::Written {
            return false;
        }
        if integer_of(value.literal()).is_none() {
            return false;
        }
        if self.found.integer_as_float.is_none() {
            let written = shortened(value.literal());
            let message = messages::integer_as_float(trail.shown(), written);
            let pointer = trail.pointer();
            self.found.integer_as_float =
                Some(Problem { rule: Rule::IntegerAsFloat, at: value.at(), pointer, message });
        }
        true
    }

    fn number(&mut self, value: Node, schema: &'static Schema, trail: Trail) {
        if let (Form::Number, None, []) = (&schema.form, schema.limits, schema.values) {
            return;
        }
        let number: f64 = value.literal().parse().unwrap_or(f64::NAN);
        let (least, greatest) = schema.limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let integer = || integer_of(value.literal()).unwrap_or_default();
        let shown = |value| if let Form::Integer = schema.form { shortened(&integer()) } else { shown(value) };
        let allowed = |constant: &Constant| matches!(constant, Constant::Integer(n) if integer() == n.to_string());
        if !schema.values.is_empty() && !schema.values.iter().any(allowed) {
            self.unexpected(value, schema, trail);
        } else if number < least {
            self.report(Rule::OutOfRange, value, trail, shown(value), messages::expected_at_least(least));
        } else if number > greatest {
            self.report(Rule::OutOfRange, value, trail, shown(value), messages::expected_at_most(greatest));
        } else if matches!(schema.form, Form::Binary32) && number.abs() >= BINARY32_LIMIT {
            self.report(Rule::OutOfRange, value, trail, shown(value), messages::EXPECTED_BINARY32);
        } else if let Form::Integer = schema.form {
            self.unsafe_integers(value, trail);
        }
    }

    fn text(&mut self, value: Node, schema: &'static Schema, trail: Trail) {
        let allowed = |constant: &Constant| matches!(constant, Constant::Text(known) if value.is_named(known));
        if !schema.values.is_empty() {
            if !schema.values.iter().any(allowed) {
                self.unexpected(value, schema, trail);
            }
            return;
        }
        if schema.pattern.as_ref().is_some_and(|pattern| !pattern.matches(&value.string())) {
            self.report(Rule::BadFormat, value, trail, shown(value), messages::EXPECTED_NAME);
        } else if schema.date_time && !is_date_time(&value.string()) {
            self.report(Rule::BadFormat, value, trail, shown(value), messages::EXPECTED_DATE_TIME);
        }
    }

    fn unexpected(&mut self, value: Node, schema: &'static Schema, trail: Trail) {
        let expected = match schema.values {
            [only] => constant_text(only),
            all => messages::expected_one_of(all.iter().map(constant_text).collect::<Vec<_>>().join(", ")),
        };
        let integer = integer_of(value.literal()).filter(|_| matches!(schema.form, Form::Integer));
        let found = integer.map_or_else(|| shown(value), |integer| shortened(&integer));
        self.report(Rule::UnexpectedValue, value, trail, found, expected);
    }

    /// Reports the integers in a value that binary64 may not hold exactly.
    fn unsafe_integers(&mut self, value: Node, trail: Trail) {
        match value.kind() {
            Kind::Number if value.is_integer() && is_unsafe(value.literal()) => {
                let expected = messages::expected_safe_integer(MAX_SAFE_INTEGER);
                self.report(Rule::UnsafeInteger, value, trail, shortened(value.literal()), expected);
            }
            Kind::Array => {
                for (index, item) in value.items().enumerate() {
                    self.unsafe_integers(item, Trail::Index(&trail, index));
                }
            }
            Kind::Object => {
                for (key, item) in value.members() {
                    self.unsafe_integers(item, Trail::Key(&trail, key));
                }
            }
            _ => {}
        }
    }
}

fn is_unsafe(literal: &str) -> bool {
    let digits = literal.trim_start_matches('-');
    digits.len() > 16 || digits.parse().is_ok_and(|number: u64| number > MAX_SAFE_INTEGER)
}
