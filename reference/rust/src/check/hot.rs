//! What the rules that relate records remember, in the form that the fast path works on.

use crate::check::hits::{Count, Scalar};
use crate::check::rules::{Memory, StreamRules};
use crate::schema::StreamRule;
use crate::tables::Rule;

pub(crate) const MAX_PHASES: usize = 4;

/// What one record says to the rules.
#[derive(Clone, Copy)]
pub(crate) struct Said {
    /// The number that may not decrease.
    pub clock: f64,
    /// The number that counts up.
    pub count: u64,
    /// Index of the phase that the record names.
    pub phase: Option<usize>,
    /// Where the loss lies in the text.
    pub loss: Option<(usize, usize)>,
    pub has_null: bool,
    /// Number of fields whose values have another type than the schema allows.
    pub wrong_types: u64,
    /// Integers may be written with a fraction and an exponent.
    pub floats: bool,
}

impl Said {
    pub const NOTHING: Said = Said {
        clock: f64::INFINITY,
        count: 0,
        phase: None,
        loss: None,
        has_null: false,
        wrong_types: 0,
        floats: false,
    };
}

/// How often rules on the order of numbers, and on types, were broken whose findings are only counted; None for a rule
/// whose next finding is listed.
#[derive(Clone, Copy)]
struct Broken {
    clock: Option<u64>,
    rising: Option<u64>,
    backwards: Option<u64>,
    skipped: Option<u64>,
    types: Option<u64>,
}

impl Broken {
    const NEVER: Broken = Broken { clock: None, rising: None, backwards: None, skipped: None, types: None };

    fn all(&self) -> [Option<u64>; 5] {
        [self.clock, self.rising, self.backwards, self.skipped, self.types]
    }

    /// Adds the numbers of another; returns None where it counts what this does not.
    fn joined(&self, other: &Broken) -> Option<Broken> {
        let sum = |own: Option<u64>, other: Option<u64>| match (own, other.unwrap_or(0)) {
            (None, 1..) => None,
            (own, other) => Some(own.map(|own| own + other)),
        };
        Some(Broken {
            clock: sum(self.clock, other.clock)?,
            rising: sum(self.rising, other.rising)?,
            backwards: sum(self.backwards, other.backwards)?,
            skipped: sum(self.skipped, other.skipped)?,
            types: sum(self.types, other.types)?,
        })
    }
}

/// The memory of the rules of one profile. It exists only while no rule waits for a certain record.
#[derive(Clone)]
pub(crate) struct Hot {
    clock: f64,
    /// The last count, where each has to be larger than the one before.
    rising: Option<u64>,
    /// The last count of each phase.
    bases: [Option<u64>; MAX_PHASES],
    first: First,
    phase: usize,
    subsampled: bool,
    /// Index of the phase whose last step counts.
    of_phase: usize,
    last: Option<u64>,
    /// Where the loss of that step lies in the text.
    loss: Option<(usize, usize)>,
    /// The first null is a finding.
    asks_null: bool,
    broken: Broken,
    is_changed: bool,
}

/// What the first records said that were taken in from blank memory.
#[derive(Clone, Copy)]
struct First {
    clock: f64,
    rising: u64,
    /// The first count of each phase.
    counts: [u64; MAX_PHASES],
}

