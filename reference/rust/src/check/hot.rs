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
pub(crate) struct Hot {
    clock: f64,
    /// The last count, where each has to be larger than the one before.
    rising: Option<u64>,
    /// The last count of each phase.
    bases: [Option<u64>; MAX_PHASES],
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
            if let Some(base) = self.bases[phase] {
                if said.count <= base || said.count > base + 1 && !self.subsampled {
                    return false;
                }
            }
            if phase == self.of_phase {
                self.loss = said.loss;
                self.last = Some(said.count);
            }
            self.bases[phase] = Some(said.count);
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
        self.rising = Some(said.count);
        true
    }
}
