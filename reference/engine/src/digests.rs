//! What many runs come to, for a catalog.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{Digest, DigestReader, Extremes, Numbers, Part};

use crate::failures::failure;
use crate::streams::read_all;

/// Profile, state, number of records, size, the findings, and the lines in order.
type DigestFields<'py> =
    (&'static str, &'static str, u64, u64, Vec<(&'static str, &'static str, u64)>, Vec<PartFields<'py>>);

#[derive(IntoPyObject)]
pub(crate) enum PartFields<'py> {
    Lines(Bound<'py, PyBytes>),
    Numbers(NumbersFields),
}

#[derive(IntoPyObject)]
pub(crate) struct NumbersFields {
    kinds: Vec<(String, u64)>,
    phase: Option<String>,
    times: Option<(f64, f64)>,
    steps: Option<(i64, i64)>,
    metrics: Vec<ExtremesFields>,
}

/// Name, number of values and of nulls, first, last, the last that is not null, lowest and highest.
pub(crate) type ExtremesFields =
    (String, u64, u64, (i64, f64), (i64, f64), Option<f64>, Option<(i64, f64)>, Option<(i64, f64)>);

/// Returns what each run comes to; None for one that Python has to read, or that cannot be read.
#[pyfunction]
#[pyo3(name = "digests")]
pub(crate) fn digests_of_all(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    most_bytes: usize,
) -> PyResult<Vec<Option<DigestFields<'_>>>> {
    let work = || read_all(&paths, DigestReader::default, |reader, path| reader.read(path, most_bytes).ok().flatten());
    let found = py.detach(work).map_err(|place| failure(&place))?;
    Ok(found.into_iter().map(|digest| digest.map(|digest| fields(py, digest))).collect())
}

fn fields(py: Python<'_>, digest: Digest) -> DigestFields<'_> {
    let findings = digest.findings.into_iter().map(|(rule, (severity, count))| (rule, severity.name(), count));
    let parts = digest.parts.into_iter().map(|part| match part {
        Part::Lines(lines) => PartFields::Lines(PyBytes::new(py, &lines)),
        Part::Numbers(numbers) => PartFields::Numbers(numbers_of(numbers)),
    });
    let (profile, state) = (digest.profile.name(), digest.state.name());
    (profile, state, digest.records, digest.size, findings.collect(), parts.collect())
}

fn numbers_of(numbers: Numbers) -> NumbersFields {
    let Numbers { kinds, phase, times, steps, metrics } = numbers;
    NumbersFields { kinds, phase, times, steps, metrics: metrics.into_iter().map(extremes).collect() }
}

pub(crate) fn extremes(found: Extremes) -> ExtremesFields {
    let Extremes { name, count, nulls, first, last, last_finite, lowest, highest } = found;
    (name, count, nulls, first, last, last_finite, lowest, highest)
}
