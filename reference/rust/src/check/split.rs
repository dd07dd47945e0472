//! Checks one stream on several threads. Workers read blocks and prove their lines from blank memory; the checker takes
//! the blocks in order, compares the first record of each proof with what came before it, and checks all other lines
//! by itself. So the findings are those of one thread.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::check::fast::{Premise, Proof};
use crate::check::StreamChecker;

/// For each worker, one block that it proves and one that waits.
const BLOCKS_PER_WORKER: usize = 2;

/// With more lines that cannot be proven, and fewer that are, the rest of a block is left to the checker.
const MOST_ODD: u64 = 32;
const PROVEN_FOR_ODD: u64 = 8;

/// How to divide the work.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    pub workers: usize,
    pub block_bytes: usize,
}

/// What the workers read from, one at a time.
struct Intake<'s, R> {
    source: &'s mut R,
    /// Those that are free. Their number bounds the memory.
    buffers: Receiver<Vec<u8>>,
    /// Number of blocks that were read.
    number: u64,
    is_at_end: bool,
}

/// Bytes of the stream, and what was proven of them.
struct Block {
    number: u64,
    data: Vec<u8>,
    parts: Vec<Part>,
}

enum Part {
    Proven(Proof),
    /// So many bytes that the checker has to look at.
    Other(usize),
}

enum Message {
    Block(Block),
    Failure(io::Error),
    /// A worker has panicked.
    Ended,
}

/// Sends the blocks of one worker, and that it has ended where it should not.
struct Outlet(Sender<Message>);

impl Drop for Outlet {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Message::Ended);
        }
    }
}

/// Feeds a checker the rest of a source. `goes_on` is given the number of bytes after each block; the work ends once it
/// returns false.
pub(crate) fn feed_rest<R: Read + Send>(
    checker: &mut StreamChecker,
    source: &mut R,
    division: Division,
    mut goes_on: impl FnMut(u64) -> bool,
) -> io::Result<()> {
    let (free, buffers) = channel();
    let (sender, blocks) = channel();
    for _ in 0..division.workers * BLOCKS_PER_WORKER {
        let _ = free.send(Vec::new());
    }
    let intake = Mutex::new(Intake { source, buffers, number: 0, is_at_end: false });
    let premise = Mutex::new(checker.premise(None));
    let limit = checker.limit();
    thread::scope(|scope| {
        for _ in 0..division.workers {
            let (outlet, intake, premise) = (Outlet(sender.clone()), &intake, &premise);
            scope.spawn(move || work(intake, &outlet, premise, division.block_bytes, limit));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut next = 0;
        // Once `free` is dropped, workers find no buffer and end.
        let free = free;
        for message in blocks {
            match message {
                Message::Block(block) => early.insert(block.number, block),
                Message::Failure(error) => return Err(error),
                Message::Ended => panic!("a thread that proves lines has ended"),
            };
            while let Some(block) = early.remove(&next) {
                next += 1;
                feed(checker, &block);
                let mut premise = locked(&premise);
                *premise = checker.premise(premise.take());
                drop(premise);
                if !goes_on(block.data.len() as u64) {
                    return Ok(());
                }
                let _ = free.send(block.data);
            }
        }
        Ok(())
    })
}

/// A panic while it is locked leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn feed(checker: &mut StreamChecker, block: &Block) {
    let mut rest = block.data.as_slice();
    for part in &block.parts {
        let size = match part {
            Part::Proven(proof) => proof.taken.bytes,
            Part::Other(size) => *size,
        };
        match part {
            Part::Proven(proof) => checker.feed_proven(rest, proof),
            Part::Other(size) => checker.feed(&rest[..*size]),
        }
        rest = &rest[size..];
    }
}

fn work<R: Read>(
    intake: &Mutex<Intake<R>>,
    outlet: &Outlet,
    premise: &Mutex<Option<Arc<Premise>>>,
    block_bytes: usize,
    limit: usize,
) {
    let mut own: Option<(Arc<Premise>, Premise)> = None;
    loop {
        let read = locked(intake).read(block_bytes);
        let (number, data) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return,
            Err(error) => {
                let _ = outlet.0.send(Message::Failure(error));
                return;
            }
        };
        let shared = locked(premise).clone();
        let is_same = matches!((&own, &shared), (Some((own, _)), Some(shared)) if Arc::ptr_eq(own, shared));
        if !is_same {
            own = shared.map(|shared| (Arc::clone(&shared), Premise::clone(&shared)));
        }
        let parts = match &mut own {
            Some((_, own)) => parts_of(&data, own, limit),
            None => vec![Part::Other(data.len())],
        };
        if outlet.0.send(Message::Block(Block { number, data, parts })).is_err() {
            return;
        }
    }
}

impl<R: Read> Intake<'_, R> {
    /// Returns the next bytes with the number of their block, from 0; None at the end, and once they are not wanted.
    fn read(&mut self, block_bytes: usize) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Ok(mut data) = self.buffers.recv() else { return Ok(None) };
        data.resize(block_bytes, 0);
        let mut filled = 0;
        while filled < block_bytes && !self.is_at_end {
            match self.source.read(&mut data[filled..]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        self.number += 1;
        Ok((filled > 0).then_some((self.number - 1, data)))
    }
}

/// Proves what can be proven of the whole lines of a block. The first may have begun before it: the checker knows.
fn parts_of(data: &[u8], premise: &mut Premise, limit: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let end = memchr::memrchr(b'\n', data).map_or(0, |at| at + 1);
    let mut lines = &data[..end];
    if simdutf8::basic::from_utf8(lines).is_err() {
        leave(&mut parts, lines.len());
        lines = &[];
    }
    let (mut proven, mut odd) = (0, 0);
    while !lines.is_empty() && odd < MOST_ODD + proven / PROVEN_FOR_ODD {
        let proof = premise.prove(lines, limit);
        lines = &lines[proof.taken.bytes..];
        proven += proof.taken.lines;
        if proof.taken.lines > 0 {
            parts.push(Part::Proven(proof));
        }
        let line = memchr::memchr(b'\n', lines).map_or(lines.len(), |at| at + 1);
        leave(&mut parts, line);
        lines = &lines[line..];
        odd += 1;
    }
    leave(&mut parts, lines.len() + data.len() - end);
    parts
}

/// Leaves so many bytes to the checker.
fn leave(parts: &mut Vec<Part>, size: usize) {
    match parts.last_mut() {
        Some(Part::Other(before)) => *before += size,
        _ if size > 0 => parts.push(Part::Other(size)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{parts_of, Part};
    use crate::check::{CheckOptions, StreamChecker};

    /// The checker finds the same without it, but alone.
    #[test]
    fn what_follows_the_end_of_a_line_is_proven() {
        let mut checker = StreamChecker::named("events.jsonl", CheckOptions::default());
        checker.feed(b"{\"kind\":\"run_start\",\"schema\":\"toy/v1\",\"t\":0.0,\"run_id\":\"r\"}\n");
        let mut premise = (*checker.premise(None).unwrap()).clone();
        let steps = (1..=50).map(|step| format!("{{\"kind\":\"step\",\"t\":1.0,\"step\":{step},\"loss\":0.5}}\n"));
        let text = format!("\"loss\":2.5}}\n{}", steps.collect::<String>());
        let lines = |part: &Part| match part {
            Part::Proven(proof) => proof.taken.lines,
            Part::Other(_) => 0,
        };
        let proven: Vec<u64> = parts_of(text.as_bytes(), &mut premise, 1 << 24).iter().map(lines).collect();
        // The end of the last line is too near to be looked at in words.
        assert_eq!(vec![0, 49, 0], proven);
    }
}
