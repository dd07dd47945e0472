//! Checks the files beside a stream, run.json and flow.json: see spec/bundle.md.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use crate::check::collect::{Collector, Extra, Place};
use crate::escape::shortened;
use crate::line_validation::{LineValidator, Problem, Status};
use crate::messages;
use crate::record::{validate, Integers};
use crate::source::open_regular;
use crate::tables::Rule;
use crate::tape::{Kind, Node};
use crate::Profile;

const MANIFEST: &str = "run.json";
const SIDECARS: [&str; 2] = [MANIFEST, "flow.json"];

/// What lies around a stream.
#[derive(Default)]
pub(crate) struct Bundle {
    /// Name of the directory.
    pub directory: Option<String>,
    sidecars: Vec<Sidecar>,
}

/// A file beside a stream: its bytes, or why they cannot be read.
struct Sidecar {
    name: &'static str,
    data: Result<Vec<u8>, String>,
}

impl Bundle {
    /// Returns the bytes of the file that may be a kaun manifest.
    pub fn manifest(&self) -> Option<&[u8]> {
        let manifest = self.sidecars.iter().find(|sidecar| sidecar.name == MANIFEST)?;
        manifest.data.as_deref().ok()
    }

    /// Reports the sidecars that cannot be read, and what is wrong with a kaun manifest.
    pub fn check(&self, profile: Profile, found: &mut Collector) {
        for sidecar in &self.sidecars {
            match &sidecar.data {
                Ok(data) => self.check_text(sidecar.name, data, profile, found),
                Err(failure) => report(found, sidecar.name, b"", unreadable(sidecar.name, 0, failure)),
            }
        }
    }

    fn check_text(&self, name: &'static str, data: &[u8], profile: Profile, found: &mut Collector) {
        let mut validator = LineValidator::default();
        let status = validator.validate(data, true);
        match validator.record(data) {
            Some(value) if name == MANIFEST && profile == Profile::Kaun => self.check_manifest(data, value, found),
            Some(_) => {}
            None if status == Status::Blank => report(found, name, data, unreadable(name, 0, messages::SIDECAR_EMPTY)),
            None => {
                let problem = validator.problems.listed.iter().find(|problem| problem.rule != Rule::DuplicateKey);
                let (at, message) = problem.map_or((0, ""), |problem| (problem.at, problem.message.as_str()));
                report(found, name, data, unreadable(name, at, message));
            }
        }
    }

    fn check_manifest(&self, data: &[u8], value: Node, found: &mut Collector) {
        let Some(kind) = Profile::Kaun.table().kinds.iter().find(|kind| !kind.is_record) else { return };
        let validation = validate(kind, value, Integers::of(Profile::Kaun));
        let is_wrong = validation.problems.iter().any(|problem| problem.pointer == "/run_id");
        let mut problems = validation.problems;
        problems.extend(validation.integer_as_float);
        problems.extend(validation.unknown.into_iter().map(|key| {
            let message = messages::unknown_key_of_manifest(shortened(&key.path));
            Problem { rule: Rule::UnknownKey, at: key.at, pointer: key.pointer, message }
        }));
        problems.sort_by_key(|problem| (problem.at, problem.rule));
        for problem in problems {
            report(found, MANIFEST, data, problem);
        }
        let (Some(directory), Some(run_id)) = (&self.directory, value.get("run_id")) else { return };
        if !is_wrong && run_id.kind() == Kind::String && run_id.string() != directory.as_str() {
            let (own, named) = (shortened(&run_id.string()), shortened(directory));
            let message = messages::run_id_mismatch(own, named);
            let pointer = "/run_id".to_string();
            report(found, MANIFEST, data, Problem { rule: Rule::RunIdMismatch, at: run_id.at(), pointer, message });
        }
    }
}

/// Returns what lies around the stream at a path; no sidecar is held beyond the limit.
pub(crate) fn read_sidecars(stream: &Path, limit: usize) -> Bundle {
    let absolute = std::path::absolute(stream).unwrap_or_else(|_| stream.to_path_buf());
    let directory = absolute.parent().and_then(Path::file_name).unwrap_or_default();
    let there = |name: &&'static str| stream.with_file_name(name).symlink_metadata().is_ok();
    let read = |name| Sidecar { name, data: content(&stream.with_file_name(name), limit) };
    let sidecars = SIDECARS.into_iter().filter(there).map(read).collect();
    Bundle { directory: Some(name_of(directory)), sidecars }
}

/// Returns the name of a directory as text; bytes that are none are escaped as Python's are.
fn name_of(directory: &OsStr) -> String {
    let mut name = String::new();
    for chunk in directory.as_encoded_bytes().utf8_chunks() {
        name += chunk.valid();
        name.extend(chunk.invalid().iter().map(|byte| format!("\\udc{byte:02x}")));
    }
    name
}

pub(crate) fn content(path: &Path, limit: usize) -> Result<Vec<u8>, String> {
    let opened = if path.is_file() { open_regular(path) } else { Ok(None) };
    let opened = opened.map_err(|error| crate::cause_of(&error))?;
    let file = opened.ok_or_else(|| messages::SIDECAR_NOT_A_FILE.to_string())?;
    let mut data = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut data).map_err(|error| crate::cause_of(&error))?;
    if data.len() > limit {
        return Err(messages::sidecar_too_long(limit));
    }
    Ok(data)
}

fn unreadable(name: &str, at: usize, reason: &str) -> Problem {
    Problem::whole(Rule::SidecarUnreadable, at, messages::sidecar_unreadable(name, reason))
}

fn report(found: &mut Collector, name: &'static str, data: &[u8], problem: Problem) {
    let before = &data[..problem.at.min(data.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', &data[before.len()..]).map_or(data.len(), |at| before.len() + at);
    let line = memchr::memchr_iter(b'\n', before).count() as u64 + 1;
    let place = Place { line, offset: start as u64, byte: problem.at - start, data: &data[start..end] };
    let extra = Extra { sidecar: Some(name), ..Extra::default() };
    found.add_full(problem.rule, place, &problem.pointer, || problem.message, extra);
}
