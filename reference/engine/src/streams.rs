//! Reads many streams on threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread;

use crate::failures::caught;

/// With fewer streams for each, starting threads takes longer than they save.
const LEAST_STREAMS: usize = 32;

/// Returns what `read` finds in each stream, in order; returns the place of a panic. Each thread has what `begin` makes.
pub(crate) fn read_all<Reader, Found: Send + Sync>(
    paths: &[PathBuf],
    begin: impl Fn() -> Reader + Sync,
    read: impl Fn(&mut Reader, &Path) -> Option<Found> + Sync,
) -> Result<Vec<Option<Found>>, String> {
    let found: Vec<OnceLock<Option<Found>>> = paths.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        caught(|| {
            let mut reader = begin();
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < paths.len()) {
                let _ = found[index].set(read(&mut reader, &paths[index]));
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
    Ok(found.into_iter().map(|found| found.into_inner().flatten()).collect())
}
