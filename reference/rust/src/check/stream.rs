//! Checks one stream, fed in pieces of any size: see spec/checking.md.

use std::path::Path;
use std::sync::Arc;

use crate::bundle_files::rank_of;
use crate::check::bundle::{read_sidecars, Bundle};
use crate::check::collect::{Collector, Extra, Place};
use crate::check::fast::{Fast, Premise, Proof, Taken};
use crate::check::foreign::Foreign;
use crate::check::hits::{Hit, Hits, Seen};
use crate::check::rules::{RunPlace, StreamRules};
use crate::check::{CheckOptions, FileReport, Finding};
use crate::escape::shortened;
use crate::line_validation::{LineValidator, Problem, Status};
use crate::lines::{Line, Splitter};
use crate::looks::{known_start, look_of};
use crate::messages;
use crate::nearest::nearest;
use crate::phrases::typed;
use crate::profile::{detect, detect_without_record, is_manifest, Hints, StreamName};
use crate::record::{validate, Integers};
use crate::schema::KindTable;
use crate::tables::{Rule, LOOK_HEAD_BYTES};
use crate::tape::{Kind, Node};
use crate::{Profile, State};

/// Checks a stream as it is fed.
pub struct StreamChecker {
    splitter: Splitter,
    inner: Inner,
    /// The first bytes.
    head: Vec<u8>,
    bundle: Bundle,
    /// Number of findings that were given before the end.
    taken: usize,
}

/// What checks lines, once they are cut.
pub(crate) struct Inner {
    found: Collector,
    /// Whether the profile was named or detected.
    is_decided: bool,
    /// The first line that is not blank is a record that names its profile.
    has_own_start: bool,
    foreign: Option<Foreign>,
    first_gap: Option<Foreign>,
    hints: Hints,
    limit: usize,
    validator: LineValidator,
    rules: Option<StreamRules>,
    fast: Option<Fast>,
    is_fast: bool,
    /// Number of lines that the fast path has taken in.
    #[cfg_attr(not(test), allow(dead_code))]
    taken_fast: u64,
    records: u64,
    gaps: u64,
    has_return: bool,
    has_float: bool,
    /// The last record.
    last: Place<'static>,
    last_kind: LastKind,
    /// Name of the directory that the first run_id is compared with; None once it was.
    directory: Option<String>,
    /// Where the stream is; None where it is not in a bundle.
    place: Option<RunPlace>,
    /// Line, offset, byte, text and message of a run_id that is not the directory's name.
    mismatch: Option<(u64, u64, usize, Vec<u8>, String)>,
}

/// Whether the last record ends a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastKind {
    Closing,
    Other,
}

impl StreamChecker {
    /// Returns a checker of a stream that has no path; `name` is the name of its file, empty where it has none.
    pub fn named(name: &str, options: CheckOptions) -> StreamChecker {
        StreamChecker::new(options, Hints::of_name(name), Bundle::default())
    }

    /// Returns a checker of the stream at a path, and of the files beside it that belong to its bundle.
    pub fn at(path: &Path, options: CheckOptions) -> StreamChecker {
        let mut checker = StreamChecker::beside(path, options);
        let rank = path.file_name().and_then(|name| rank_of(&name.to_string_lossy()));
        let directory = std::path::absolute(path).ok().and_then(|path| Some(path.parent()?.to_path_buf()));
        checker.inner.place = directory.zip(rank).map(|(directory, rank)| RunPlace { directory, rank });
        if let Some(rules) = &mut checker.inner.rules {
            rules.facts.place = checker.inner.place.clone();
        }
        checker
    }

    fn beside(path: &Path, options: CheckOptions) -> StreamChecker {
        let mut hints = Hints::of_name(&path.to_string_lossy());
        if hints.name != StreamName::Events {
            return StreamChecker::new(options, Hints::of_path(path), Bundle::default());
        }
        let bundle = read_sidecars(path, options.max_line_bytes);
        hints.has_manifest = bundle.manifest().is_some_and(is_manifest);
        StreamChecker::new(options, hints, bundle)
    }

