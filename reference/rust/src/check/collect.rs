//! Collects the findings of one stream within bounds: full detail first, then counts.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use crate::check::{CheckOptions, Excerpt, Finding};
use crate::lines::Splitter;
use crate::messages;
use crate::schema::Severity;
use crate::tables::{Rule, EXCERPT_BYTES, MAX_FINDINGS_PER_RULE, RULES};
use crate::Profile;

const EXCERPT_BEFORE: usize = 60;

/// Where a finding lies.
#[derive(Clone, Copy)]
pub(crate) struct Place<'d> {
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the line from the start of the stream, from 0.
    pub offset: u64,
    /// Byte offset of the place from the start of the line, from 0.
    pub byte: usize,
    /// The line, where an excerpt of it helps; empty otherwise.
    pub data: &'d [u8],
}

impl Place<'_> {
    /// Returns the place of a line as a whole.
    pub fn line(line: u64, offset: u64) -> Place<'static> {
        Place { line, offset, byte: 0, data: &[] }
    }

    fn excerpt(&self) -> Option<Excerpt> {
        let before = self.byte.saturating_sub(EXCERPT_BEFORE);
        let start = before.min(self.data.len().saturating_sub(EXCERPT_BYTES));
        let end = self.data.len().min(start + EXCERPT_BYTES);
        (!self.data.is_empty()).then(|| Excerpt { data: self.data[start..end].to_vec(), start, mark: self.byte })
    }
}

/// Distinguishes a name from others in little memory.
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

    /// Forgets every finding, those that were merely counted too.
    pub fn drop_findings(&mut self) {
        *self = Collector::new(std::mem::take(&mut self.options));
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
        if self.is_full(rule) {
            self.count(rule, 1);
            return false;
        }
        let profile = self.profile.unwrap_or(Profile::Toy);
        let severity = rule.severity(profile, extra.at_end);
        self.counts[rule as usize] += 1;
        self.has_error |= severity == Severity::Error;
        self.listed.push(Listed {
            finding: Finding {
                rule,
                severity,
                line: place.line,
                offset: place.offset + place.byte as u64,
                pointer: pointer.to_string(),
                message: message(),
                help: extra.advice.unwrap_or_else(|| rule.help(profile).to_string()),
                sidecar: extra.sidecar,
                excerpt: place.excerpt(),
            },
            tally: None,
        });
        true
    }

    /// Lists what is wrong with the bytes after the last LF.
    pub fn add_fragment(&mut self, splitter: &Splitter) {
        let place = Place::line(splitter.number, splitter.committed);
        if splitter.all_nul {
            let message = || messages::nul_bytes_at_end(splitter.pending);
            self.add_full(Rule::NulBytes, place, "", message, Extra { at_end: true, ..Extra::default() });
        } else {
            let message = || messages::unterminated_line(splitter.pending);
            self.add(Rule::UnterminatedLine, place, "", message);
        }
    }

    /// Counts a problem that is reported once for each `key`, at its first place, with its count. `message` gives what
    /// is before the count and what is after it.
    pub fn tally(
        &mut self,
        rule: Rule,
        key: &str,
        place: Place,
        pointer: &str,
        message: impl FnOnce() -> (String, String),
    ) {
        let identity = self.identities.of(key);
        if let Some(&known) = self.known.get(&(rule, identity.clone())) {
            self.tallies[known].count += 1;
            return;
        }
        if self.is_full(rule) {
            return self.count(rule, 1);
        }
        let (head, tail) = message();
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

    /// Counts problems whose key was tallied before.
    pub fn tally_again(&mut self, rule: Rule, key: &str, times: u64) {
        match self.known.get(&(rule, self.identities.of(key))) {
            Some(&known) => self.tallies[known].count += times,
            None => self.count(rule, times),
        }
    }

    /// Returns whether a finding of a rule would be listed, not counted.
    pub fn lists(&self, rule: Rule) -> bool {
        self.options.reports(rule) && !self.is_full(rule)
    }

    fn is_full(&self, rule: Rule) -> bool {
        self.counts[rule as usize] >= MAX_FINDINGS_PER_RULE
    }

    /// Counts problems that are not listed.
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

    /// Returns the findings from an index on, without counts in their messages.
    pub fn listed_from(&self, start: usize) -> Vec<Finding> {
        let once = |listed: &Listed| {
            let mut finding = listed.finding.clone();
            finding.message += listed.tally.map_or("", |tally| &self.tallies[tally].tail);
            finding
        };
        self.listed.get(start..).unwrap_or_default().iter().map(once).collect()
    }

    /// Returns the findings, with the final counts in their messages.
    pub fn take(&mut self) -> Vec<Finding> {
        let tallies = &self.tallies;
        let finished = |listed: Listed| {
            let mut finding = listed.finding;
            if let Some(Tally { count, tail }) = listed.tally.map(|tally| &tallies[tally]) {
                let times = if *count == 1 { String::new() } else { messages::times(count) };
                finding.message += &format!("{times}{tail}");
            }
            finding
        };
        self.listed.drain(..).map(finished).collect()
    }
}

/// What a finding in the middle of a stream does not have.
#[derive(Clone, Default)]
pub(crate) struct Extra {
    /// The place is after the last line feed.
    pub at_end: bool,
    /// Name of the file beside the stream that the place is in.
    pub sidecar: Option<&'static str>,
    /// What to do, in place of the help of the rule.
    pub advice: Option<String>,
}
