//! The rules that hold between lines, made from the generated tables: see spec/stream.md.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::bundle_files::{leaves, media_file, MEDIA_FOLDER};
use crate::check::collect::{Identities, Identity};
use crate::check::hits::{Count, Hits, Scalar, Seen};
use crate::escape::shortened;
use crate::messages;
use crate::phrases::plain_number;
use crate::reader::{Mode, Options, Reader};
use crate::schema::{PhaseTable, StreamRule};
use crate::tables::{Rule, MAX_OPEN_REGIONS};
use crate::tape::{push_token, Kind};
use crate::Profile;

/// What the rules remember, one for each rule of the profile.
pub(crate) enum Memory {
    /// Whether the first record, or the record that is asked for, was seen.
    Done(bool),
    /// The line of the first record of the kind; 0 before it.
    Line(u64),
    /// The last number.
    Last(Option<f64>),
    /// The last count of each phase.
    Bases(Vec<(String, Count)>),
    /// What the last record of the other kind had, and whether the first of the own kind was seen.
    Other(Option<Scalar>, bool),
    /// The open regions with their names and lines; None once the rule is off.
    Open(Option<Vec<(Identity, String, u64)>>),
    Nothing,
}

/// Where a stream is: the directory of its run, and the rank that its name implies.
#[derive(Clone, Debug)]
pub(crate) struct RunPlace {
    pub directory: PathBuf,
    pub rank: u64,
}

/// What the first record of a kind says for the whole stream, and whether a gap came before.
#[derive(Default)]
pub(crate) struct Facts {
    pub gap_seen: bool,
    /// Where the stream is; None where it is not in a bundle.
    pub place: Option<RunPlace>,
    /// The phase of records that name none.
    pub phase: Option<String>,
    /// Whether the record that rules refer to was seen, whether steps are left out by intent, whether it has what is
    /// needed.
    start_seen: bool,
    pub subsampled: bool,
    has_needed: bool,
}

/// All rules that relate records of one profile, in the order of its `stream.json`.
pub(crate) struct StreamRules {
    pub profile: Profile,
    pub facts: Facts,
    pub memories: Vec<Memory>,
    /// Whether the run has ended, and has not gone on.
    ended: bool,
    identities: Identities,
    /// The rules whose findings are only counted from now on, with the number that was not yet collected.
    counted: Vec<(Rule, u64)>,
}

impl StreamRules {
    pub fn new(profile: Profile) -> StreamRules {
        let memory = |rule: &StreamRule| match rule {
            StreamRule::First { .. } | StreamRule::Present { .. } | StreamRule::NullNumber { .. } => {
                Memory::Done(false)
            }
            StreamRule::Once { .. } | StreamRule::Last { .. } => Memory::Line(0),
            StreamRule::Monotone { .. } => Memory::Last(None),
            StreamRule::Sequence { .. } => Memory::Bases(Vec::new()),
            StreamRule::SameAsLast { .. } => Memory::Other(None, false),
            StreamRule::Nested { .. } => Memory::Open(Some(Vec::new())),
            StreamRule::Requires { .. }
            | StreamRule::LessThan { .. }
            | StreamRule::Differs { .. }
            | StreamRule::Inside { .. }
            | StreamRule::Counted { .. }
            | StreamRule::RankOfFile { .. }
            | StreamRule::SameRun { .. }
            | StreamRule::Filed { .. } => Memory::Nothing,
        };
        let memories = profile.table().rules.iter().map(memory).collect();
        StreamRules {
            profile,
            facts: Facts::default(),
            memories,
            ended: false,
            identities: Identities::default(),
            counted: Vec::new(),
        }
    }