impl Hot {
    /// Returns what the rules remember; None where the fast path cannot go on from there.
    pub fn load(rules: &StreamRules, phases: &[&str]) -> Option<Hot> {
        let index = |name: &str| phases.iter().position(|phase| *phase == name);
        let table = rules.profile.table();
        let default = table.phase.as_ref().map_or("", |phase| phase.default);
        let mut hot = Hot {
            clock: f64::NEG_INFINITY,
            rising: None,
            bases: [None; MAX_PHASES],
            first: First { clock: f64::INFINITY, rising: 0, counts: [0; MAX_PHASES] },
            phase: if phases.is_empty() { 0 } else { index(rules.facts.phase.as_deref().unwrap_or(default))? },
            subsampled: rules.facts.subsampled,
            of_phase: MAX_PHASES,
            last: None,
            loss: None,
            asks_null: false,
            broken: Broken { types: rules.uncollected(Rule::WrongType), ..Broken::NEVER },
            is_changed: false,
        };
        for (rule, memory) in table.rules.iter().zip(&rules.memories) {
            match (rule, memory) {
                (StreamRule::First { .. }, Memory::Done(false)) => return None,
                (StreamRule::Last { .. }, Memory::Line(1..)) => return None,
                (StreamRule::NullNumber { .. }, Memory::Done(done)) => hot.asks_null = !done,
                (StreamRule::Monotone { rule, repeats: true, .. }, Memory::Last(last)) => {
                    hot.clock = last.unwrap_or(f64::NEG_INFINITY);
                    hot.broken.clock = rules.uncollected(*rule);
                }
                (StreamRule::Monotone { rule, repeats: false, .. }, Memory::Last(last)) => {
                    hot.rising = last.map(|last| last as u64);
                    hot.broken.rising = rules.uncollected(*rule);
                }
                (StreamRule::Sequence { rule, skipped, .. }, Memory::Bases(bases)) => {
                    hot.broken.backwards = rules.uncollected(*rule);
                    hot.broken.skipped = rules.uncollected(*skipped);
                    for (phase, base) in bases {
                        let Count::Small(base) = base else { return None };
                        hot.bases[index(phase)?] = Some(*base);
                    }
                }
                (StreamRule::SameAsLast { of_phase, .. }, _) => hot.of_phase = index(of_phase)?,
                _ => {}
            }
        }
        Some(hot)
    }

    /// Returns the memory before any record, in the same setting.
    pub fn blank(&self) -> Hot {
        let (bases, last, loss) = ([None; MAX_PHASES], None, None);
        let none = |times: Option<u64>| times.map(|_| 0);
        let Broken { clock, rising, backwards, skipped, types } = self.broken;
        let broken = Broken {
            clock: none(clock),
            rising: none(rising),
            backwards: none(backwards),
            skipped: none(skipped),
            types: none(types),
        };
        Hot { clock: f64::NEG_INFINITY, rising: None, bases, last, loss, broken, is_changed: false, ..*self }
    }

    /// Returns whether lines that are proven with one of the two memories are proven with the other.
    pub fn is_set_as(&self, other: &Hot) -> bool {
        let setting = |hot: &Hot| {
            let counted = hot.broken.all().map(|times| times.is_some());
            (hot.phase, hot.subsampled, hot.asks_null, counted)
        };
        setting(self) == setting(other)
    }

    /// Takes in the records that another memory has taken in from blank. Returns whether they break no rule after
    /// those before them; else nothing has changed.
    pub fn join(&mut self, other: &Hot) -> bool {
        if !other.is_changed {
            return true;
        }
        let is_same = self.phase == other.phase && self.subsampled == other.subsampled;
        let first = &other.first;
        let rises = other.rising.is_none() || self.rising.is_none_or(|last| first.rising > last);
        let follows = (0..MAX_PHASES).all(|phase| match (self.bases[phase], other.bases[phase]) {
            (Some(base), Some(_)) => self.counts_on(base, first.counts[phase]),
            _ => true,
        });
        let Some(broken) = self.broken.joined(&other.broken) else { return false };
        if !is_same || first.clock < self.clock || !rises || !follows {
            return false;
        }
        self.broken = broken;
        self.clock = other.clock;
        self.rising = other.rising.or(self.rising);
        for (base, other) in self.bases.iter_mut().zip(other.bases) {
            *base = other.or(*base);
        }
        if other.last.is_some() {
            (self.last, self.loss) = (other.last, other.loss);
        }
        self.is_changed = true;
        true
    }

    /// Returns whether a step may come after another of its phase.
    #[inline(always)]
    fn counts_on(&self, base: u64, count: u64) -> bool {
        count > base && (count == base + 1 || self.subsampled)
    }

