//! What the ends of many streams say, read on threads.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{Ends, EndsReader, Loss, RunFacts};

use crate::failures::failure;
use crate::streams::read_all;

/// Profile, state, number of records, size, the lines that count, and what they say where it is plain.
type EndsFields<'py> = (&'static str, &'static str, u64, usize, Bound<'py, PyBytes>, Option<Facts>);

/// First and last step, final loss, first and last time, start, whether the run has ended, and how.
type Facts = (i64, i64, Option<Number>, Option<f64>, Option<f64>, Option<String>, bool, Option<String>);

/// A number as Python has it.
#[derive(IntoPyObject)]
pub(crate) enum Number {
    Whole(i64),
    Real(f64),
}

/// Returns what each stream says; None for one that Python has to read, or that cannot be read.
#[pyfunction]
#[pyo3(name = "ends")]
pub(crate) fn ends_of_all(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    most_bytes: usize,
) -> PyResult<Vec<Option<EndsFields<'_>>>> {
    let work = || read_all(&paths, EndsReader::default, |reader, path| reader.read(path, most_bytes).ok().flatten());
    let found = py.detach(work).map_err(|place| failure(&place))?;
    Ok(found.into_iter().map(|ends| ends.map(|ends| fields(py, &ends))).collect())
}

fn fields<'py>(py: Python<'py>, ends: &Ends) -> EndsFields<'py> {
    let lines = PyBytes::new(py, &ends.lines);
    (ends.profile.name(), ends.state.name(), ends.records, ends.size, lines, ends.facts.as_ref().map(said))
}

fn said(facts: &RunFacts) -> Facts {
    let loss = match facts.final_loss {
        Loss::Null => None,
        Loss::Whole(loss) => Some(Number::Whole(loss)),
        Loss::Real(loss) => Some(Number::Real(loss)),
    };
    let (started_at, reason) = (facts.started_at.clone(), facts.reason.clone());
    (facts.first_step, facts.last_step, loss, facts.first_time, facts.last_time, started_at, facts.is_ended, reason)
}
