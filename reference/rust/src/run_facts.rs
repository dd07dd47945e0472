//! What the telling lines of a run say of it, where they are plain.

use crate::line_validation::LineValidator;
use crate::record_numbers::{counts, finite};
use crate::tape::{Kind, Node};
use crate::Profile;

/// Larger integers do not become the same number when they are divided.
const MOST_MILLISECONDS: f64 = (1_u64 << 53) as f64;
const MILLISECONDS: f64 = 1000.0;

/// A loss, as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Null: it was not finite.
    Null,
    /// An integer.
    Whole(i64),
    /// Another number.
    Real(f64),
}

/// What a row of a list shows of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// The first step of the run's own phase.
    pub first_step: i64,
    /// The last of these.
    pub last_step: i64,
    /// That of the last record that ends the run, else that of the last step with a loss.
    pub final_loss: Loss,
    /// Time of the first record, in seconds.
    pub first_time: Option<f64>,
    /// Time of the last record, in seconds.
    pub last_time: Option<f64>,
    /// When the run says that it started.
    pub started_at: Option<String>,
    /// How the run says that it ended.
    pub reason: Option<String>,
    /// Whether a record says that the run has ended.
    pub is_ended: bool,
}

/// Returns what whole `lines` say, readable records of a run that was not resumed; None where that is more than plain
/// numbers. `is_own` returns whether a step is of the run's own phase.
pub(crate) fn facts_of(
    validator: &mut LineValidator,
    lines: &[u8],
    profile: Profile,
    is_own: impl Fn(Node) -> bool,
) -> Option<RunFacts> {
    let mut facts = RunFacts {
        first_step: -1,
        last_step: -1,
        final_loss: Loss::Null,
        first_time: None,
        last_time: None,
        started_at: None,
        reason: None,
        is_ended: false,
    };
    let (mut loss, mut end_loss, mut has_start) = (None, None, false);
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', lines) {
        let line = &lines[std::mem::replace(&mut start, end + 1)..end];
        validator.validate(line, false);
        let record = validator.record(line)?;
        let kind = match profile {
            Profile::Metrics => "step".into(),
            _ => record.get("kind").filter(|kind| kind.kind() == Kind::String)?.string(),
        };
        profile.kind(if profile == Profile::Metrics { "entry" } else { &kind })?;
        if profile == Profile::Metrics && !counts(record) {
            return None;
        }
        facts.take_time(record, profile)?;
        match &*kind {
            "run_start" => {
                // A step before it would be of another phase.
                if has_start || facts.first_step >= 0 {
                    return None;
                }
                has_start = true;
                facts.started_at = started_at(record)?;
            }
            "run_end" => {
                facts.is_ended = true;
                facts.reason = text_of(record.get("reason"))?;
                end_loss = record.get("final_loss").map(loss_of).map_or(Some(None), |loss| loss.map(Some))?;
            }
            "step" if is_own(record) => {
                loss = facts.take_step(record)?.or(loss);
            }
            // The run goes on after its end.
            "run_resume" if facts.is_ended => return None,
            // Its values may be losses.
            "scalars" => return None,
            _ => {}
        }
    }
    facts.final_loss = end_loss.or(loss)?;
    (facts.first_step >= 0).then_some(facts)
}

impl RunFacts {
    /// Takes in the time of a record; None where it is not plain.
    fn take_time(&mut self, record: Node, profile: Profile) -> Option<()> {
        let is_entry = profile == Profile::Metrics;
        let Some(time) = record.get(if is_entry { "wall_time_ms" } else { "t" }) else { return Some(()) };
        let mut time = finite(time)?;
        if is_entry {
            time = Some(time).filter(|time| time.abs() < MOST_MILLISECONDS)? / MILLISECONDS;
        }
        self.first_time = self.first_time.or(Some(time));
        self.last_time = Some(time);
        Some(())
    }

