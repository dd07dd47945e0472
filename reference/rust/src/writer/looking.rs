//! Looks whether the path of a stream still names the file that is written.

use std::time::{Duration, Instant};

use super::starting::Start;
use super::{WriteError, Writer};
use crate::stream_file::{can_pass, create_parent, move_back, StreamFile};
use crate::Profile;

/// How often a writer looks, at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Writer {
    /// Looks now and then whether the path still names the file: what is written to another one would be nowhere.
    pub(super) fn look(&mut self) -> Result<(), WriteError> {
        if self.looked.elapsed() < LOOK_INTERVAL || !matches!(self.start, Start::Done) {
            return Ok(());
        }
        self.looked = Instant::now();
        let Some(mut old) = self.file.take_if(|file| !file.is_at_path()) else { return Ok(()) };
        match self.start_again(&mut old) {
            Ok((file, what)) => {
                self.file = Some(file);
                eprintln!("toyspec: {}: deleted, moved or replaced while it was written; {what}", self.path.display());
                Ok(())
            }
            Err(WriteError::Io(path, error)) if can_pass(&error) => {
                self.file = Some(old);
                self.dropped += 1;
                Err(WriteError::Io(path, error))
            }
            Err(error) => {
                self.close();
                Err(error)
            }
        }
    }

    /// Makes the file at the path again: in toy/v1 with all its records, else with those that are there.
    fn start_again(&self, old: &mut StreamFile) -> Result<(StreamFile, String), WriteError> {
        let failed = |error| WriteError::Io(self.path.clone(), error);
        if self.profile != Profile::Toy {
            let mut other = Writer::reopen(self.path.clone(), self.profile)?;
            other.begin()?;
            let file = other.file.take().ok_or_else(|| WriteError::Closed(self.path.clone()))?;
            return Ok((file, "records go to the file that is there now".to_string()));
        }
        create_parent(&self.path)?;
        let moves = match StreamFile::open(&self.path)? {
            Some(other) => other.move_to_previous().map_err(failed)?,
            None => Vec::new(),
        };
        let mut file = StreamFile::create(&self.path)?;
        match file.copy_from(old) {
            Ok(size) => {
                let kept = moves.last().map(|(_, to)| format!("; what was there is now {}", to.display()));
                Ok((file, format!("started again with all {size} bytes{}", kept.unwrap_or_default())))
            }
            Err(error) => {
                file.remove();
                move_back(&moves);
                Err(failed(error))
            }
        }
    }
}
