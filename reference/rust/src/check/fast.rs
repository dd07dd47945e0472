//! Proves lines free of problems in one pass, without building values. Whatever is not proven takes the exact path.

use std::sync::OnceLock;

use crate::check::containers::{anything, object};
use crate::check::fast_values::FastField;
use crate::check::hot::{Hot, Said};
use crate::check::roles::Roles;
use crate::check::rules::StreamRules;
use crate::check::words::{byte, space, string, word, Token};
use crate::schema::{KindTable, StreamRule};
use crate::Profile;

/// More unknown keys of a kind, and more unknown kinds, take the exact path.
const MAX_LEARNED: usize = 1024;

/// A key that no schema declares, which the exact path has reported.
#[derive(Clone)]
struct Learned {
    key: String,
    /// The line that had it last, as this kind counts its lines.
    line: u64,
    /// Number of lines with it.
    times: u64,
}

#[derive(Clone)]
struct FastKind {
    /// The beginning of a canonical line, up to the value of its tag.
    prefix: Token,
    /// The name with its quotes.
    name: Token,
    kind: &'static str,
    /// False for a kind that rules that relate records wait for.
    is_open: bool,
    is_step: bool,
    /// Those that the schema declares, then those that were learned.
    fields: Vec<FastField>,
    declared: usize,
    learned: Vec<Learned>,
    required: u64,
    /// Place of the tag among the fields.
    tag: Option<usize>,
    /// The key that came after each the last time; that of the first member comes first.
    next: Vec<u16>,
    /// Number of lines that were looked at.
    lines: u64,
    /// The learned keys of the current line.
    met: Vec<u16>,
}

/// A kind that no schema declares, which the exact path has reported.
#[derive(Clone)]
struct UnknownKind {
    kind: String,
    /// The name with its quotes.
    name: Token,
    times: u64,
}

/// What the exact path has reported once, so that it does no harm later.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Reported {
    pub integer_as_float: bool,
    pub carriage_return: bool,
}

/// Goes over lines of one profile.
#[derive(Clone)]
pub(crate) struct Fast {
    tag: Option<Token>,
    kinds: Vec<FastKind>,
    unknown: Vec<UnknownKind>,
    /// The kind of the line before.
    current: usize,
    phases: Vec<&'static str>,
    is_rising: bool,
    pub reported: Reported,
}

/// What the fast path has taken in.
#[derive(Default)]
pub(crate) struct Taken {
    pub lines: u64,
    pub bytes: usize,
    /// Start of the last line.
    pub last: usize,
}

/// What a thread proves lines with: all that was learned so far, and memory that is blank.
#[derive(Clone)]
pub(crate) struct Premise {
    fast: Fast,
    hot: Hot,
}

/// Lines that are proven if they follow what came before them.
pub(crate) struct Proof {
    pub taken: Taken,
    hot: Hot,
    /// How often each key that no schema declares, by its kind, and each such kind was met.
    counts: Vec<(Option<usize>, usize, u64)>,
}

impl Premise {
    /// Proves the lines at the start of a text; `text` is whole lines of UTF-8.
    pub fn prove(&mut self, text: &[u8], limit: usize) -> Proof {
        let mut hot = self.hot.clone();
        let taken = self.fast.lines(text, &mut hot, limit);
        let counts = if taken.lines > 0 { self.fast.take_counts() } else { Vec::new() };
        Proof { taken, hot, counts }
    }
}

/// Where the members begin that are to be looked at.
enum Begun {
    /// After the tag, which is the first.
    AfterTag(usize),
    /// At the first.
    AtFirst(usize),
}

impl Fast {
    /// Returns one that has learned nothing; its tables are made once for each profile.
    pub fn new(profile: Profile) -> Fast {
        static BLANK: [OnceLock<Fast>; 3] = [const { OnceLock::new() }; 3];
        BLANK[profile as usize].get_or_init(|| Fast::made(profile)).clone()
    }

    fn made(profile: Profile) -> Fast {
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
        let reported = Reported::default();
        Fast { tag, kinds, unknown: Vec::new(), current: 0, phases: roles.phases, is_rising, reported }
    }

