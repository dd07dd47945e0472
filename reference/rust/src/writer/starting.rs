//! Opens streams, and does what comes before the first record; a start that is refused changes no file.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{WriteError, Writer};
use crate::bundle_files::{rank_file, ranks};
use crate::looks::known_start;
use crate::profile::Hints;
use crate::reader::{Mode, Options, Reader, Report};
use crate::stream_file::{create_parent, move_back, StreamFile};
use crate::tables::LOOK_HEAD_BYTES;
use crate::{Profile, Record, State};

/// What is left to do before the first record is written. A start that is refused changes no file.
#[derive(Debug)]
pub(super) enum Start {
    Done,
    /// There is no stream.
    Create,
    /// The stream moves to the name of a previous run.
    Replace,
    /// What is after this many bytes moves to a side file.
    Cut(u64),
}

/// How to take back what the start has done.
pub(super) enum Undo {
    Nothing,
    /// The stream is new.
    Remove,
    /// The stream is new, and others were moved; the old one is held.
    MoveBack(StreamFile, Vec<(PathBuf, PathBuf)>),
    /// The fragment is in a side file.
    PutBack(u64, PathBuf),
}

impl Writer {
    /// Opens a stream that another writer may have left.
    pub(super) fn reopen(path: PathBuf, profile: Profile) -> Result<Writer, WriteError> {
        let file = StreamFile::open(&path)?;
        let mut writer = Writer::new(path, profile, file);
        if writer.file.is_none() {
            return Ok(writer);
        }
        let report = writer.read_all()?;
        writer.demand_open(&report)?;
        writer.composer.resume();
        writer.t_opened = writer.composer.t();
        if report.fragment > 0 {
            writer.start = Start::Cut(report.committed);
        }
        Ok(writer)
    }

    fn read_all(&mut self) -> Result<Report, WriteError> {
        let Some(file) = &mut self.file else { return Err(WriteError::Closed(self.path.clone())) };
        let failed = |error| WriteError::Io(self.path.clone(), error);
        let mut head = Vec::new();
        let content = file.content().map_err(failed)?;
        content.take(LOOK_HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed)?;
        if let Some(look) = known_start(&head) {
            return Err(WriteError::Foreign(self.path.clone(), look.fact));
        }
        let options = Options { mode: Mode::Salvage, ..Options::default() };
        let mut reader = Reader::with_hints(file.content().map_err(failed)?, options, Hints::of_path(&self.path));
        for record in &mut reader {
            let record: Record = record.map_err(|error| match error {
                crate::Error::Io(_, error) => failed(error),
                _ => WriteError::State(self.path.clone(), State::Damaged),
            })?;
            self.composer.take(&record);
        }
        Ok(reader.report())
    }

    /// Fails where nothing may be added to a stream.
    fn demand_open(&self, report: &Report) -> Result<(), WriteError> {
        let foreign = |what: String| Err(WriteError::Foreign(self.path.clone(), what));
        match report.profile {
            None => return foreign("it is not in a known format".to_string()),
            Some(other) if other != self.profile && report.records > 0 => {
                return foreign(format!("it is in {}, not {}", other.name(), self.profile.name()));
            }
            _ => {}
        }
        if report.state == State::Damaged {
            return Err(WriteError::State(self.path.clone(), report.state));
        }
        Ok(())
    }

    /// Does what is left to do before the first record.
    pub(super) fn begin(&mut self) -> Result<Undo, WriteError> {
        let failed = |error| WriteError::Io(self.path.clone(), error);
        let undo = match (&self.start, self.file.take()) {
            (Start::Replace, Some(old)) => {
                let moves = old.move_to_previous().map_err(failed);
                let moved = moves.and_then(|moves| match StreamFile::create(&self.path) {
                    Ok(file) => Ok((file, moves)),
                    Err(error) => {
                        move_back(&moves);
                        Err(error)
                    }
                });
                match moved {
                    Ok((file, moves)) => {
                        self.file = Some(file);
                        Undo::MoveBack(old, moves)
                    }
                    Err(error) => {
                        self.file = Some(old);
                        return Err(error);
                    }
                }
            }
            (Start::Cut(committed), Some(mut file)) => {
                let side_file = file.move_fragment(*committed).map_err(failed);
                self.file = Some(file);
                Undo::PutBack(*committed, side_file?)
            }
            (Start::Create, None) => {
                create_parent(&self.path)?;
                self.file = Some(StreamFile::create(&self.path)?);
                Undo::Remove
            }
            (_, file) => {
                self.file = file;
                Undo::Nothing
            }
        };
        self.start = Start::Done;
        Ok(undo)
    }

    /// Moves the streams of the other ranks of the run that was replaced, as its own was. One that a writer holds is of a
    /// process of the new run, which began before this one.
    pub(super) fn move_ranks(&self) {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        for rank in ranks(directory).unwrap_or_default() {
            if let Ok(Some(file)) = StreamFile::open(&directory.join(rank_file(rank))) {
                if file.len().is_ok_and(|size| size > 0) {
                    // Where that fails, it stays.
                    let _ = file.move_to_previous();
                }
            }
        }
    }

    /// Takes back what the start has done, since the first record was not written.
    pub(super) fn undo(&mut self, undo: Undo) {
        match (undo, self.file.take()) {
            (Undo::Remove, Some(file)) => {
                file.remove();
                self.start = Start::Create;
            }
            (Undo::MoveBack(old, moves), Some(file)) => {
                file.remove();
                move_back(&moves);
                self.file = Some(old);
                self.start = Start::Replace;
            }
            (Undo::PutBack(committed, side_file), Some(mut file)) => {
                file.put_back(&side_file);
                self.file = Some(file);
                self.start = Start::Cut(committed);
            }
            (_, file) => self.file = file,
        }
    }
}
