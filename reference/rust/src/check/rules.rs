//! The rules that hold between lines, made from the generated tables: see spec/stream.md.

use crate::check::collect::{Identities, Identity};
use crate::check::hits::{Count, Hit, Scalar, Seen};
use crate::escape::shortened;
use crate::messages;
use crate::phrases::plain_number;
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

/// What the first record of a kind says for the whole stream, and whether a gap came before.
#[derive(Default)]
pub(crate) struct Facts {
    pub gap_seen: bool,
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
    identities: Identities,
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
            StreamRule::Requires { .. } => Memory::Nothing,
        };
        let memories = profile.table().rules.iter().map(memory).collect();
        StreamRules { profile, facts: Facts::default(), memories, identities: Identities::default() }
    }

    /// Returns what is wrong at a record.
    pub fn observe(&mut self, seen: &Seen) -> Vec<Hit> {
        let mut hits = Vec::new();
        let table = self.profile.table();
        for (rule, memory) in table.rules.iter().zip(&mut self.memories) {
            let facts = &self.facts;
            let phase = || phase_of(seen, table.phase.as_ref(), facts);
            match (rule, memory) {
                (StreamRule::Sequence { .. }, Memory::Bases(bases)) => {
                    sequence(rule, bases, seen, facts, &phase, &mut hits)
                }
                (StreamRule::SameAsLast { .. }, Memory::Other(last, done)) => {
                    same_as_last(rule, last, done, seen, facts, &phase, &mut hits);
                }
                (StreamRule::Nested { .. }, Memory::Open(open)) => {
                    nested(rule, open, seen, &self.identities, &mut hits)
                }
                (StreamRule::Requires { .. }, _) => requires(rule, seen, facts, &mut hits),
                (_, memory) => order(rule, memory, seen, facts, &mut hits),
            }
        }
        self.take_facts(seen);
        hits
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

    /// Returns what is wrong at the end of a stream that has records and no fragment.
    pub fn finish(&self) -> Vec<Hit> {
        let rules = self.profile.table().rules.iter().zip(&self.memories);
        let missing = rules.filter_map(|(rule, memory)| match (rule, memory) {
            (StreamRule::Present { rule, kind }, Memory::Done(false)) => {
                Some(Hit::line(*rule, messages::run_end_missing(kind)))
            }
            _ => None,
        });
        missing.collect()
    }

    fn take_facts(&mut self, seen: &Seen) {
        let Some(PhaseTable { field, from, .. }) = &self.profile.table().phase else { return };
        // All facts come from the first record of one kind.
        if !seen.is(from) || self.facts.start_seen {
            return;
        }
        self.facts.start_seen = true;
        self.facts.phase = seen.text(field);
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

fn phase_of(seen: &Seen, table: Option<&PhaseTable>, facts: &Facts) -> String {
    let own = table.and_then(|table| seen.text(table.field));
    let default = table.map(|table| table.default.to_string());
    own.or_else(|| facts.phase.clone()).or(default).unwrap_or_default()
}

/// The rules on which record comes where, and on numbers that do not go back.
fn order(rule: &StreamRule, memory: &mut Memory, seen: &Seen, facts: &Facts, hits: &mut Vec<Hit>) {
    match (rule, memory) {
        (StreamRule::First { rule, kind }, Memory::Done(done)) => {
            // A gap before it may have been the missing record; without a tag the cause is the tag.
            if !*done && !facts.gap_seen && seen.kind.is_some_and(|own| own != *kind) {
                let own = shortened(seen.kind.unwrap_or_default());
                hits.push(Hit::line(*rule, messages::run_start_missing(own, kind)));
            }
            *done = true;
        }
        (StreamRule::Once { rule, kind }, Memory::Line(line)) if seen.is(kind) => {
            if *line > 0 {
                hits.push(Hit::line(*rule, messages::run_start_repeated(kind, *line)));
            } else {
                *line = seen.line;
            }
        }
        (StreamRule::Last { rule, kind }, Memory::Line(line)) => {
            if *line > 0 {
                hits.push(Hit::line(*rule, messages::event_after_run_end(kind, *line)));
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
                let message = messages::goes_backwards(field, plain_number(number), plain_number(before));
                hits.push(Hit::at(*rule, field, value, message));
            }
        }
        (StreamRule::NullNumber { rule, fields }, Memory::Done(done)) => null_number(*rule, fields, done, seen, hits),
        _ => {}
    }
}

fn null_number(rule: Rule, fields: &[&str], done: &mut bool, seen: &Seen, hits: &mut Vec<Hit>) {
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
            let message = messages::unexpected(shortened(&pointer[1..]), "null", messages::EXPECTED_NUMBER);
            hits.push(Hit { rule, pointer, at: Some(null.at()), message });
            return;
        }
    }
}