    /// Learns a key that the schema of a kind does not declare; it has no escapes.
    pub fn learn_key(&mut self, kind: &str, key: &str) {
        let known = self.kinds.iter_mut().find(|known| known.kind == kind);
        if let Some(known) = known.filter(|known| known.learned.len() < MAX_LEARNED) {
            known.learn(key);
        }
    }

    /// Learns a kind that no schema declares; its name has no escapes.
    pub fn learn_kind(&mut self, kind: &str) {
        if self.unknown.len() < MAX_LEARNED && self.unknown.iter().all(|known| known.kind != kind) {
            let name = Token::new(&format!("\"{kind}\""));
            self.unknown.push(UnknownKind { kind: kind.to_string(), name, times: 0 });
        }
    }

    /// Returns what was met again: a kind, a key of it or None for the kind itself, and how often.
    pub fn met_again(&self) -> impl Iterator<Item = (&str, Option<&str>, u64)> {
        let kinds = self.unknown.iter().map(|unknown| (unknown.kind.as_str(), None, unknown.times));
        let keys = self.kinds.iter().flat_map(|kind| {
            let name = kind.kind;
            kind.learned.iter().map(move |learned| (name, Some(learned.key.as_str()), learned.times))
        });
        kinds.chain(keys).filter(|(.., times)| *times > 0)
    }

    /// Takes in the lines at the start of a text that are proven; `text` is whole lines of UTF-8.
    pub fn run(&mut self, text: &[u8], rules: &mut StreamRules, limit: usize) -> Taken {
        let Some(mut hot) = Hot::load(rules, &self.phases) else { return Taken::default() };
        let taken = self.lines(text, &mut hot, limit);
        hot.store(rules, &self.phases, text);
        taken
    }

    fn lines(&mut self, text: &[u8], hot: &mut Hot, limit: usize) -> Taken {
        let mut taken = Taken::default();
        while let Some(end) = self.line(text, taken.bytes, hot, limit) {
            taken.last = taken.bytes;
            taken.bytes = end;
            taken.lines += 1;
        }
        taken
    }

    /// Takes in the lines at the start of a text that are records of kinds that no rule waits for, whatever relates them;
    /// `text` is whole lines of UTF-8.
    pub fn records(&mut self, text: &[u8], limit: usize) -> Taken {
        let mut taken = Taken::default();
        while let Some(end) = self.record(text, taken.bytes, limit) {
            taken.last = taken.bytes;
            taken.bytes = end;
            taken.lines += 1;
        }
        taken
    }

    #[inline(always)]
    fn record(&mut self, text: &[u8], start: usize, limit: usize) -> Option<usize> {
        let kind = &mut self.kinds[self.current];
        let found = if kind.prefix.is_at(text, start) {
            kind.members(text, Begun::AfterTag(start + kind.prefix.length), self.reported)
        } else {
            self.other_line(text, start)
        };
        let (end, said) = found?;
        self.line_end(text, start, end, limit).filter(|_| said.wrong_types == 0)
    }

    /// Returns what other threads prove lines with; None where the fast path cannot go on from what the rules remember.
    pub fn premise(&self, rules: &StreamRules) -> Option<Premise> {
        let hot = Hot::load(rules, &self.phases)?.blank();
        let mut fast = self.clone();
        fast.take_counts();
        Some(Premise { fast, hot })
    }

    /// Returns whether a premise knows all that is known now.
    pub fn is_known_to(&self, premise: &Premise, rules: &StreamRules) -> bool {
        let number = |fast: &Fast| fast.unknown.len() + fast.kinds.iter().map(|kind| kind.learned.len()).sum::<usize>();
        self.reported == premise.fast.reported
            && number(self) == number(&premise.fast)
            && Hot::load(rules, &self.phases).is_some_and(|hot| hot.is_set_as(&premise.hot))
    }

    /// Takes in lines that were proven from a premise that this fast path gave; returns whether they follow what the
    /// rules remember. If not, nothing has changed.
    pub fn take_in(&mut self, text: &[u8], proof: &Proof, rules: &mut StreamRules) -> bool {
        let Some(mut hot) = Hot::load(rules, &self.phases).filter(|_| proof.taken.lines > 0) else { return false };
        if !hot.join(&proof.hot) {
            return false;
        }
        hot.store(rules, &self.phases, text);
        for &(kind, index, times) in &proof.counts {
            match kind {
                Some(kind) => self.kinds[kind].learned[index].times += times,
                None => self.unknown[index].times += times,
            }
        }
        true
    }

