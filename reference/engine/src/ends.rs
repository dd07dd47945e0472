//! What the ends of many streams say, read on threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::{ends, Ends};

use crate::failures::{caught, failure};

/// With fewer streams for each, starting threads takes longer than they save.
const LEAST_STREAMS: usize = 32;

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
    let found = py.detach(|| read(&paths, most_bytes)).map_err(|place| failure(&place))?;
    Ok(found.into_iter().map(|ends| ends.map(|ends| fields(py, &ends))).collect())
}

fn fields<'py>(py: Python<'py>, ends: &Ends) -> EndsFields<'py> {
    (ends.profile.name(), ends.state.name(), ends.records, ends.size, PyBytes::new(py, &ends.lines))
}

/// Reads each stream; returns the place of a panic.
fn read(paths: &[PathBuf], most_bytes: usize) -> Result<Vec<Option<Ends>>, String> {
    let found: Vec<OnceLock<Option<Ends>>> = paths.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        caught(|| {
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < paths.len()) {
                let _ = found[index].set(ends(&paths[index], most_bytes).unwrap_or_default());
            }
        })
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(paths.len() / LEAST_STREAMS).max(1);
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|_| Err("a thread ended".to_string())))
            .fold(own, Result::and)
    })?;
    Ok(found.into_iter().map(|ends| ends.into_inner().flatten()).collect())
}
