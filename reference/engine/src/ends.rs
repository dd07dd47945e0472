//! What the ends of many streams say, read on threads.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{Ends, EndsReader};

use crate::failures::failure;
use crate::streams::read_all;

/// Profile, state, number of records, size, and the lines that count.
type EndsFields<'py> = (&'static str, &'static str, u64, usize, Bound<'py, PyBytes>);

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
    (ends.profile.name(), ends.state.name(), ends.records, ends.size, lines)
}
