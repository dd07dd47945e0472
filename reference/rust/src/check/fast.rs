//! Proves lines free of faults in one pass, without building values. Whatever is not proven takes the exact path.

use crate::check::containers::{anything, array, boolean, object};
use crate::check::hot::{Hot, Said, MAX_PHASES};
use crate::check::roles::{Role, Roles};
use crate::check::rules::StreamRules;
use crate::check::words::{byte, count, number, space, string, word, Token};
use crate::schema::{Constant, Field, Form, KindTable, Schema, StreamRule};
use crate::Profile;

/// What the fast path demands of a value.
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

struct Nullable {
    check: Check,
    nullable: bool,
}

struct FastField {
    /// The key with its quotes and its colon.
    key: Token,
    value: Nullable,
    role: Role,
}

struct FastKind {
    /// The beginning of a canonical line, up to the value of its tag.
    prefix: Token,
    /// The name with its quotes.
    name: Token,
    /// False for a kind that rules between lines wait for.
    is_open: bool,
    is_step: bool,
    fields: Vec<FastField>,
    required: u64,
    /// The field that came behind each the last time; the one before the first is the last entry.
    next: Vec<u8>,
}

/// Goes over lines of one profile.
pub(crate) struct Fast {
    tag: Option<Token>,
    kinds: Vec<FastKind>,
    /// The kind of the line before.
    current: usize,
    phases: Vec<&'static str>,
    is_rising: bool,
}

/// What the fast path has taken in.
#[derive(Default)]
pub(crate) struct Taken {
    pub lines: u64,
    pub bytes: usize,
    /// Start of the last line.
    pub last: usize,
}

impl Fast {
    pub fn new(profile: Profile) -> Fast {
        let table = profile.table();
        let roles = Roles::of(profile);
        let kinds: Vec<FastKind> = table
            .kinds
            .iter()
            .filter(|kind| kind.is_record)
            .map(|kind| FastKind::new(kind, &roles, table.tag))
            .collect();
        let is_rising = table.rules.iter().any(|rule| matches!(rule, StreamRule::Monotone { repeats: false, .. }));
        let tag = table.tag.map(|tag| Token::new(&format!("\"{tag}\"")));
        Fast { tag, kinds, current: 0, phases: roles.phases, is_rising }
    }

    /// Takes in the lines at the start of a text that are proven; `text` is whole lines of UTF-8.
    pub fn run(&mut self, text: &[u8], rules: &mut StreamRules, limit: usize) -> Taken {
        let mut taken = Taken::default();
        let Some(mut hot) = Hot::load(rules, &self.phases) else { return taken };
        while let Some(end) = self.line(text, taken.bytes, &mut hot, limit) {
            taken.last = taken.bytes;
            taken.bytes = end;
            taken.lines += 1;
        }
        hot.store(rules, &self.phases, text);
        taken
    }

    /// Returns where the next line begins when the one at `start` is proven and breaks no rule.
    #[inline(always)]
    fn line(&mut self, text: &[u8], start: usize, hot: &mut Hot, limit: usize) -> Option<usize> {
        let prefix = &self.kinds[self.current].prefix;
        let at = if prefix.is_at(text, start) { start + prefix.length } else { self.find_kind(text, start)? };
        let kind = &mut self.kinds[self.current];
        if !kind.is_open {
            return None;
        }
        let (end, said) = kind.members(text, at, self.tag.is_some())?;
        if end - start > limit || byte(text, end) != b'\n' {
            return None;
        }
        let is_quiet = if self.is_rising { hot.take_rising(&said) } else { hot.take(&said, kind.is_step) };
        is_quiet.then_some(end + 1)
    }

