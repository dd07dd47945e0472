//! Determines which records a later attempt at the same steps supersedes: see spec/reading.md.

use crate::line_validation::LineValidator;
use crate::record::{validate, Integers};
use crate::{Profile, Record};

const FRAME: [&str; 4] = ["run_start", "run_resume", "run_config", "run_end"];

/// Learns from all records of a toy/v1 stream what its resumptions leave, then checks the same records again. Other
/// profiles have no resumptions. Memory grows with the number of resumptions only.
#[derive(Default)]
pub struct Attempts {
    /// Line and `from_step` of each resumption before which no later one goes back.
    resumed: Vec<(u64, i64)>,
    phase: Option<String>,
}

impl Attempts {
    /// Takes in the next record of the stream.
    pub fn learn(&mut self, record: &Record) {
        if record.profile != Some(Profile::Toy) {
            return;
        }
        match record.kind.as_deref() {
            Some("run_start") if self.phase.is_none() => {
                self.phase = Some(own_phase(record).unwrap_or_else(|| "train".to_string()));
            }
            Some("run_resume") => {
                let Some(from) = sound(record, "from_step").then(|| count(record, "from_step")).flatten() else {
                    return;
                };
                self.resumed.retain(|&(_, earlier)| earlier < from);
                self.resumed.push((record.line, from));
            }
            _ => {}
        }
    }

    /// Returns whether a record is of the latest attempt: no later resumption goes back after it.
    pub fn is_latest(&self, record: &Record) -> bool {
        let after = self.resumed.partition_point(|&(line, _)| line <= record.line);
        self.resumed.get(after).is_none_or(|&(_, from)| !self.is_superseded(record, from))
    }

    fn is_superseded(&self, record: &Record, from: i64) -> bool {
        let kind = record.kind.as_deref().unwrap_or_default();
        if Profile::Toy.kind(kind).is_none() || FRAME.contains(&kind) || !sound(record, "step") {
            return false;
        }
        let Some(step) = count(record, "step") else { return false };
        let phase = own_phase(record);
        let phase = phase.as_deref().or(self.phase.as_deref()).unwrap_or("train");
        step > from && (phase == "train" || phase == "eval" && kind != "step")
    }
}

fn own_phase(record: &Record) -> Option<String> {
    let phase = record.value.get("phase").and_then(|phase| phase.as_str());
    phase.filter(|_| sound(record, "phase")).map(String::from)
}

/// Returns a count; one beyond 63 bits is as large as any.
fn count(record: &Record, field: &str) -> Option<i64> {
    match record.value.get(field)? {
        crate::Value::Number(number) if number.is_integer() => Some(number.as_i64().unwrap_or(i64::MAX)),
        _ => None,
    }
}

/// Returns whether a field of a record of a known kind has no error of its own.
fn sound(record: &Record, field: &str) -> bool {
    let mut validator = LineValidator::default();
    validator.validate(&record.raw, false);
    let kind = record.kind.as_deref().and_then(|kind| Profile::Toy.kind(kind));
    match (kind, validator.record(&record.raw)) {
        (Some(kind), Some(node)) => {
            !validate(kind, node, Integers::ByValue).invalid_fields().any(|invalid| invalid == field)
        }
        _ => false,
    }
}