    /// Returns how often each key and kind was met again, and forgets it.
    fn take_counts(&mut self) -> Vec<(Option<usize>, usize, u64)> {
        let unknown = self.unknown.iter_mut().map(|unknown| &mut unknown.times).enumerate();
        let mut counts: Vec<_> = unknown.map(|(index, times)| (None, index, std::mem::take(times))).collect();
        for (place, kind) in self.kinds.iter_mut().enumerate() {
            let learned = kind.learned.iter_mut().map(|learned| &mut learned.times).enumerate();
            counts.extend(learned.map(|(index, times)| (Some(place), index, std::mem::take(times))));
        }
        counts.retain(|(.., times)| *times > 0);
        counts
    }

    /// Returns where the next line begins when the one at `start` is proven and breaks no rule.
    #[inline(always)]
    fn line(&mut self, text: &[u8], start: usize, hot: &mut Hot, limit: usize) -> Option<usize> {
        let kind = &mut self.kinds[self.current];
        let found = if kind.prefix.is_at(text, start) {
            kind.members(text, Begun::AfterTag(start + kind.prefix.length), self.reported)
        } else {
            self.other_line(text, start)
        };
        let Some((end, said)) = found else { return self.unknown_line(text, start, limit) };
        let end = self.line_end(text, start, end, limit)?;
        let kind = &mut self.kinds[self.current];
        let is_quiet = if self.is_rising { hot.take_rising(&said) } else { hot.take(&said, kind.is_step) };
        if !is_quiet {
            return None;
        }
        kind.count_learned();
        Some(end)
    }

    /// Returns where the next line begins when the one at `start` ends with its last bracket at `end`.
    #[inline(always)]
    fn line_end(&self, text: &[u8], start: usize, mut end: usize, limit: usize) -> Option<usize> {
        if self.reported.carriage_return && byte(text, end) == b'\r' {
            end += 1;
        }
        (end - start <= limit && byte(text, end) == b'\n').then_some(end + 1)
    }

    /// Goes over a line that does not begin as one of the current kind.
    #[inline(never)]
    fn other_line(&mut self, text: &[u8], start: usize) -> Option<(usize, Said)> {
        if byte(text, start) != b'{' {
            return None;
        }
        let first = space(text, start + 1);
        let Some(tag) = &self.tag else {
            return self.kinds[self.current].other_members(text, Begun::AtFirst(first), self.reported);
        };
        if let Some(value) = value_of(tag, text, first) {
            self.current = self.kinds.iter().position(|kind| kind.name.is_at(text, value))?;
            let kind = &mut self.kinds[self.current];
            return kind.other_members(text, Begun::AfterTag(value + kind.name.length), self.reported);
        }
        // Mostly, a line is of the kind of the line before.
        let found = self.kinds[self.current].other_members(text, Begun::AtFirst(first), self.reported);
        if found.is_some() {
            return found;
        }
        let value = find_value(tag, text, first)?;
        let other = self.kinds.iter().position(|kind| kind.name.is_at(text, value))?;
        if other == self.current {
            return None;
        }
        self.current = other;
        self.kinds[other].other_members(text, Begun::AtFirst(first), self.reported)
    }

    #[inline(never)]
    /// Goes over a line of a kind that was reported as not known; nothing else is asked of it than to be JSON.
    fn unknown_line(&mut self, text: &[u8], start: usize, limit: usize) -> Option<usize> {
        if self.unknown.is_empty() || byte(text, start) != b'{' {
            return None;
        }
        let value = find_value(self.tag.as_ref()?, text, space(text, start + 1))?;
        let index = self.unknown.iter().position(|unknown| unknown.name.is_at(text, value))?;
        let end = object(text, start, |at| anything(text, at, 0))?;
        let end = self.line_end(text, start, end, limit)?;
        self.unknown[index].times += 1;
        Some(end)
    }
}

/// Returns where the value of a member begins whose key is at a place.
fn value_of(key: &Token, text: &[u8], at: usize) -> Option<usize> {
    let colon = space(text, at + key.length);
    (key.is_at(text, at) && byte(text, colon) == b':').then(|| space(text, colon + 1))
}

