//! Finds the streams below a directory, some at a time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failures::{caught, failure};
use crate::reports::{read_failure, Failure};

/// Path, size, identity, whether its name alone says what it is, whether it is a link.
type WalkedFields = (OsString, u64, String, bool, bool);

/// A walk through a directory and those below it.
#[pyclass]
pub(crate) struct Walk(Mutex<toyspec::Walk>);

/// What a walk finds.
#[derive(IntoPyObject)]
pub(crate) enum Step<'py> {
    /// Streams, each as a record: see `toyspec.catalog.listings`.
    Records(Bound<'py, PyBytes>),
    File(WalkedFields),
    /// A directory that cannot be listed.
    Failed((OsString, Failure)),
}

#[pymethods]
impl Walk {
    #[new]
    fn new(root: PathBuf, hints: Vec<String>) -> Walk {
        Walk(Mutex::new(toyspec::Walk::new(&root, hints)))
    }

    /// Returns the next *most* things that are found; nothing at the end.
    fn next<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<Step<'py>>> {
        Ok(self.take(py, most)?.into_iter().map(step).collect())
    }

    /// Returns the next *most* things that are found, those with the name of a stream and bytes as records of the root *number*.
    fn records<'py>(&self, py: Python<'py>, most: usize, number: usize) -> PyResult<Vec<Step<'py>>> {
        let mut steps = Vec::new();
        let mut records = Vec::new();
        for found in self.take(py, most)? {
            match found {
                Ok(file) if !file.is_hinted && file.size > 0 => put_record(&mut records, number, &file),
                other => {
                    give(py, &mut steps, &mut records);
                    steps.push(step(other));
                }
            }
        }
        give(py, &mut steps, &mut records);
        Ok(steps)
    }
}

impl Walk {
    fn take(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Found>> {
        let work = || self.0.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(most).collect();
        py.detach(|| caught(work)).map_err(|place| failure(&place))
    }
}

type Found = Result<toyspec::Walked, (PathBuf, std::io::Error)>;

fn give<'py>(py: Python<'py>, steps: &mut Vec<Step<'py>>, records: &mut Vec<u8>) {
    if !records.is_empty() {
        steps.push(Step::Records(PyBytes::new(py, records)));
        records.clear();
    }
}

fn put_record(records: &mut Vec<u8>, number: usize, file: &toyspec::Walked) {
    let head = format!("{number}\t0\t{}\t{}\t", file.size, file.identity);
    records.extend_from_slice(head.as_bytes());
    records.extend_from_slice(file.path.as_os_str().as_encoded_bytes());
    records.push(0);
}

fn step<'py>(found: Found) -> Step<'py> {
    match found {
        Ok(file) => Step::File((file.path.into(), file.size, file.identity, file.is_hinted, file.is_link)),
        Err((path, error)) => Step::Failed((path.into(), read_failure(&error))),
    }
}