    /// Gives back to the rules what has changed; `text` is what was taken in.
    pub fn store(&self, rules: &mut StreamRules, phases: &[&str], text: &[u8]) {
        if !self.is_changed {
            return;
        }
        self.store_broken(rules);
        let table = rules.profile.table();
        let counted = table.rules.iter().find_map(|rule| match rule {
            StreamRule::Sequence { field, .. } => Some(field),
            _ => None,
        });
        for (rule, memory) in table.rules.iter().zip(&mut rules.memories) {
            match (rule, memory) {
                (StreamRule::Monotone { repeats: true, .. }, Memory::Last(last)) => {
                    *last = Some(self.clock).filter(|clock| clock.is_finite());
                }
                (StreamRule::Monotone { repeats: false, .. }, Memory::Last(last)) => {
                    *last = self.rising.map(|count| count as f64);
                }
                (StreamRule::Sequence { .. }, Memory::Bases(bases)) => {
                    let known = phases.iter().zip(&self.bases);
                    *bases =
                        known.filter_map(|(phase, base)| Some((phase.to_string(), Count::Small((*base)?)))).collect();
                }
                (StreamRule::SameAsLast { of_field, .. }, Memory::Other(last, _)) => {
                    if let Some(step) = self.last {
                        *last = if counted == Some(of_field) {
                            Some(Scalar::Integer(step.to_string()))
                        } else {
                            self.loss_in(text)
                        };
                    }
                }
                _ => {}
            }
        }
    }

    fn store_broken(&self, rules: &mut StreamRules) {
        rules.set_uncollected(Rule::WrongType, self.broken.types);
        for rule in rules.profile.table().rules {
            match rule {
                StreamRule::Monotone { rule, repeats: true, .. } => rules.set_uncollected(*rule, self.broken.clock),
                StreamRule::Monotone { rule, repeats: false, .. } => rules.set_uncollected(*rule, self.broken.rising),
                StreamRule::Sequence { rule, skipped, .. } => {
                    rules.set_uncollected(*rule, self.broken.backwards);
                    rules.set_uncollected(*skipped, self.broken.skipped);
                }
                _ => {}
            }
        }
    }

    fn loss_in(&self, text: &[u8]) -> Option<Scalar> {
        let (start, end) = self.loss?;
        std::str::from_utf8(&text[start..end]).ok().map(Scalar::of_text)
    }

    /// Takes in a record of a kind that no rule waits for. Returns whether it breaks no rule, other than rules whose
    /// findings are only counted; else nothing has changed.
    #[inline(always)]
    pub fn take(&mut self, said: &Said, is_step: bool) -> bool {
        let is_late = said.clock < self.clock;
        if is_late && self.broken.clock.is_none() || self.asks_null && said.has_null {
            return false;
        }
        let has_wrong_types = said.wrong_types > 0;
        if has_wrong_types && self.broken.types.is_none() {
            return false;
        }
        if is_step {
            let phase = said.phase.unwrap_or(self.phase);
            match self.bases[phase] {
                Some(base) if !self.counts_on(base, said.count) => {
                    let is_back = said.count <= base;
                    let times = if is_back { &mut self.broken.backwards } else { &mut self.broken.skipped };
                    let Some(times) = times else { return false };
                    *times += 1;
                }
                Some(_) => {}
                None => self.first.counts[phase] = said.count,
            }
            if phase == self.of_phase {
                self.loss = said.loss;
                self.last = Some(said.count);
            }
            self.bases[phase] = Some(said.count);
        }
        if let Some(times) = self.broken.clock.as_mut().filter(|_| is_late) {
            *times += 1;
        }
        if let Some(times) = self.broken.types.as_mut().filter(|_| has_wrong_types) {
            *times += said.wrong_types;
        }
        if !self.is_changed {
            self.first.clock = said.clock;
        }
        self.clock = said.clock;
        self.is_changed = true;
        true
    }

    /// As `take`, for a profile whose records count up.
    #[inline(always)]
    pub fn take_rising(&mut self, said: &Said) -> bool {
        let is_back = self.rising.is_some_and(|last| said.count <= last);
        if is_back && self.broken.rising.is_none() || !self.take(said, false) {
            return false;
        }
        match (&mut self.broken.rising, self.rising) {
            (Some(times), _) if is_back => *times += 1,
            (_, None) => self.first.rising = said.count,
            _ => {}
        }
        self.rising = Some(said.count);
        true
    }
}