    /// Adds what is wrong at a record.
    pub fn observe(&mut self, seen: &Seen, hits: &mut Hits) {
        let table = self.profile.table();
        if self.ended && table.reopened_by.is_some_and(|kind| seen.is(kind)) {
            self.reopen();
        }
        self.ended |= table.last.is_some_and(|kind| seen.is(kind));
        let facts = &self.facts;
        let phase = phase_of(seen, table.phase.as_ref(), facts);
        for (rule, memory) in table.rules.iter().zip(&mut self.memories) {
            match (rule, memory) {
                (StreamRule::Sequence { .. }, Memory::Bases(bases)) => sequence(rule, bases, seen, facts, &phase, hits),
                (StreamRule::SameAsLast { .. }, Memory::Other(last, done)) => {
                    same_as_last(rule, last, done, seen, facts, &phase, hits);
                }
                (StreamRule::Nested { .. }, Memory::Open(open)) => nested(rule, open, seen, &self.identities, hits),
                (StreamRule::Requires { .. }, _) => requires(rule, seen, facts, hits),
                (
                    StreamRule::LessThan { kind, .. }
                    | StreamRule::Differs { kind, .. }
                    | StreamRule::Inside { kind, .. }
                    | StreamRule::Counted { kind, .. },
                    _,
                ) if seen.is(kind) => alone(rule, seen, hits),
                (
                    StreamRule::RankOfFile { kind, .. }
                    | StreamRule::SameRun { kind, .. }
                    | StreamRule::Filed { kind, .. },
                    _,
                ) if seen.is(kind) => in_bundle(rule, seen, facts, hits),
                (_, memory) => order(rule, memory, seen, facts, hits),
            }
        }
        self.take_facts(seen);
    }

    /// Takes note that the next findings of a rule are only counted.
    pub fn count_only(&mut self, rule: Rule) {
        if self.uncollected(rule).is_none() {
            self.counted.push((rule, 0));
        }
    }

    /// Returns how often a rule was broken since its findings are only counted; None where they are listed.
    pub fn uncollected(&self, rule: Rule) -> Option<u64> {
        self.counted.iter().find(|(known, _)| *known == rule).map(|(_, times)| *times)
    }

    /// Replaces what `uncollected` returned.
    pub fn set_uncollected(&mut self, rule: Rule, times: Option<u64>) {
        if let (Some(times), Some(known)) = (times, self.counted.iter_mut().find(|(known, _)| *known == rule)) {
            known.1 = times;
        }
    }

    /// Returns how often each rule was broken since the last call.
    pub fn collect(&mut self) -> impl Iterator<Item = (Rule, u64)> + '_ {
        let taken = self.counted.iter_mut().map(|(rule, times)| (*rule, std::mem::take(times)));
        taken.filter(|(_, times)| *times > 0)
    }

    /// Lets the run go on after its end: what its end has closed is open again.
    fn reopen(&mut self) {
        self.ended = false;
        for (rule, memory) in self.profile.table().rules.iter().zip(&mut self.memories) {
            match (rule, memory) {
                (StreamRule::Last { .. }, Memory::Line(line)) => *line = 0,
                (StreamRule::Present { .. }, Memory::Done(found)) => *found = false,
                (StreamRule::SameAsLast { .. }, Memory::Other(_, done)) => *done = false,
                (StreamRule::Nested { .. }, Memory::Open(open)) => *open = Some(Vec::new()),
                _ => {}
            }
        }
    }

    /// Takes note of an unreadable line.
    pub fn gap(&mut self) {
        self.facts.gap_seen = true;
        for (rule, memory) in self.profile.table().rules.iter().zip(&mut self.memories) {
            match (rule, memory) {
                (StreamRule::Monotone { cleared: true, .. }, Memory::Last(last)) => *last = None,
                (_, Memory::Bases(bases)) => bases.clear(),
                (_, Memory::Open(Some(open))) => open.clear(),
                _ => {}
            }
        }
    }

    /// Adds what is wrong at the end of a stream that has records and no fragment.
    pub fn finish(&self, hits: &mut Hits) {
        for (rule, memory) in self.profile.table().rules.iter().zip(&self.memories) {
            if let (StreamRule::Present { rule, kind }, Memory::Done(false)) = (rule, memory) {
                hits.line(*rule, || messages::run_end_missing(kind));
            }
        }
    }

    fn take_facts(&mut self, seen: &Seen) {
        let Some(PhaseTable { field, from, .. }) = &self.profile.table().phase else { return };
        // All facts come from the first record of one kind.
        if !seen.is(from) || self.facts.start_seen {
            return;
        }
        self.facts.start_seen = true;
        self.facts.phase = seen.text(field).map(Cow::into_owned);
        for rule in self.profile.table().rules {
            match rule {
                StreamRule::Sequence { unless, .. } => {
                    self.facts.subsampled = seen.at(unless).is_some_and(|value| value.kind() != Kind::Null);
                }
                StreamRule::Requires { needs_kind: Some(_), needs, .. } => {
                    self.facts.has_needed = seen.node.get(needs).is_some();
                }
                _ => {}
            }
        }
    }
}

