//! Says which record may come next in a stream, and gives its line: see spec/stream.md.

use std::borrow::Cow;

use crate::canonical::{encode, Refused};
use crate::schema::Constant;
use crate::tables::MAX_SAFE_RUN_ID_CHARS;
use crate::{Map, Number, Profile, Record, Value};

/// Composes the lines of one stream. In toy/v1, a record that may not be at its place is refused, and `t` never
/// decreases; the other profiles have no order that a writer could break.
#[derive(Clone, Debug)]
pub struct Composer {
    profile: Profile,
    stage: Stage,
    phase: String,
    /// The last step of each phase.
    steps: Vec<(String, i64)>,
    /// Step and loss of the last step event of phase train.
    last: Option<(Value, Option<Value>)>,
    t: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The next record is a run_start.
    Begin,
    Running,
    /// The next record is a run_resume.
    Resuming,
    Ended,
}

impl Composer {
    /// Returns the composer of a stream that has no record.
    pub fn new(profile: Profile) -> Composer {
        let stage = if profile == Profile::Toy { Stage::Begin } else { Stage::Running };
        Composer { profile, stage, phase: "train".to_string(), steps: Vec::new(), last: None, t: 0.0 }
    }

    /// Takes in a record that is in the stream already. Only toy/v1 has an order.
    pub(crate) fn take(&mut self, record: &Record) {
        if self.profile != Profile::Toy {
            return;
        }
        self.t = self.t.max(time_of(&record.value).unwrap_or(0.0));
        self.advance(&record.value);
    }

    /// Demands that a stream that someone else has left goes on with a run_resume, also after its end.
    pub(crate) fn resume(&mut self) {
        if matches!(self.stage, Stage::Running | Stage::Ended) && self.profile == Profile::Toy {
            self.stage = Stage::Resuming;
        }
    }

    /// Returns the last `t` in the stream, in seconds.
    pub fn t(&self) -> f64 {
        self.t
    }

    /// Returns whether nothing may follow.
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Returns `final_step` and `final_loss`, as the last training step has them.
    pub fn final_values(&self) -> Vec<(String, Value)> {
        let Some((step, loss)) = &self.last else { return Vec::new() };
        let loss = loss.clone().map(|loss| ("final_loss".to_string(), loss));
        [("final_step".to_string(), step.clone())].into_iter().chain(loss).collect()
    }

    /// Returns the line of a record, LF included, and the composer of what follows it. `now` is the `t` of a toy/v1
    /// record that has none, and the `wall_time` of a kaun/v1 scalar that has none.
    pub fn compose(&self, record: &Map, now: f64) -> Result<(Vec<u8>, Composer), Refused> {
        let mut next = self.clone();
        if self.profile != Profile::Toy {
            return Ok((encode(self.profile, &self.timed(record, now))?, next));
        }
        self.admit(record)?;
        let mut record = record.clone();
        match record.get("t") {
            None => {
                record.insert("t", Value::Number(Number::from(now.max(self.t))));
            }
            Some(_) if time_of(&record).is_some_and(|t| t < self.t) => {
                record.insert("t", Value::Number(Number::from(self.t)));
            }
            // What is wrong with any other, encoding says.
            Some(_) => {}
        }
        let line = encode(self.profile, &record)?;
        next.t = time_of(&record).unwrap_or(self.t);
        next.advance(&record);
        Ok((line, next))
    }

