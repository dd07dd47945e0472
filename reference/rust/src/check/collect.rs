//! Collects the findings of one stream within bounds: full detail first, then counts.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use crate::check::{CheckOptions, Finding};
use crate::schema::Severity;
use crate::tables::{Rule, MAX_FINDINGS_PER_RULE, RULES};
use crate::Profile;

/// Where a finding lies.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset from the start of the stream, from 0.
    pub offset: u64,
}

/// What tells a name from others in little memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    Name(String),
    Digest(usize, u64, u64),
}

/// Makes identities; those of one maker can be compared.
#[derive(Default)]
pub(crate) struct Identities(RandomState, RandomState);

impl Identities {
    pub fn of(&self, name: &str) -> Identity {
        if name.len() <= 64 {
            return Identity::Name(name.to_string());
        }
        Identity::Digest(name.len(), self.0.hash_one(name), self.1.hash_one(name))
    }
}

struct Listed {
    finding: Finding,
    tally: Option<usize>,
}

struct Tally {
    count: u64,
    tail: String,
}

/// Keeps at most `MAX_FINDINGS_PER_RULE` findings for each rule and counts the rest.
pub(crate) struct Collector {
    pub profile: Option<Profile>,
    pub suppressed: BTreeMap<&'static str, u64>,
    pub has_error: bool,
    options: CheckOptions,
    listed: Vec<Listed>,
    counts: [usize; RULES.len()],
    tallies: Vec<Tally>,
    known: HashMap<(Rule, Identity), usize>,
    identities: Identities,
}

impl Collector {
    pub fn new(options: CheckOptions) -> Collector {
        Collector {
            profile: options.profile,
            suppressed: BTreeMap::new(),
            has_error: false,
            options,
            listed: Vec::new(),
            counts: [0; RULES.len()],
            tallies: Vec::new(),
            known: HashMap::new(),
            identities: Identities::default(),
        }
    }

    /// Returns the number of findings that are listed.
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    /// Lists a finding that is in the stream, or counts it.
    pub fn add(&mut self, rule: Rule, place: Place, pointer: &str, message: impl FnOnce() -> String) {
        self.add_full(rule, place, pointer, message, Extra::default());
    }

    /// Lists a finding, or counts it; returns whether it is listed.
    pub fn add_full(
        &mut self,
        rule: Rule,
        place: Place,
        pointer: &str,
        message: impl FnOnce() -> String,
        extra: Extra,
    ) -> bool {
        if !self.options.reports(rule) {
            return false;
        }
        if self.counts[rule as usize] >= MAX_FINDINGS_PER_RULE {
            self.count(rule, 1);
            return false;
        }
        let severity = rule.severity(self.profile.unwrap_or(Profile::Toy), extra.at_end);
        self.counts[rule as usize] += 1;
        self.has_error |= severity == Severity::Error;
        let Place { line, offset } = place;
        let (pointer, message, sidecar) = (pointer.to_string(), message(), extra.sidecar);
        let finding = Finding { rule, severity, line, offset, pointer, message, sidecar };
        self.listed.push(Listed { finding, tally: None });
        true
    }

    /// Counts a fault that is reported once for each `key`, at its first place, with its count.
    pub fn tally(&mut self, rule: Rule, key: &str, place: Place, pointer: &str, message: (String, String)) {
        let identity = self.identities.of(key);
        if let Some(&known) = self.known.get(&(rule, identity.clone())) {
            self.tallies[known].count += 1;
            return;
        }
        let (head, tail) = message;
        if self.add_full(rule, place, pointer, || head, Extra::default()) {
            // Only listed keys are remembered, so that a log full of invented keys costs no memory.
            let tally = self.tallies.len();
            self.tallies.push(Tally { count: 1, tail });
            self.known.insert((rule, identity), tally);
            if let Some(listed) = self.listed.last_mut() {
                listed.tally = Some(tally);
            }
        }
    }

    /// Counts faults that are not listed.
    pub fn count(&mut self, rule: Rule, number: u64) {
        if self.options.reports(rule) {
            *self.suppressed.entry(rule.id()).or_default() += number;
            self.has_error |= rule.severity(self.profile.unwrap_or(Profile::Toy), false) == Severity::Error;
        }
    }

    /// Puts the findings from index `start` on, all of one line, into the order of their places and rules.
    pub fn arrange(&mut self, start: usize) {
        if self.listed.len() > start + 1 {
            self.listed[start..].sort_by_key(|listed| (listed.finding.offset, listed.finding.rule));
        }
    }

    /// Returns the findings, with the final counts in their messages.
    pub fn take(&mut self) -> Vec<Finding> {
        let tallies = &self.tallies;
        let finished = |listed: Listed| {
            let mut finding = listed.finding;
            if let Some(Tally { count, tail }) = listed.tally.map(|tally| &tallies[tally]) {
                let times = if *count == 1 { String::new() } else { format!(" ({count} times)") };
                finding.message += &format!("{times}{tail}");
            }
            finding
        };
        self.listed.drain(..).map(finished).collect()
    }
}

/// What a finding in the middle of a stream does not have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra {
    /// The place is behind the last line feed.
    pub at_end: bool,
    /// Name of the file beside the stream that the place is in.
    pub sidecar: Option<&'static str>,
}