fn phase_of<'s>(seen: &Seen<'s>, table: Option<&PhaseTable>, facts: &'s Facts) -> Cow<'s, str> {
    let own = table.and_then(|table| seen.text(table.field));
    let default = table.map_or("", |table| table.default);
    own.unwrap_or_else(|| facts.phase.as_deref().unwrap_or(default).into())
}

/// The rules on which record comes where, and on numbers that do not go back.
fn order(rule: &StreamRule, memory: &mut Memory, seen: &Seen, facts: &Facts, hits: &mut Hits) {
    match (rule, memory) {
        (StreamRule::First { rule, kind }, Memory::Done(done)) => {
            // A gap before it may have been the missing record; without a tag the cause is the tag.
            if let Some(own) = seen.kind.filter(|own| !*done && !facts.gap_seen && own != kind) {
                hits.line(*rule, || messages::run_start_missing(shortened(own), kind));
            }
            *done = true;
        }
        (StreamRule::Once { rule, kind }, Memory::Line(line)) if seen.is(kind) => {
            if *line > 0 {
                hits.line(*rule, || messages::run_start_repeated(kind, *line));
            } else {
                *line = seen.line;
            }
        }
        (StreamRule::Last { rule, kind }, Memory::Line(line)) => {
            if *line > 0 {
                hits.line(*rule, || messages::event_after_run_end(kind, *line));
            } else if seen.is(kind) {
                *line = seen.line;
            }
        }
        (StreamRule::Present { kind, .. }, Memory::Done(found)) => *found |= seen.is(kind),
        (StreamRule::Monotone { rule, field, repeats, .. }, Memory::Last(last)) => {
            let Some(value) = seen.field(field) else { return };
            let number: f64 = value.literal().parse().unwrap_or(f64::NAN);
            let before = last.replace(number);
            if let Some(before) = before.filter(|before| number < *before || !repeats && number == *before) {
                let message = || messages::goes_backwards(field, plain_number(number), plain_number(before));
                hits.at(*rule, field, value, message);
            }
        }
        (StreamRule::NullNumber { rule, fields }, Memory::Done(done)) => null_number(*rule, fields, done, seen, hits),
        _ => {}
    }
}

fn null_number(rule: Rule, fields: &[&str], done: &mut bool, seen: &Seen, hits: &mut Hits) {
    if *done {
        return;
    }
    let mut values: Vec<_> = fields.iter().filter_map(|field| Some((seen.field(field)?, field))).collect();
    values.sort_by_key(|(value, _)| value.at());
    for (value, field) in values {
        let mut pointer = format!("/{field}");
        let mut null = Some(value).filter(|value| value.kind() == Kind::Null);
        if let Some((key, item)) = value.members().find(|(_, item)| item.kind() == Kind::Null) {
            pointer.push('/');
            push_token(&mut pointer, &key.string());
            null = Some(item);
        }
        if let Some(null) = null {
            *done = true;
            hits.add(rule, Some(null.at()), || {
                let message = messages::unexpected(shortened(&pointer[1..]), "null", messages::EXPECTED_NUMBER);
                (pointer, message)
            });
            return;
        }
    }
}