/// Returns where the value of the first member with a key begins, from the members that begin at a place.
fn find_value(key: &Token, text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        if let Some(value) = value_of(key, text, at) {
            return Some(value);
        }
        let colon = space(text, (byte(text, at) == b'"').then(|| string(text, at + 1, true))??);
        let value = (byte(text, colon) == b':').then(|| space(text, colon + 1))?;
        let comma = space(text, anything(text, value, 0)?);
        at = (byte(text, comma) == b',').then(|| space(text, comma + 1))?;
    }
}

impl FastKind {
    fn new(kind: &'static KindTable, roles: &Roles, tag: Option<&'static str>) -> FastKind {
        let name = Token::new(&format!("\"{}\"", kind.name));
        let prefix = Token::new(&tag.map_or("{".to_string(), |tag| format!("{{\"{tag}\":\"{}\"", kind.name)));
        let fields: Vec<FastField> = kind.fields.iter().map(|field| FastField::new(field, roles)).collect();
        let required = kind.fields.iter().enumerate().filter(|(_, field)| field.required);
        FastKind {
            prefix,
            name,
            kind: kind.name,
            is_open: !roles.awaited.contains(&kind.name) && fields.len() < 64,
            is_step: roles.step_kind == Some(kind.name),
            next: (0..=fields.len() as u16).collect(),
            declared: fields.len(),
            fields,
            learned: Vec::new(),
            required: required.fold(0, |mask, (index, _)| mask | 1 << index),
            tag: tag.and_then(|tag| kind.fields.iter().position(|field| field.name == tag)),
            lines: 0,
            met: Vec::new(),
        }
    }

    fn learn(&mut self, key: &str) {
        if self.learned.iter().all(|learned| learned.key != key) {
            self.learned.push(Learned { key: key.to_string(), line: 0, times: 0 });
            self.fields.push(FastField::undeclared(key));
            self.next.push(0);
        }
    }

    fn count_learned(&mut self) {
        for &index in &self.met {
            self.learned[index as usize].times += 1;
        }
    }

    /// As `members`, for lines that do not begin as the one before.
    #[inline(never)]
    fn other_members(&mut self, text: &[u8], begun: Begun, reported: Reported) -> Option<(usize, Said)> {
        self.members(text, begun, reported)
    }

    /// Goes over members up to the closing bracket; returns where the text after it begins, and what they say.
    #[inline(always)]
    fn members(&mut self, text: &[u8], begun: Begun, reported: Reported) -> Option<(usize, Said)> {
        if !self.is_open {
            return None;
        }
        let mut said = Said { floats: reported.integer_as_float, ..Said::NOTHING };
        let mut seen = 0_u64;
        // Place in `next`.
        let mut before = 0;
        let (mut at, mut after_one) = match (begun, self.tag) {
            (Begun::AfterTag(at), Some(tag)) => {
                seen = 1 << tag;
                before = tag + 1;
                (at, true)
            }
            (Begun::AfterTag(at) | Begun::AtFirst(at), _) => (at, false),
        };
        self.lines += 1;
        self.met.clear();
        loop {
            at = space(text, at);
            match byte(text, at) {
                b'}' => break,
                b',' if after_one => at = space(text, at + 1),
                _ if after_one => return None,
                _ => {}
            }
            after_one = true;
            let head = word(text, at)?;
            let mut index = self.next[before] as usize;
            if !self.fields.get(index).is_some_and(|field| field.key.is_at_with_head(head, text, at)) {
                index = self.fields.iter().position(|field| field.key.is_at_with_head(head, text, at))?;
                self.next[before] = index as u16;
            }
            before = index + 1;
            let field = &self.fields[index];
            at = space(text, at + field.key.length);
            if index < self.declared {
                if seen & 1 << index != 0 {
                    return None;
                }
                seen |= 1 << index;
                at = field.value(text, at, &mut said).or_else(|| field.wrong_type(text, at, &mut said))?;
            } else {
                at = self.learned_value(index - self.declared, text, at)?;
            }
        }
        (seen & self.required == self.required).then_some((at + 1, said))
    }

    #[cold]
    #[inline(never)]
    fn learned_value(&mut self, index: usize, text: &[u8], at: usize) -> Option<usize> {
        if std::mem::replace(&mut self.learned[index].line, self.lines) == self.lines {
            return None;
        }
        self.met.push(index as u16);
        anything(text, at, 0)
    }
}
