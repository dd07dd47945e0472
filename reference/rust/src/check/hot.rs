//! What the rules that relate records remember, in the form that the fast path works on.

use crate::check::hits::{Count, Scalar};
use crate::check::rules::{Memory, StreamRules};
use crate::schema::StreamRule;

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
    /// Integers may be written with a fraction and an exponent.
    pub floats: bool,
}

impl Said {
    pub const NOTHING: Said =
        Said { clock: f64::INFINITY, count: 0, phase: None, loss: None, has_null: false, floats: false };
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
            is_changed: false,
        };
        for (rule, memory) in table.rules.iter().zip(&rules.memories) {
            match (rule, memory) {
                (StreamRule::First { .. }, Memory::Done(false)) => return None,
                (StreamRule::Last { .. }, Memory::Line(1..)) => return None,
                (StreamRule::NullNumber { .. }, Memory::Done(done)) => hot.asks_null = !done,
                (StreamRule::Monotone { repeats: true, .. }, Memory::Last(last)) => {
                    hot.clock = last.unwrap_or(f64::NEG_INFINITY);
                }
                (StreamRule::Monotone { repeats: false, .. }, Memory::Last(last)) => {
                    hot.rising = last.map(|last| last as u64);
                }
                (StreamRule::Sequence { .. }, Memory::Bases(bases)) => {
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
        Hot { clock: f64::NEG_INFINITY, rising: None, bases, last, loss, is_changed: false, ..*self }
    }

    /// Returns whether lines that are proven with one of the two memories are proven with the other.
    pub fn is_set_as(&self, other: &Hot) -> bool {
        (self.phase, self.subsampled, self.asks_null) == (other.phase, other.subsampled, other.asks_null)
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
        if !is_same || first.clock < self.clock || !rises || !follows {
            return false;
        }
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

    fn loss_in(&self, text: &[u8]) -> Option<Scalar> {
        let (start, end) = self.loss?;
        std::str::from_utf8(&text[start..end]).ok().map(Scalar::of_text)
    }

    /// Takes in a record of a kind that no rule waits for. Returns whether it breaks no rule; else nothing has changed.
    #[inline(always)]
    pub fn take(&mut self, said: &Said, is_step: bool) -> bool {
        if said.clock < self.clock || self.asks_null && said.has_null {
            return false;
        }
        if is_step {
            let phase = said.phase.unwrap_or(self.phase);
            match self.bases[phase] {
                Some(base) if !self.counts_on(base, said.count) => return false,
                Some(_) => {}
                None => self.first.counts[phase] = said.count,
            }
            if phase == self.of_phase {
                self.loss = said.loss;
                self.last = Some(said.count);
            }
            self.bases[phase] = Some(said.count);
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
        if self.rising.is_some_and(|last| said.count <= last) || !self.take(said, false) {
            return false;
        }
        if self.rising.is_none() {
            self.first.rising = said.count;
        }
        self.rising = Some(said.count);
        true
    }
}