fn sequence(
    rule: &StreamRule,
    bases: &mut Vec<(String, Count)>,
    seen: &Seen,
    facts: &Facts,
    phase: &str,
    hits: &mut Hits,
) {
    let StreamRule::Sequence { rule, kind, field, skipped, restart_kind, restart_field, restart_phase, .. } = rule
    else {
        return;
    };
    if seen.is(restart_kind) {
        let from = seen.field(restart_field).map(|value| (restart_phase.to_string(), Count::of(value)));
        *bases = from.into_iter().collect();
        return;
    }
    let Some(value) = seen.field(field).filter(|_| seen.is(kind)) else { return };
    let step = Count::of(value);
    let Some((_, base)) = bases.iter_mut().find(|(known, _)| known == phase) else {
        bases.push((phase.to_string(), step));
        return;
    };
    let base = std::mem::replace(base, step.clone());
    if step.follows(&base) {
        return;
    }
    let shown = |count: &Count| shortened(&count.text());
    if step <= base {
        hits.at(*rule, field, value, || messages::step_goes_backwards(shown(&step), shown(&base)));
    } else if !facts.subsampled {
        let missing = || shortened(&step.between(&base));
        hits.at(*skipped, field, value, || messages::step_skipped(shown(&step), shown(&base), missing()));
    }
}

fn same_as_last(
    rule: &StreamRule,
    last: &mut Option<Scalar>,
    done: &mut bool,
    seen: &Seen,
    facts: &Facts,
    phase: &str,
    hits: &mut Hits,
) {
    let StreamRule::SameAsLast { rule, kind, field, of_kind, of_field, of_phase, smaller } = rule else { return };
    if seen.is(of_kind) && phase == *of_phase {
        *last = seen.scalar(of_field);
    }
    if !seen.is(kind) || std::mem::replace(done, true) || facts.gap_seen {
        return;
    }
    if let (Some(value), Some(own), Some(last)) = (seen.field(field), seen.scalar(field), last) {
        if own != *last && !(*smaller && own.is_less(last)) {
            let message = || messages::differs_from_last(field, own.shown(), last.shown(), of_phase, of_kind);
            hits.at(*rule, field, value, message);
        }
    }
}

fn nested(
    rule: &StreamRule,
    open: &mut Option<Vec<(Identity, String, u64)>>,
    seen: &Seen,
    identities: &Identities,
    hits: &mut Hits,
) {
    let (StreamRule::Nested { rule, enter, exit, field, closed_by }, Some(regions)) = (rule, open.as_mut()) else {
        return;
    };
    if seen.is(closed_by) {
        for (_, name, line) in regions.iter().rev() {
            hits.line(*rule, || messages::region_left_open(name, line));
        }
        *open = None;
        return;
    }
    if !seen.is(enter) && !seen.is(exit) {
        return;
    }
    let Some(value) = seen.field(field) else { return };
    let name = value.string();
    let (identity, shown) = (identities.of(&name), shortened(&name));
    if seen.is(exit) {
        let found = regions.iter().rposition(|(known, ..)| *known == identity);
        let is_innermost = found.is_some() && found == regions.len().checked_sub(1);
        if !is_innermost {
            let inner = regions.last().filter(|_| found.is_some());
            let message = || match inner {
                Some((_, inner, _)) => messages::region_not_innermost(&shown, inner),
                None => messages::region_not_entered(&shown),
            };
            hits.at(*rule, field, value, message);
        }
        if let Some(found) = found {
            regions.remove(found);
        }
    } else if regions.len() == MAX_OPEN_REGIONS {
        let message = || messages::region_too_many(MAX_OPEN_REGIONS);
        hits.at(*rule, field, value, message);
        *open = None;
    } else {
        regions.push((identity, shown, seen.line));
    }
}

