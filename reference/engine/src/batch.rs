//! Checks files on threads of its own, in the order in which they were given.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use toyspec::{open_regular, CheckOptions, FileReport, StreamChecker, LARGE_BYTES};

use crate::checker::Options;
use crate::failures::{caught, failure};
use crate::reports::{read_failure, Failure, ReportFields};

const CHUNK_BYTES: usize = 1 << 18;
/// Python compares a bundle with its seal while it reads the stream.
const SEAL: &str = "SHA256SUMS";
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Checks files on threads.
#[pyclass(frozen, module = "toyspec_engine")]
pub(crate) struct Batch(Arc<Shared>);

struct Shared {
    options: CheckOptions,
    threads: usize,
    /// Number of threads that check something.
    busy: AtomicUsize,
    /// A file whose first line is not a record of a profile may be the log of another program.
    may_be_dialects: bool,
    queue: Mutex<Queue>,
    /// A task has come, or there are no more.
    given: Condvar,
    done: Condvar,
    /// Bytes read so far.
    received: AtomicU64,
    is_dropped: AtomicBool,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    outcomes: BTreeMap<u64, Outcome>,
    submitted: u64,
    returned: u64,
}

struct Task {
    number: u64,
    path: PathBuf,
    /// A file of another format is not a run: it is read no further than that takes.
    may_skip: bool,
}

enum Outcome {
    Report(FileReport),
    Skipped(String),
    /// Python checks the file: it is compressed or sealed, or may be the log of another program.
    Left,
    Failure(Failure),
    Failed(String),
}

/// What Python gets: one of the three is there, and nothing for a file that is left to it.
#[derive(IntoPyObject)]
struct OutcomeFields {
    report: Option<ReportFields>,
    skipped: Option<String>,
    failure: Option<Failure>,
}

#[pymethods]
impl Batch {
    #[new]
    fn new(options: &Options, threads: usize, may_be_dialects: bool) -> Batch {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            options: options.0.clone(),
            threads,
            busy: AtomicUsize::new(0),
            may_be_dialects,
            queue: Mutex::default(),
            given: Condvar::new(),
            done: Condvar::new(),
            received: AtomicU64::new(0),
            is_dropped: AtomicBool::new(false),
        });
        for _ in 0..threads {
            let shared = Arc::clone(&shared);
            // A thread that waits for a slow file system is left alone at the end.
            thread::spawn(move || shared.work());
        }
        Batch(shared)
    }

    /// Lets a thread check the file at *path*.
    fn submit(&self, path: PathBuf, may_skip: bool) {
        let mut queue = self.0.locked();
        queue.submitted += 1;
        let number = queue.submitted;
        queue.tasks.push_back(Task { number, path, may_skip });
        drop(queue);
        self.0.given.notify_one();
    }

    /// Returns what came of the file that is next in order; None where that takes longer than *seconds*.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<OutcomeFields>> {
        match py.detach(|| self.0.next(Duration::from_secs_f64(seconds))) {
            Some(outcome) => outcome.fields().map(Some),
            None => Ok(None),
        }
    }

    /// Number of bytes that were read so far.
    #[getter]
    fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::Relaxed);
        self.0.locked().tasks.clear();
        self.0.given.notify_all();
    }
}

impl Shared {
    /// A panic while it is locked leaves nothing half done.
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, most: Duration) -> Option<Outcome> {
        let queue = self.locked();
        let is_missing = |queue: &mut Queue| !queue.outcomes.contains_key(&(queue.returned + 1));
        let waited = self.done.wait_timeout_while(queue, most, is_missing);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        let number = queue.returned + 1;
        let outcome = queue.outcomes.remove(&number)?;
        queue.returned = number;
        Some(outcome)
    }

    fn work(&self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Some(task) = self.task() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let checked =
                caught(|| self.check(&task, &mut chunk).unwrap_or_else(|error| Outcome::Failure(read_failure(&error))));
            self.busy.fetch_sub(1, Ordering::Relaxed);
            self.locked().outcomes.insert(task.number, checked.unwrap_or_else(Outcome::Failed));
            self.done.notify_one();
        }
    }

    /// Returns the next task; None once there will be no more.
    fn task(&self) -> Option<Task> {
        let mut queue = self.locked();
        loop {
            if self.is_dropped.load(Ordering::Relaxed) {
                return None;
            }
            match queue.tasks.pop_front() {
                Some(task) => return Some(task),
                None => queue = self.given.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn check(&self, task: &Task, chunk: &mut [u8]) -> io::Result<Outcome> {
        let Some(mut file) = open_regular(&task.path)? else { return Ok(Outcome::Left) };
        let mut count = self.read(&mut file, chunk)?;
        let mut checker = StreamChecker::at(&task.path, self.options.clone());
        let is_sealed = task.path.with_file_name(SEAL).symlink_metadata().is_ok();
        let is_left = is_sealed || chunk[..count].starts_with(&GZIP_MAGIC);
        checker.feed(&chunk[..count]);
        if is_left || self.may_be_dialects && !checker.begins_with_own_record() {
            self.received.fetch_sub(count as u64, Ordering::Relaxed);
            return Ok(Outcome::Left);
        }
        if checker.has_profile() && file.metadata()?.len() >= LARGE_BYTES {
            self.check_on_idle_threads(&mut checker, &mut file)?;
        }
        while count > 0 && !self.is_dropped.load(Ordering::Relaxed) {
            count = self.read(&mut file, chunk)?;
            checker.feed(&chunk[..count]);
        }
        let mut report = checker.finish();
        Ok(match report.look.take().filter(|_| task.may_skip) {
            Some(look) => Outcome::Skipped(look),
            None => Outcome::Report(report),
        })
    }

    /// Checks the rest of a file on as many threads as have nothing to do; leaves it alone where there are none.
    fn check_on_idle_threads(&self, checker: &mut StreamChecker, file: &mut File) -> io::Result<()> {
        let busy = self.busy.load(Ordering::Relaxed);
        let idle = self.threads.saturating_sub(busy);
        if idle == 0 {
            return Ok(());
        }
        self.busy.fetch_add(idle, Ordering::Relaxed);
        let checked = checker.read_on_threads(file, idle + 1, |size| {
            self.received.fetch_add(size, Ordering::Relaxed);
            !self.is_dropped.load(Ordering::Relaxed)
        });
        self.busy.fetch_sub(idle, Ordering::Relaxed);
        checked
    }

    fn read(&self, file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
        loop {
            match file.read(chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    self.received.fetch_add(*read.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
                    return read;
                }
            }
        }
    }
}

impl Outcome {
    fn fields(self) -> PyResult<OutcomeFields> {
        let nothing = OutcomeFields { report: None, skipped: None, failure: None };
        Ok(match self {
            Outcome::Report(report) => OutcomeFields { report: Some(report.into()), ..nothing },
            Outcome::Skipped(look) => OutcomeFields { skipped: Some(look), ..nothing },
            Outcome::Failure(failure) => OutcomeFields { failure: Some(failure), ..nothing },
            Outcome::Left => nothing,
            Outcome::Failed(place) => return Err(failure(&place)),
        })
    }
}