    fn new(options: CheckOptions, hints: Hints, bundle: Bundle) -> StreamChecker {
        let limit = options.max_line_bytes;
        let rules = options.profile.map(StreamRules::new);
        let fast = options.profile.map(Fast::new);
        let inner = Inner {
            is_decided: options.profile.is_some(),
            has_own_start: false,
            foreign: None,
            first_gap: None,
            found: Collector::new(options),
            hints,
            limit,
            validator: LineValidator::default(),
            rules,
            fast,
            is_fast: true,
            taken_fast: 0,
            records: 0,
            gaps: 0,
            has_return: false,
            has_float: false,
            last: Place::line(1, 0),
            last_kind: LastKind::Other,
            directory: bundle.directory.clone(),
            place: None,
            mismatch: None,
        };
        StreamChecker { splitter: Splitter::new(limit), inner, head: Vec::new(), bundle, taken: 0 }
    }

    /// Checks the lines that `data` commits.
    pub fn feed(&mut self, mut data: &[u8]) {
        let room = LOOK_HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&data[..data.len().min(room)]);
        if self.splitter.pending > 0 {
            data = self.feed_one(data);
        }
        let (lines, rest) = data.split_at(memchr::memrchr(b'\n', data).map_or(0, |at| at + 1));
        let mut lines = lines;
        let is_utf8 = simdutf8::basic::from_utf8(lines).is_ok();
        while !lines.is_empty() {
            if is_utf8 {
                lines = self.feed_fast(lines);
            }
            if !lines.is_empty() {
                lines = self.feed_one(lines);
            }
        }
        self.feed_one(rest);
    }

    /// Checks at most one line the exact way; returns what is after it.
    fn feed_one<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let inner = &mut self.inner;
        let (taken, _) = self.splitter.feed_one(data, |line| inner.check_line(line));
        &data[taken..]
    }

    /// Takes in the lines at the start of `data`, whole lines of UTF-8, that are without findings; returns the others.
    fn feed_fast<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let inner = &mut self.inner;
        let (Some(fast), Some(rules), true) = (&mut inner.fast, &mut inner.rules, inner.is_fast) else { return data };
        let taken = fast.run(data, rules, inner.limit);
        inner.count_broken();
        self.skip(&taken);
        &data[taken.bytes..]
    }

    /// Counts lines that were taken in.
    fn skip(&mut self, taken: &Taken) {
        if taken.lines > 0 {
            let line = self.splitter.number + taken.lines - 1;
            self.inner.last = Place::line(line, self.splitter.committed + taken.last as u64);
            self.inner.last_kind = LastKind::Other;
            self.inner.records += taken.lines;
            self.inner.taken_fast += taken.lines;
            self.splitter.skip(taken.lines, taken.bytes as u64);
        }
    }

    /// Returns what other threads prove lines with, the one before where it still serves; None where they cannot.
    pub(crate) fn premise(&self, before: Option<Arc<Premise>>) -> Option<Arc<Premise>> {
        let (Some(fast), Some(rules)) = (&self.inner.fast, &self.inner.rules) else { return None };
        match before {
            Some(before) if fast.is_known_to(&before, rules) => Some(before),
            _ => fast.premise(rules).map(Arc::new),
        }
    }

    /// Checks the lines at the start of a text, which another thread has proven from a premise of this checker.
    pub(crate) fn feed_proven(&mut self, text: &[u8], proof: &Proof) {
        let text = &text[..proof.taken.bytes];
        let is_taken = match (&mut self.inner.fast, &mut self.inner.rules) {
            (Some(fast), Some(rules)) => self.splitter.pending == 0 && fast.take_in(text, proof, rules),
            _ => false,
        };
        if is_taken {
            self.inner.count_broken();
            self.skip(&proof.taken);
        } else {
            self.feed(text);
        }
    }

    /// Returns the longest line that is checked.
    pub(crate) fn limit(&self) -> usize {
        self.inner.limit
    }

    /// Returns the findings that were listed since the last call; counts in their messages may still grow. There are
    /// none as long as the stream may turn out to have no profile.
    pub fn take(&mut self) -> Vec<Finding> {
        if !self.has_profile() {
            return Vec::new();
        }
        let new = self.inner.found.listed_from(self.taken);
        self.taken += new.len();
        new
    }

    /// Returns the number of bytes fed so far.
    pub fn size(&self) -> u64 {
        self.splitter.size()
    }

    /// Returns whether a record has shown that the stream follows no known format.
    pub fn is_foreign(&self) -> bool {
        self.inner.foreign.is_some()
    }

    /// Returns whether it is known which profile the stream follows.
    pub fn has_profile(&self) -> bool {
        self.inner.rules.is_some()
    }

    /// Returns whether the first line that is not blank is a record that names its profile.
    pub fn begins_with_own_record(&self) -> bool {
        self.inner.has_own_start
    }

    /// Returns whether the last record ends the run; true for a stream that follows no known format.
    pub fn ended(&self) -> bool {
        self.is_foreign() || self.inner.last_kind == LastKind::Closing
    }

    /// Reads the files beside the stream at a path again.
    pub fn read_bundle_again(&mut self, path: &Path) {
        if self.bundle.directory.is_some() {
            self.bundle = read_sidecars(path, self.inner.limit);
        }
    }

    /// Returns the verdict on everything fed, and on the files beside it.
    pub fn finish(self) -> FileReport {
        let StreamChecker { splitter, mut inner, head, bundle, .. } = self;
        let has_gap = inner.gaps > 0;
        let profile = match (inner.found.profile, inner.is_decided) {
            (None, false) => {
                detect_without_record(inner.hints, has_gap || known_start(splitter.fragment_head()).is_some())
            }
            (decided, _) => decided,
        };
        let mut look = None;
        match profile {
            None => look = Some(inner.report_foreign(&head, splitter.size())),
            Some(profile) => inner.report_end(&splitter, &bundle, profile),
        }
        let last = profile.and_then(|profile| profile.table().last);
        let is_unfinished = last.is_some() && inner.last_kind != LastKind::Closing;
        let state = if has_gap {
            State::Damaged
        } else if splitter.pending > 0 || inner.records == 0 || is_unfinished {
            State::Torn
        } else {
            State::Complete
        };
        FileReport {
            profile,
            look,
            state: Some(state),
            valid: !inner.found.has_error,
            records: inner.records,
            bytes: splitter.size(),
            findings: inner.found.take(),
            suppressed: inner.found.suppressed,
        }
    }
}

