//! What the ends of many streams say, read on threads.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{Ends, EndsReader};

use crate::failures::failure;
use crate::streams::read_all;

/// Profile, state, number of records, size, the lines that start and end the run, steps, times and the last loss.
type EndsFields<'py> = (
    &'static str,
    &'static str,
    u64,
    usize,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    (i64, i64),
    (f64, f64),
    f64,
);

/// Returns what each stream says; None for one that Python has to read, or that cannot be read.
#[pyfunction]
#[pyo3(name = "run_ends")]
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
    let line = |line: &Option<Vec<u8>>| line.as_ref().map(|line| PyBytes::new(py, line));
    let (start, end) = (line(&ends.start), line(&ends.end));
    (ends.profile.name(), ends.state.name(), ends.records, ends.size, start, end, ends.steps, ends.times, ends.loss)
}
