//! The types that the generated tables are made of.

use crate::tables::{Rule, RULES, RULE_FACTS, RULE_PROFILES};

/// How severe a finding is: an error makes a stream invalid, a warning and an info do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The stream is invalid.
    Error,
    /// The stream is valid, and something is likely wrong.
    Warning,
    /// Worth knowing.
    Info,
}

impl Severity {
    /// Returns the name of the severity.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

pub(crate) type RuleFacts = (&'static str, [&'static str; 3], [Severity; 3], Option<Severity>);

impl Rule {
    /// Returns the id of the rule.
    pub fn id(self) -> &'static str {
        RULE_FACTS[self as usize].0
    }

    /// Returns what to do about it in a profile.
    pub fn help(self, profile: crate::Profile) -> &'static str {
        RULE_FACTS[self as usize].1[profile as usize]
    }

    /// Returns the severity in a profile; `at_end` says that the place is after the last LF.
    pub fn severity(self, profile: crate::Profile, at_end: bool) -> Severity {
        let (_, _, by_profile, last) = RULE_FACTS[self as usize];
        last.filter(|_| at_end).unwrap_or(by_profile[profile as usize])
    }

    /// Returns whether the rule is one of a profile.
    pub(crate) fn applies(self, profile: crate::Profile) -> bool {
        RULE_PROFILES[self as usize][profile as usize]
    }

    /// Returns the rule with this id.
    pub fn of(id: &str) -> Option<Rule> {
        RULES.into_iter().find(|rule| rule.id() == id)
    }
}

/// Offset and bytes that a file is known by, what it is, and what reads it.
pub(crate) type Start = (usize, &'static [u8], &'static str, Option<&'static str>);

/// The form of a first line that a file is known by, what it is, and what reads it.
pub(crate) type FirstLine = (&'static str, &'static str, Option<&'static str>);

pub struct ProfileTable {
    pub name: &'static str,
    pub tag: Option<&'static str>,
    pub file: &'static str,
    /// The kind that ends a complete stream; None where any record may.
    pub last: Option<&'static str>,
    /// The kind of the record after which a stream that had ended goes on.
    pub reopened_by: Option<&'static str>,
    pub phase: Option<PhaseTable>,
    pub kinds: &'static [KindTable],
    pub rules: &'static [StreamRule],
}

pub struct PhaseTable {
    pub field: &'static str,
    pub from: &'static str,
    pub default: &'static str,
}

pub struct KindTable {
    pub name: &'static str,
    /// False for what is in a file beside the stream.
    pub is_record: bool,
    pub fields: &'static [Field],
}

pub struct Field {
    pub name: &'static str,
    pub required: bool,
    /// An empty map is written where there is none.
    pub always: bool,
    /// The field names the schema that the stream follows.
    pub declares: bool,
    pub schema: Schema,
}

pub struct Schema {
    pub form: Form,
    pub nullable: bool,
    /// The least and the greatest value of a number.
    pub limits: Option<(f64, f64)>,
    /// The values that are allowed; all where it is empty.
    pub values: &'static [Constant],
    pub pattern: Option<Pattern>,
    pub date_time: bool,
}

impl Schema {
    /// The schema of what has none.
    pub const OPEN: Schema =
        Schema { form: Form::Open, nullable: false, limits: None, values: &[], pattern: None, date_time: false };
}

pub enum Form {
    /// Any value.
    Open,
    Integer,
    Number,
    Binary32,
    String,
    Boolean,
    /// An object of any values.
    OpenMap,
    /// An object of declared members.
    Object(&'static [Field]),
    /// An object with values of one type.
    Map(&'static Schema),
    /// An array with items of one type, and the least and the greatest number of them.
    Array(&'static Schema, usize, usize),
}

pub enum Constant {
    Text(&'static str),
    Integer(i64),
}

/// A form of strings: characters that are excluded, and how many there may be.
pub struct Pattern {
    pub excluded: &'static [(char, char)],
    pub least: usize,
    pub most: usize,
}

impl Pattern {
    pub fn matches(&self, text: &str) -> bool {
        let allowed = |c: char| !self.excluded.iter().any(|&(low, high)| low <= c && c <= high);
        text.chars().all(allowed) && (self.least..=self.most).contains(&text.chars().count())
    }
}

/// A rule that relates records, as `stream.json` has it.
pub enum StreamRule {
    RankOfFile {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
    },
    SameRun {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
    },
    Filed {
        rule: Rule,
        kind: &'static str,
        hash: &'static str,
        media_type: &'static str,
    },
    LessThan {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
        than: &'static str,
    },
    Differs {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
        pointer: &'static str,
    },
    Inside {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
    },
    Counted {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
    },
    First {
        rule: Rule,
        kind: &'static str,
    },
    Once {
        rule: Rule,
        kind: &'static str,
    },
    Last {
        rule: Rule,
        kind: &'static str,
    },
    Present {
        rule: Rule,
        kind: &'static str,
    },
    Monotone {
        rule: Rule,
        field: &'static str,
        repeats: bool,
        cleared: bool,
    },
    Sequence {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
        skipped: Rule,
        unless: &'static str,
        restart_kind: &'static str,
        restart_field: &'static str,
        restart_phase: &'static str,
    },
    SameAsLast {
        rule: Rule,
        kind: &'static str,
        field: &'static str,
        of_kind: &'static str,
        of_field: &'static str,
        of_phase: &'static str,
        /// Whether the field may also be smaller.
        smaller: bool,
    },
    Nested {
        rule: Rule,
        enter: &'static str,
        exit: &'static str,
        field: &'static str,
        closed_by: &'static str,
    },
    Requires {
        rule: Rule,
        kind: &'static str,
        when: Option<(&'static str, &'static str)>,
        needs_kind: Option<&'static str>,
        needs: &'static str,
    },
    NullNumber {
        rule: Rule,
        fields: &'static [&'static str],
    },
}

/// How the schema types a number at a place in a record.
#[derive(Clone, Copy)]
pub struct NumberPlace(pub(crate) Option<&'static Schema>);

impl NumberPlace {
    /// The place of a number that no schema types.
    pub const NONE: NumberPlace = NumberPlace(None);

    /// Returns the place of a member of an object at this place.
    pub fn inside(self, key: &str) -> NumberPlace {
        NumberPlace(match self.0.map(|schema| &schema.form) {
            Some(Form::Object(fields)) => member(fields, key),
            Some(Form::Map(of)) => Some(of),
            _ => None,
        })
    }

    /// Returns the place of the items of an array at this place.
    pub fn item(self) -> NumberPlace {
        NumberPlace(match self.0.map(|schema| &schema.form) {
            Some(Form::Array(of, ..)) => Some(of),
            _ => None,
        })
    }

    /// Returns whether a number here is a float, however it is written.
    pub fn is_number(self) -> bool {
        matches!(self.0, Some(Schema { form: Form::Number | Form::Binary32, .. }))
    }

    /// Returns whether a number here is binary32.
    pub fn is_binary32(self) -> bool {
        matches!(self.0, Some(Schema { form: Form::Binary32, .. }))
    }
}

pub(crate) fn member(fields: &'static [Field], key: &str) -> Option<&'static Schema> {
    fields.iter().find(|field| field.name == key).map(|field| &field.schema)
}