/// The rules that relate fields of one record.
fn alone(rule: &StreamRule, seen: &Seen, hits: &mut Hits) {
    match rule {
        StreamRule::LessThan { rule, field, than, .. } => {
            let (Some(value), Some(bound)) = (seen.field(field), seen.field(than)) else { return };
            let (number, limit) = (Count::of(value), Count::of(bound));
            if number >= limit {
                let shown = |count: &Count| shortened(&count.text());
                hits.at(*rule, field, value, || messages::not_less(field, shown(&number), shown(&limit), than));
            }
        }
        StreamRule::Differs { rule, field, pointer, .. } => {
            let (Some(own), Some(value)) = (seen.text(field), seen.at(pointer)) else { return };
            if value.kind() == Kind::String && value.string() == own {
                hits.add(*rule, Some(value.at()), || {
                    (pointer.to_string(), messages::names_itself(shortened(&own), field))
                });
            }
        }
        StreamRule::Inside { rule, field, .. } => {
            let (Some(path), Some(value)) = (seen.text(field), seen.field(field)) else { return };
            if leaves(&path) {
                hits.at(*rule, field, value, || messages::leaves_bundle(field, shortened(&path)));
            }
        }
        StreamRule::Counted { rule, field, .. } => {
            let Some(value) = seen.field(field) else { return };
            let counts = value.members().map(|(name, count)| (name.string(), Count::of(count)));
            let counts: Vec<_> = counts.filter(|(_, count)| *count > Count::Small(0)).collect();
            // The first of equal ones, in the order of the line.
            let Some((name, count)) = counts.iter().rev().max_by(|one, other| one.1.cmp(&other.1)) else { return };
            hits.at(*rule, field, value, || {
                let (count, name) = (shortened(&count.text()), shortened(name));
                match counts.len() - 1 {
                    0 => messages::log_lacks(field, count, name),
                    others => messages::log_lacks_more(field, count, name, others),
                }
            });
        }
        _ => {}
    }
}

/// The rules that relate a record to the files around the stream.
fn in_bundle(rule: &StreamRule, seen: &Seen, facts: &Facts, hits: &mut Hits) {
    let Some(RunPlace { directory, rank }) = &facts.place else { return };
    match rule {
        StreamRule::RankOfFile { rule, field, .. } => {
            let Some(value) = seen.field(field) else { return };
            let found = Count::of(value).text();
            if found != rank.to_string() {
                hits.at(*rule, field, value, || messages::other_rank(field, shortened(&found), rank));
            }
        }
        StreamRule::SameRun { rule, kind, field } if *rank > 0 => {
            let (Some(own), Some(value)) = (seen.text(field), seen.field(field)) else { return };
            let name = Profile::Toy.file();
            if let Some(first) = first_text(&directory.join(name), kind, field).filter(|first| *first != own) {
                hits.at(*rule, field, value, || messages::other_run(field, shortened(&own), shortened(&first), name));
            }
        }
        StreamRule::Filed { rule, hash, media_type, .. } => {
            let (Some(sha256), Some(kind), Some(value)) = (seen.text(hash), seen.text(media_type), seen.field(hash))
            else {
                return;
            };
            let Some(path) = media_file(&sha256, &kind) else { return };
            let is_folder = directory.join(MEDIA_FOLDER).symlink_metadata().is_ok_and(|found| found.is_dir());
            let is_there = is_folder && directory.join(&path).symlink_metadata().is_ok_and(|found| found.is_file());
            if !is_there {
                hits.at(*rule, hash, value, || messages::media_missing(&path));
            }
        }
        _ => {}
    }
}

/// Returns a text of the first record of a stream; None unless that is of the kind.
fn first_text(path: &Path, kind: &str, field: &str) -> Option<String> {
    let options = Options { mode: Mode::Salvage, ..Options::default() };
    let record = Reader::open(path, options).ok()?.next()?.ok()?;
    let is_kind = record.kind.as_deref() == Some(kind);
    record.value.get(field).filter(|_| is_kind)?.as_str().map(String::from)
}

fn requires(rule: &StreamRule, seen: &Seen, facts: &Facts, hits: &mut Hits) {
    let StreamRule::Requires { rule, kind, when, needs_kind, needs } = rule else { return };
    if !seen.is(kind) || when.is_some_and(|(field, value)| seen.text(field).as_deref() != Some(value)) {
        return;
    }
    match needs_kind {
        Some(other) if facts.start_seen && !facts.has_needed => {
            hits.line(*rule, || messages::required_in_other(kind, other, needs));
        }
        None if seen.node.get(needs).is_none() => {
            // A missing member is placed at the object that lacks it.
            hits.at(*rule, needs, seen.node, || match when {
                Some((field, value)) => messages::required_if(kind, field, value, needs),
                None => messages::missing_key(needs, kind),
            });
        }
        _ => {}
    }
}