    /// Takes in a step and returns its loss, Some(None) for one without; None where it is not plain.
    #[allow(clippy::option_option)]
    fn take_step(&mut self, record: Node) -> Option<Option<Loss>> {
        let step = record.get("step")?;
        let step = step.literal().parse().ok().filter(|count: &i64| *count >= 0 && step.kind() == Kind::Number)?;
        self.first_step = if self.first_step < 0 { step } else { self.first_step };
        self.last_step = step;
        // In an entry, the extra counts.
        if record.get("extra").is_some_and(|extra| extra.kind() == Kind::Object && extra.get("loss").is_some()) {
            return None;
        }
        match record.get("loss") {
            None => Some(None),
            // A curve has real numbers.
            Some(loss) => match loss_of(loss)? {
                Loss::Whole(_) => Some(finite(loss).map(Loss::Real)),
                found => Some(Some(found)),
            },
        }
    }
}

/// Returns when a run says that it started; None where it says that in another way.
#[allow(clippy::option_option)]
fn started_at(record: Node) -> Option<Option<String>> {
    match record.get("started_at") {
        Some(text) if text.kind() == Kind::String => Some(Some(text.string().into_owned())),
        _ if record.get("created_at").is_some() => None,
        _ => Some(None),
    }
}

/// Returns a text that may be missing; None where it is something else.
#[allow(clippy::option_option)]
fn text_of(value: Option<Node>) -> Option<Option<String>> {
    match value {
        None => Some(None),
        Some(value) if value.kind() == Kind::String => Some(Some(value.string().into_owned())),
        Some(_) => None,
    }
}

fn loss_of(value: Node) -> Option<Loss> {
    match value.kind() {
        Kind::Null => Some(Loss::Null),
        Kind::Number if value.is_integer() => value.literal().parse().ok().map(Loss::Whole),
        _ => finite(value).map(Loss::Real),
    }
}

#[cfg(test)]
mod tests {
    use super::{facts_of, Loss, RunFacts};
    use crate::line_validation::LineValidator;
    use crate::Profile;

    fn facts(profile: Profile, lines: &str) -> Option<RunFacts> {
        facts_of(&mut LineValidator::default(), lines.as_bytes(), profile, |_| true)
    }

    #[test]
    fn a_run_says_when_it_ran_and_what_it_reached() {
        let start = "{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.5,\"run_id\":\"r\"STARTED}\n";
        let rest = concat!(
            "{\"kind\":\"step\",\"t\":1.0,\"step\":3,\"loss\":2.5}\n",
            "{\"kind\":\"step\",\"t\":2.0,\"step\":4,\"loss\":1.5}\n",
        );
        let run = |started: &str| facts(Profile::Toy, &(start.replace("STARTED", started) + rest));
        let found = run(",\"started_at\":\"2026-05-31T09:30:00Z\"").unwrap();
        assert_eq!((3, 4, Loss::Real(1.5)), (found.first_step, found.last_step, found.final_loss));
        assert_eq!((Some(0.5), Some(2.0)), (found.first_time, found.last_time));
        assert_eq!((Some("2026-05-31T09:30:00Z"), None), (found.started_at.as_deref(), found.reason));
        assert_eq!(None, run("").unwrap().started_at);
        // The Python package knows what a date of an older producer means.
        assert_eq!(None, run(",\"created_at\":\"2026-05-31\""));
        assert_eq!(None, facts(Profile::Toy, &(rest.to_string() + start.replace("STARTED", "").as_str())));
    }

    #[test]
    fn an_entry_has_its_time_in_milliseconds() {
        let entries = concat!(
            "{\"step\":1,\"wall_time_ms\":500,\"loss\":2.5,\"extra\":{}}\n",
            "{\"step\":2,\"wall_time_ms\":1500,\"loss\":null,\"extra\":{}}\n",
        );
        let found = facts(Profile::Metrics, entries).unwrap();
        assert_eq!((Some(0.5), Some(1.5)), (found.first_time, found.last_time));
        assert_eq!((1, 2, Loss::Null), (found.first_step, found.last_step, found.final_loss));
        assert_eq!(None, facts(Profile::Metrics, &entries.replace("1500", "9007199254740992")));
        let found =
            facts(Profile::Metrics, &entries.replace("1,\"wall_time_ms\":500", "0,\"wall_time_ms\":-0")).unwrap();
        assert_eq!((0, 2, Some(0)), (found.first_step, found.last_step, found.first_time.map(f64::to_bits)));
    }
}
