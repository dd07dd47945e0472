//! Which profile a stream follows, and what its tables say.

use std::path::Path;

use crate::line_validation::LineValidator;
use crate::record::Integers;
use crate::schema::{member, Field, Form, KindTable, NumberPlace, ProfileTable, Schema};
use crate::tables::{MAX_LINE_BYTES, PROFILES};
use crate::tape::{Kind, Node};
use crate::{Map, Value};

/// The format that a stream follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Runs of language models with everything that happens in them.
    Toy,
    /// One entry of metrics for each optimizer step.
    Metrics,
    /// One value of one metric at a time, with a manifest.
    Kaun,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 3] = [Profile::Toy, Profile::Metrics, Profile::Kaun];

    /// Returns the name, for example `toy/v1`.
    pub fn name(self) -> &'static str {
        self.table().name
    }

    /// Returns the profile with this name.
    pub fn of(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Returns the name that a stream has in a bundle.
    pub fn file(self) -> &'static str {
        self.table().file
    }

    /// Returns the key whose value names the kind of a record; None where all records are of one kind.
    pub fn tag(self) -> Option<&'static str> {
        self.table().tag
    }

    /// Returns how the schema types a number that is a member of a record.
    pub fn number_place(self, record: &Map, key: &str) -> NumberPlace {
        let kind = self.tag().map_or(Some("entry"), |tag| record.get(tag).and_then(|value| value.as_str()));
        let fields: &[Field] = kind.and_then(|kind| self.kind(kind)).map_or(&[], |kind| kind.fields);
        NumberPlace(member(fields, key))
    }

    /// Makes integers of the numbers in a record that the schema types as integers, however they are written.
    pub(crate) fn take_integers(self, record: &mut Map) {
        if Integers::of(self) == Integers::Written || !record.iter().any(|(_, value)| may_change(value)) {
            return;
        }
        let kind = self.tag().map_or(Some("entry"), |tag| record.get(tag).and_then(|value| value.as_str()));
        if let Some(kind) = kind.and_then(|kind| self.kind(kind)) {
            take_members(record, |key| member(kind.fields, key));
        }
    }

    pub(crate) fn table(self) -> &'static ProfileTable {
        &PROFILES[self as usize]
    }

    /// Returns the kind of records with this name.
    pub(crate) fn kind(self, name: &str) -> Option<&'static KindTable> {
        self.table().kinds.iter().find(|kind| kind.is_record && kind.name == name)
    }
}

fn may_change(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_integer(),
        Value::Array(_) | Value::Object(_) => true,
        _ => false,
    }
}

fn take_members(members: &mut Map, schema: impl Fn(&str) -> Option<&'static Schema>) {
    for (key, value) in members.iter_mut().filter(|(_, value)| may_change(value)) {
        if let Some(schema) = schema(key) {
            take_integer(value, schema);
        }
    }
}

fn take_integer(value: &mut Value, schema: &'static Schema) {
    match (value, &schema.form) {
        (Value::Number(number), Form::Integer) => {
            if let Some(integer) = number.integer_value() {
                *number = integer;
            }
        }
        (Value::Object(members), Form::Object(fields)) => take_members(members, |key| member(fields, key)),
        (Value::Object(members), Form::Map(of)) => take_members(members, |_| Some(of)),
        (Value::Array(items), Form::Array(of, ..)) => items.iter_mut().for_each(|item| take_integer(item, of)),
        _ => {}
    }
}

/// What shows the profile of a stream where its records do not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    pub name: StreamName,
    /// A kaun manifest is beside it.
    pub has_manifest: bool,
}

/// What the name of a file implies for the stream in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamName {
    /// There is no file, or it is named as streams of toy/v1 and kaun/v1 are.
    #[default]
    Events,
    /// It is named as streams of metrics/v1 are.
    Metrics,
    Other,
}

impl Hints {
    /// Returns what the name of a file shows, empty where there is no file.
    pub fn of_name(name: &str) -> Hints {
        let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
        let name = match file.strip_suffix(COMPRESSED).unwrap_or(&file) {
            "" => StreamName::Events,
            name if name == Profile::Toy.file() => StreamName::Events,
            name if name == Profile::Metrics.file() => StreamName::Metrics,
            _ => StreamName::Other,
        };
        Hints { name, has_manifest: false }
    }

    /// Returns what a path shows, and what is beside it. Never fails: what cannot be read shows nothing.
    pub fn of_path(path: &Path) -> Hints {
        let hints = Hints::of_name(&path.to_string_lossy());
        let manifest = path.with_file_name("run.json");
        let readable =
            std::fs::metadata(&manifest).is_ok_and(|data| data.is_file() && data.len() <= MAX_LINE_BYTES as u64);
        let text = readable.then(|| std::fs::read(&manifest).unwrap_or_default());
        Hints { has_manifest: text.is_some_and(|text| is_manifest(&text)), ..hints }
    }
}

/// How the name of a compressed stream ends.
pub(crate) const COMPRESSED: &str = ".gz";

/// Returns whether a text is a kaun manifest.
pub(crate) fn is_manifest(text: &[u8]) -> bool {
    let mut validator = LineValidator::default();
    validator.validate(text, true);
    validator.record(text).is_some_and(|value| value.get("run_id").is_some() && value.get("kind").is_none())
}

/// Returns the profile of a stream by its first readable record; None where it has none.
pub(crate) fn detect(first: Node, hints: Hints) -> Option<Profile> {
    let text = |key: &str| first.get(key).filter(|value| value.kind() == Kind::String);
    let is_number = |value: Node| value.kind() == Kind::Number;
    if text("kind").is_some_and(|kind| kind.is_named("run_start") || first.get("t").is_some_and(is_number)) {
        return Some(Profile::Toy);
    }
    if text("type").is_some_and(|kind| kind.is_named("scalar")) {
        return Some(Profile::Kaun);
    }
    if first.get("step").is_some() && first.get("wall_time_ms").is_some() {
        return Some(Profile::Metrics);
    }
    hints.has_manifest.then_some(Profile::Kaun)
}

/// Returns the profile of a stream without readable record, of which a line may be unreadable; None where it has none.
pub(crate) fn detect_without_record(hints: Hints, has_gap: bool) -> Option<Profile> {
    match hints {
        Hints { name: StreamName::Metrics, .. } => Some(Profile::Metrics),
        Hints { has_manifest: true, .. } => Some(Profile::Kaun),
        Hints { name: StreamName::Other, .. } if has_gap => None,
        _ => Some(Profile::Toy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest that is longer than a line may be shows nothing.
    #[test]
    fn a_manifest_has_the_limit_of_a_line() {
        let folder = std::env::temp_dir().join(format!("toyspec-manifest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let has_manifest = |spaces: usize| {
            std::fs::write(folder.join("run.json"), format!("{{\"run_id\":\"r\"}}{}", " ".repeat(spaces))).unwrap();
            Hints::of_path(&folder.join("events.jsonl")).has_manifest
        };
        let found = [has_manifest(0), has_manifest(MAX_LINE_BYTES)];
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!([true, false], found);
    }
}