#[cfg(test)]
impl StreamChecker {
    pub(crate) fn use_fast_path(&mut self, is_fast: bool) {
        self.inner.is_fast = is_fast;
    }

    pub(crate) fn lines_taken_fast(&self) -> u64 {
        self.inner.taken_fast
    }
}

impl Inner {
    /// Counts the findings of lines that the fast path took in.
    fn count_broken(&mut self) {
        for (rule, times) in self.rules.iter_mut().flat_map(StreamRules::collect) {
            self.found.count(rule, times);
        }
    }

    /// Makes the one finding of a stream that follows no known format; returns what it looks like.
    fn report_foreign(&mut self, head: &[u8], size: u64) -> String {
        let nowhere = || Foreign { line: 1, offset: 0, keys: None };
        let Foreign { line, offset, keys } = self.foreign.take().or(self.first_gap.take()).unwrap_or_else(nowhere);
        let look = look_of(head, keys.as_deref(), size <= LOOK_HEAD_BYTES as u64);
        let fact = look.fact.clone();
        self.found.drop_findings();
        let extra = Extra { advice: look.advice(), ..Extra::default() };
        self.found.add_full(Rule::UnknownFormat, Place::line(line, offset), "", || look.fact, extra);
        fact
    }

    /// Reports what only the end of a stream shows, and what is beside it.
    fn report_end(&mut self, splitter: &Splitter, bundle: &Bundle, profile: Profile) {
        let inner = self;
        let found = &mut inner.found;
        if splitter.pending > 0 {
            found.add_fragment(splitter);
        } else if inner.records == 0 && inner.gaps == 0 {
            let message = || messages::stream_empty(splitter.size());
            found.add(Rule::StreamEmpty, Place::line(1, 0), "", message);
        } else if let Some(rules) = inner.rules.as_ref().filter(|_| inner.records > 0) {
            let is_listed = |rule| found.lists(rule);
            let mut hits = Hits::new(&is_listed);
            rules.finish(&mut hits);
            for Hit { rule, message, .. } in hits.found {
                found.add(rule, inner.last, "", || message);
            }
        }
        for (kind, key, times) in inner.fast.iter().flat_map(Fast::met_again) {
            match key {
                Some(key) => found.tally_again(Rule::UnknownKey, &key_identity(kind, key), times),
                None => found.tally_again(Rule::UnknownKind, kind, times),
            }
        }
        if let Some((line, offset, byte, data, message)) = inner.mismatch.take() {
            let place = Place { line, offset, byte, data: &data };
            found.add(Rule::RunIdMismatch, place, "/run_id", || message);
        }
        bundle.check(profile, found);
    }