    /// Returns a record with its `wall_time`, where it is a scalar of kaun/v1 that has none.
    fn timed<'a>(&self, record: &'a Map, now: f64) -> Cow<'a, Map> {
        let is_scalar = record.get("type").and_then(Value::as_str) == Some("scalar");
        if self.profile != Profile::Kaun || !is_scalar || record.get("wall_time").is_some() {
            return Cow::Borrowed(record);
        }
        let mut timed = record.clone();
        timed.insert("wall_time", Value::Number(Number::from(now)));
        Cow::Owned(timed)
    }

    /// Refuses a record that may not come next.
    fn admit(&self, record: &Map) -> Result<(), Refused> {
        let kind = kind_of(record);
        let what = match kind {
            "" => "this record has no `kind`".to_string(),
            kind => format!("this is a {}", crate::escape::shortened(kind)),
        };
        let refused = |why: &str| Err(Refused(format!("{why}; {what}")));
        match self.stage {
            Stage::Begin if kind != "run_start" => return refused("a stream begins with run_start"),
            Stage::Running if kind == "run_start" => return refused("a stream has one run_start"),
            Stage::Resuming if kind != "run_resume" => return refused("a run goes on with run_resume"),
            Stage::Ended if kind != "run_resume" => return refused("a run that has ended goes on with run_resume"),
            _ => {}
        }
        match kind {
            "run_start" => record.get("run_id").and_then(Value::as_str).map_or(Ok(()), check_run_id),
            "step" => self.admit_step(record),
            _ => Ok(()),
        }
    }

    fn admit_step(&self, record: &Map) -> Result<(), Refused> {
        // What is wrong with any other value, encoding says.
        let Some(Value::Number(step)) = record.get("step") else { return Ok(()) };
        let step = step.as_i64().ok_or_else(|| Refused("its step is not a number of a step".to_string()))?;
        let phase = self.phase_of(record);
        match self.steps.iter().find(|(known, _)| *known == phase) {
            Some((_, last)) if step <= *last => Err(Refused(format!("step {step} after step {last} in phase {phase}"))),
            _ => Ok(()),
        }
    }

    fn advance(&mut self, record: &Map) {
        match kind_of(record) {
            "run_start" => {
                if self.stage == Stage::Begin {
                    self.phase = self.phase_of(record);
                }
                self.stage = Stage::Running;
            }
            "run_end" => self.stage = Stage::Ended,
            "run_resume" => {
                self.stage = Stage::Running;
                let from = record.get("from_step").and_then(Value::as_i64);
                self.steps = from.map(|from| ("train".to_string(), from)).into_iter().collect();
            }
            "step" => self.advance_step(record),
            _ => {}
        }
    }

    fn advance_step(&mut self, record: &Map) {
        let phase = self.phase_of(record);
        let is_count = |value: &&Value| value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0);
        let Some(step) = record.get("step").filter(is_count) else { return };
        if phase == "train" {
            let loss = record.get("loss").filter(|loss| matches!(loss, Value::Null | Value::Number(_)));
            self.last = Some((step.clone(), loss.cloned()));
        }
        let Some(number) = step.as_i64() else { return };
        match self.steps.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, last)) => *last = number,
            None => self.steps.push((phase, number)),
        }
    }

    fn phase_of(&self, record: &Map) -> String {
        phase_in(record).unwrap_or(&self.phase).to_string()
    }
}

/// Returns the phase that a record names, if it is valid: any other counts as absent.
fn phase_in(record: &Map) -> Option<&str> {
    let phase = record.get("phase")?.as_str()?;
    let field = Profile::Toy.kind("step")?.fields.iter().find(|field| field.name == "phase")?;
    let is_valid = |value: &Constant| matches!(value, Constant::Text(text) if *text == phase);
    field.schema.values.iter().any(is_valid).then_some(phase)
}

/// Returns the `t` of a record of a known kind: that of any other takes part in nothing.
fn time_of(record: &Map) -> Option<f64> {
    Profile::Toy.kind(kind_of(record))?;
    record.get("t").and_then(Value::as_f64)
}

fn kind_of(record: &Map) -> &str {
    record.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// Refuses a `run_id` that is not a name of a directory on every system: at most `MAX_SAFE_RUN_ID_CHARS` letters,
/// digits, dots, underscores and hyphens, all of ASCII, the first of them a letter or digit.
pub fn check_run_id(run_id: &str) -> Result<(), Refused> {
    let is_safe = run_id.len() <= MAX_SAFE_RUN_ID_CHARS
        && run_id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && run_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_safe {
        return Ok(());
    }
    Err(Refused(format!(
        "run_id {} is not allowed: use 1 to {MAX_SAFE_RUN_ID_CHARS} letters, digits, `.`, `_`, `-`, \
         starting with a letter or digit",
        crate::escape::shortened(run_id)
    )))
}