fn sequence(
    rule: &StreamRule,
    bases: &mut Vec<(String, Count)>,
    seen: &Seen,
    facts: &Facts,
    phase: &dyn Fn() -> String,
    hits: &mut Vec<Hit>,
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
    let (phase, step) = (phase(), Count::of(value));
    let Some((_, base)) = bases.iter_mut().find(|(known, _)| *known == phase) else {
        bases.push((phase, step));
        return;
    };
    let base = std::mem::replace(base, step.clone());
    if step.follows(&base) {
        return;
    }
    let (found, before) = (shortened(&step.text()), shortened(&base.text()));
    if step <= base {
        hits.push(Hit::at(*rule, field, value, messages::step_goes_backwards(found, before)));
    } else if !facts.subsampled {
        let missing = shortened(&step.between(&base));
        hits.push(Hit::at(*skipped, field, value, messages::step_skipped(found, before, missing)));
    }
}

fn same_as_last(
    rule: &StreamRule,
    last: &mut Option<Scalar>,
    done: &mut bool,
    seen: &Seen,
    facts: &Facts,
    phase: &dyn Fn() -> String,
    hits: &mut Vec<Hit>,
) {
    let StreamRule::SameAsLast { rule, kind, field, of_kind, of_field, of_phase } = rule else { return };
    if seen.is(of_kind) && phase() == *of_phase {
        *last = seen.scalar(of_field);
    }
    if !seen.is(kind) || std::mem::replace(done, true) || facts.gap_seen {
        return;
    }
    if let (Some(value), Some(own), Some(last)) = (seen.field(field), seen.scalar(field), last) {
        if own != *last {
            let message = messages::differs_from_last(field, own.shown(), last.shown(), of_phase, of_kind);
            hits.push(Hit::at(*rule, field, value, message));
        }
    }
}

fn nested(
    rule: &StreamRule,
    open: &mut Option<Vec<(Identity, String, u64)>>,
    seen: &Seen,
    identities: &Identities,
    hits: &mut Vec<Hit>,
) {
    let (StreamRule::Nested { rule, enter, exit, field, closed_by }, Some(regions)) = (rule, open.as_mut()) else {
        return;
    };
    if seen.is(closed_by) {
        let left = regions.iter().rev();
        hits.extend(left.map(|(_, name, line)| Hit::line(*rule, messages::region_left_open(name, line))));
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
            let message = match inner {
                Some((_, inner, _)) => messages::region_not_innermost(&shown, inner),
                None => messages::region_not_entered(&shown),
            };
            hits.push(Hit::at(*rule, field, value, message));
        }
        if let Some(found) = found {
            regions.remove(found);
        }
    } else if regions.len() == MAX_OPEN_REGIONS {
        let message = messages::region_too_many(MAX_OPEN_REGIONS);
        hits.push(Hit::at(*rule, field, value, message));
        *open = None;
    } else {
        regions.push((identity, shown, seen.line));
    }
}

fn requires(rule: &StreamRule, seen: &Seen, facts: &Facts, hits: &mut Vec<Hit>) {
    let StreamRule::Requires { rule, kind, when, needs_kind, needs } = rule else { return };
    if !seen.is(kind) || when.is_some_and(|(field, value)| seen.text(field).as_deref() != Some(value)) {
        return;
    }
    match needs_kind {
        Some(other) if facts.start_seen && !facts.has_needed => {
            hits.push(Hit::line(*rule, messages::required_in_other(kind, other, needs)));
        }
        None if seen.node.get(needs).is_none() => {
            let message = match when {
                Some((field, value)) => messages::required_if(kind, field, value, needs),
                None => messages::missing_key(needs, kind),
            };
            // A missing member is placed at the object that lacks it.
            hits.push(Hit { rule: *rule, pointer: format!("/{needs}"), at: Some(seen.node.at()), message });
        }
        _ => {}
    }
}