    fn check_line(&mut self, line: Line) {
        let mut validator = std::mem::take(&mut self.validator);
        let start = self.found.len();
        let text = line.data.unwrap_or_default();
        match line.data {
            Some(text) => validator.validate(text, line.number == 1),
            None => validator.too_long(line.length, self.limit),
        };
        self.report_line(line, &mut validator);
        if let Some(node) = validator.record(text) {
            if !self.is_decided {
                self.decide(line, node);
            }
            if self.foreign.is_some() {
                self.records += 1;
            } else {
                self.check_record(line, node, start);
            }
        }
        self.validator = validator;
    }

    /// Decides by the first record which profile the stream follows.
    fn decide(&mut self, line: Line, first: Node) {
        self.is_decided = true;
        self.has_own_start = self.gaps == 0 && detect(first, Hints::default()).is_some();
        match detect(first, self.hints) {
            Some(profile) => self.follow(profile),
            None => self.foreign = Some(Foreign::of(line, Some(first))),
        }
    }

    fn follow(&mut self, profile: Profile) {
        let mut rules = StreamRules::new(profile);
        rules.facts.place = self.place.clone();
        if self.gaps > 0 {
            rules.gap();
        }
        self.found.profile = Some(profile);
        self.rules = Some(rules);
        let mut fast = Fast::new(profile);
        fast.reported.carriage_return = self.has_return;
        self.fast = Some(fast);
    }

    fn report_line(&mut self, line: Line, validator: &mut LineValidator) {
        for problem in validator.problems.listed.iter_mut().filter(|_| validator.status != Status::Blank) {
            let message = std::mem::take(&mut problem.message);
            self.found.add(problem.rule, place(line, problem.at), &problem.pointer, || message);
        }
        for &(rule, count) in &validator.problems.unlisted {
            self.found.count(rule, count);
        }
        if validator.status == Status::Unreadable {
            self.gaps += 1;
            if self.first_gap.is_none() {
                self.first_gap = Some(Foreign::of(line, None));
            }
            if let Some(rules) = &mut self.rules {
                rules.gap();
            }
        } else if !self.has_return {
            if let Some(at) = memchr::memchr(b'\r', line.data.unwrap_or_default()) {
                self.has_return = true;
                if let Some(fast) = &mut self.fast {
                    fast.reported.carriage_return = true;
                }
                let place = Place { data: &[], ..place(line, at) };
                self.found.add(Rule::CarriageReturn, place, "", || messages::CARRIAGE_RETURN.into());
            }
        }
    }

    /// Checks a record, puts the findings of its line, from index `start` on, in order, and observes it.
    fn check_record(&mut self, line: Line, node: Node, start: usize) {
        let Some(profile) = self.found.profile else { return };
        let tag = profile.tag();
        let name = match tag {
            None => Some("entry".into()),
            Some(tag) => node.get(tag).filter(|value| value.kind() == Kind::String).map(|value| value.string()),
        };
        let kind = name.as_deref().and_then(|name| profile.kind(name));
        let mut invalid = Vec::new();
        match (kind, tag) {
            (Some(kind), _) => invalid = self.check_fields(kind, line, node),
            (None, Some(tag)) => self.report_tag(profile, tag, name.as_deref(), line, node),
            (None, None) => {}
        }
        self.found.arrange(start);
        self.records += 1;
        self.last = Place::line(line.number, line.offset);
        let is_closing = name.is_some() && name.as_deref() == profile.table().last;
        self.last_kind = if is_closing { LastKind::Closing } else { LastKind::Other };
        let seen = Seen { node, kind: name.as_deref(), table: kind, invalid: &invalid, line: line.number };
        let is_listed = |rule| self.found.lists(rule);
        let mut hits = Hits::new(&is_listed);
        if let Some(rules) = &mut self.rules {
            rules.observe(&seen, &mut hits);
        }
        for Hit { rule, pointer, at, message } in hits.found {
            let whole = Place::line(line.number, line.offset);
            self.found.add(rule, at.map_or(whole, |at| place(line, at)), &pointer, || message);
            if let Some(rules) = self.rules.as_mut().filter(|_| !self.found.lists(rule)) {
                rules.count_only(rule);
            }
        }
        if self.directory.is_some() && seen.is("run_start") {
            self.compare_with_directory(&seen, line);
        }
    }

