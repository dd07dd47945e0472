//! Turns a panic, which is a defect of this engine, into an exception that names its place.

use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe, PanicHookInfo};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pyo3::create_exception!(
    toyspec_engine,
    EngineFailure,
    PyRuntimeError,
    "The engine has a defect; the message names the place in its source."
);

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the place of each panic instead of printing it.
pub(crate) fn note_places() {
    set_hook(Box::new(|info| PLACE.set(described(info))));
}

fn described(info: &PanicHookInfo) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let Some(place) = info.location() else { return text.to_string() };
    let file = place.file().replace('\\', "/");
    let file = file.rsplit_once("reference/").map_or_else(|| format!("engine/{file}"), |(_, file)| file.to_string());
    format!("{file}:{}: {text}", place.line())
}

/// Returns what the work returns, or where it panicked.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PLACE.take())
}

/// Returns the exception for a panic.
pub(crate) fn failure(place: &str) -> PyErr {
    let advice = "a defect of toyspec-engine; TOYSPEC_ENGINE=python does without it";
    EngineFailure::new_err(format!("{place} ({advice})"))
}

/// Panics: shows that a panic becomes an exception.
#[pyfunction]
pub(crate) fn fail(py: Python<'_>) -> PyResult<()> {
    py.detach(|| caught(|| panic!("asked for"))).map_err(|place| failure(&place))
}
