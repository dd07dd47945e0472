//! Finds the streams below a directory, some at a time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::failures::{caught, failure};
use crate::reports::{read_failure, Failure};

/// Path, size, identity, whether its name alone says what it is, whether it is a link, whether a seal is beside it.
type WalkedFields = (OsString, u64, String, bool, bool, bool);

/// A walk through a directory and those below it.
#[pyclass]
pub(crate) struct Walk(Mutex<toyspec::Walk>);

/// What a walk finds.
#[derive(IntoPyObject)]
pub(crate) enum Step {
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
    fn next(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Step>> {
        let work = || self.0.lock().unwrap_or_else(PoisonError::into_inner).by_ref().take(most).map(step).collect();
        py.detach(|| caught(work)).map_err(|place| failure(&place))
    }
}

fn step(found: Result<toyspec::Walked, (PathBuf, std::io::Error)>) -> Step {
    match found {
        Ok(file) => {
            Step::File((file.path.into(), file.size, file.identity, file.is_hinted, file.is_link, file.is_sealed))
        }
        Err((path, error)) => Step::Failed((path.into(), read_failure(&error))),
    }
}