    /// Reports the problems of a record; returns the fields that take no part in later rules.
    fn check_fields(&mut self, kind: &'static KindTable, line: Line, node: Node) -> Vec<String> {
        let profile = self.found.profile.unwrap_or(Profile::Toy);
        let found = validate(kind, node, Integers::of(profile));
        let invalid = found.invalid_fields().map(String::from).collect();
        for problem in found.problems {
            self.found.add(problem.rule, place(line, problem.at), &problem.pointer, || problem.message);
            if problem.rule == Rule::WrongType && !self.found.lists(problem.rule) {
                self.rules.iter_mut().for_each(|rules| rules.count_only(problem.rule));
            }
        }
        if let Some(problem) = found.integer_as_float {
            self.report_integer_as_float(problem, line);
        }
        for key in found.unknown {
            if let (Some(plain), Some(fast)) = (key.plain(), &mut self.fast) {
                fast.learn_key(kind.name, plain);
            }
            let message = || {
                let tail = key.meant().map_or_else(String::new, messages::suggestion);
                (messages::unknown_key(shortened(&key.path), kind.name), tail)
            };
            let identity = key_identity(kind.name, &key.path);
            self.found.tally(Rule::UnknownKey, &identity, place(line, key.at), &key.pointer, message);
        }
        invalid
    }

    /// Reports the first integer of the stream that is written with a fraction or an exponent.
    fn report_integer_as_float(&mut self, problem: Problem, line: Line) {
        if !std::mem::replace(&mut self.has_float, true) {
            self.found.add(problem.rule, place(line, problem.at), &problem.pointer, || problem.message);
        }
        if let Some(fast) = &mut self.fast {
            fast.reported.integer_as_float = true;
        }
    }

    fn report_tag(&mut self, profile: Profile, tag: &str, name: Option<&str>, line: Line, node: Node) {
        let pointer = format!("/{tag}");
        match (name, node.get(tag)) {
            (Some(name), Some(value)) => {
                if let Some(fast) = self.fast.as_mut().filter(|_| value.body() == name.as_bytes()) {
                    fast.learn_kind(name);
                }
                let known = profile.table().kinds.iter().filter(|kind| kind.is_record).map(|kind| kind.name);
                let message = || {
                    let tail = nearest(name, known).map_or_else(String::new, messages::suggestion);
                    (messages::unknown_kind(shortened(name)), tail)
                };
                self.found.tally(Rule::UnknownKind, name, place(line, value.at()), &pointer, message);
            }
            (_, Some(value)) => {
                let message = || messages::unexpected(tag, typed(value), messages::EXPECTED_STRING);
                self.found.add(Rule::WrongType, place(line, value.at()), &pointer, message);
            }
            (_, None) => {
                let message = || messages::missing_tag(tag);
                self.found.add(Rule::MissingKey, place(line, node.at()), &pointer, message);
            }
        }
    }

    fn compare_with_directory(&mut self, seen: &Seen, line: Line) {
        let (Some(directory), Some(value)) = (self.directory.take(), seen.field("run_id")) else { return };
        let run_id = value.string();
        if run_id != directory {
            // Findings about the bundle come after those about the stream.
            let message = messages::run_id_mismatch(shortened(&run_id), shortened(&directory));
            let data = line.data.unwrap_or_default().to_vec();
            self.mismatch = Some((line.number, line.offset, value.at(), data, message));
        }
    }
}

fn place(line: Line<'_>, byte: usize) -> Place<'_> {
    Place { line: line.number, offset: line.offset, byte, data: line.data.unwrap_or(line.head) }
}

/// Identifies an unknown key of a kind.
fn key_identity(kind: &str, path: &str) -> String {
    format!("{kind} {path}")
}
