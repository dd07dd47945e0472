//! Which profile a stream follows, and what its tables say.

use std::path::Path;

use crate::schema::{member, Field, KindTable, NumberPlace, ProfileTable};
use crate::tables::{MAX_LINE_BYTES, PROFILES};
use crate::tape::Node;
use crate::vet::Vetter;
use crate::Map;

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

    pub(crate) fn table(self) -> &'static ProfileTable {
        &PROFILES[self as usize]
    }

    /// Returns the kind of records with this name.
    pub(crate) fn kind(self, name: &str) -> Option<&'static KindTable> {
        self.table().kinds.iter().find(|kind| kind.is_record && kind.name == name)
    }
}

/// What tells the profile of a stream where its records do not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    /// The file is named as those of metrics/v1 are.
    pub is_metrics_file: bool,
    /// A kaun manifest lies beside it.
    pub has_manifest: bool,
}

impl Hints {
    /// Returns what the name of a file tells.
    pub fn of_name(name: &str) -> Hints {
        let file = Path::new(name).file_name().unwrap_or_default();
        Hints { is_metrics_file: file == Profile::Metrics.file(), has_manifest: false }
    }

    /// Returns what a path tells, and what lies beside it. Never fails: what cannot be read tells nothing.
    pub fn of_path(path: &Path) -> Hints {
        let hints = Hints::of_name(&path.to_string_lossy());
        let manifest = path.with_file_name("run.json");
        let readable =
            std::fs::metadata(&manifest).is_ok_and(|data| data.is_file() && data.len() <= MAX_LINE_BYTES as u64);
        let has_manifest = readable && std::fs::read(&manifest).is_ok_and(|text| is_manifest(&text));
        Hints { has_manifest, ..hints }
    }
}

/// Returns whether a text is a kaun manifest.
pub(crate) fn is_manifest(text: &[u8]) -> bool {
    let mut vetter = Vetter::default();
    vetter.vet(text, true);
    vetter.record(text).is_some_and(|value| value.get("schema_version").is_some())
}

/// Returns the profile of a stream by its first readable record, then by the hints.
pub(crate) fn detect(first: Option<Node>, hints: Hints) -> Profile {
    if let Some(first) = first {
        if first.get("kind").is_some() {
            return Profile::Toy;
        }
        if first.get("type").is_some() {
            return Profile::Kaun;
        }
        if first.get("step").is_some() && first.get("wall_time_ms").is_some() {
            return Profile::Metrics;
        }
    }
    match hints {
        Hints { is_metrics_file: true, .. } => Profile::Metrics,
        Hints { has_manifest: true, .. } => Profile::Kaun,
        _ => Profile::Toy,
    }
}