    /// Finds the kind of a line whose first member is its tag; returns where what follows begins.
    fn find_kind(&mut self, text: &[u8], start: usize) -> Option<usize> {
        if byte(text, start) != b'{' {
            return None;
        }
        let at = space(text, start + 1);
        let Some(tag) = &self.tag else { return Some(at) };
        if !tag.is_at(text, at) {
            return None;
        }
        let colon = space(text, at + tag.length);
        if byte(text, colon) != b':' {
            return None;
        }
        let value = space(text, colon + 1);
        self.current = self.kinds.iter().position(|kind| kind.name.is_at(text, value))?;
        Some(value + self.kinds[self.current].name.length)
    }
}

impl FastKind {
    fn new(kind: &'static KindTable, roles: &Roles, tag: Option<&'static str>) -> FastKind {
        let name = Token::new(&format!("\"{}\"", kind.name));
        let prefix = Token::new(&tag.map_or("{".to_string(), |tag| format!("{{\"{tag}\":\"{}\"", kind.name)));
        let declared = kind.fields.iter().filter(|field| Some(field.name) != tag);
        let fields: Vec<FastField> = declared.map(|field| FastField::new(field, roles)).collect();
        let required = kind.fields.iter().filter(|field| Some(field.name) != tag).enumerate();
        let required = required.filter(|(_, field)| field.required).fold(0, |mask, (index, _)| mask | 1 << index);
        let is_open = !roles.awaited.contains(&kind.name) && fields.len() < 64;
        let next = (1..=fields.len() as u8).chain([0]).collect();
        FastKind { prefix, name, is_open, is_step: roles.step_kind == Some(kind.name), fields, required, next }
    }

    /// Goes over members up to the closing bracket; returns where the text behind it begins, and what they say.
    #[inline(always)]
    fn members(&mut self, text: &[u8], mut at: usize, mut behind_one: bool) -> Option<(usize, Said)> {
        let mut said = Said { clock: f64::INFINITY, count: 0, phase: None, loss: None, has_null: false };
        let mut seen = 0_u64;
        let mut before = self.fields.len();
        loop {
            at = space(text, at);
            match byte(text, at) {
                b'}' => break,
                b',' if behind_one => at = space(text, at + 1),
                _ if behind_one => return None,
                _ => {}
            }
            behind_one = true;
            let head = word(text, at)?;
            let mut index = self.next[before] as usize;
            if !self.fields.get(index).is_some_and(|field| field.key.is_behind(head, text, at)) {
                index = self.fields.iter().position(|field| field.key.is_behind(head, text, at))?;
                self.next[before] = index as u8;
            }
            let field = &self.fields[index];
            if seen & 1 << index != 0 {
                return None;
            }
            seen |= 1 << index;
            before = index;
            at = space(text, at + field.key.length);
            at = field.value(text, at, &mut said)?;
        }
        (seen & self.required == self.required).then_some((at + 1, said))
    }
}

impl FastField {
    fn new(field: &'static Field, roles: &Roles) -> FastField {
        let key = Token::new(&format!("\"{}\":", field.name));
        FastField { key, value: Nullable::new(&field.schema), role: roles.role(field.name) }
    }

    /// Goes over the value and notes what it says.
    #[inline(always)]
    fn value(&self, text: &[u8], at: usize, said: &mut Said) -> Option<usize> {
        match (self.role, &self.value.check) {
            (Role::Clock, Check::Number(limits)) => {
                let literal = number(text, at)?;
                said.clock = literal.value(text)?;
                let (least, greatest) = limits.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                (least <= said.clock && said.clock <= greatest).then_some(literal.end)
            }
            (Role::Count, Check::Count(greatest)) => {
                let (value, end) = count(text, at)?;
                said.count = value;
                (value as f64 <= *greatest).then_some(end)
            }
            (Role::Phase, Check::OneOf(values)) => {
                let head = word(text, at)?;
                let index = values.iter().position(|value| value.is_behind(head, text, at))?;
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
                let (value, end) = count(text, at)?;
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
            Check::OpenMap => object(text, at, |at| anything(text, at, 0)),
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
