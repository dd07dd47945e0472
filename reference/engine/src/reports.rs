//! Gives reports to Python as mappings with the names that its types have.

use std::collections::BTreeMap;
use std::io;

use pyo3::prelude::*;
use toyspec::{cause_of, Excerpt, FileReport, Finding, Profile};

#[derive(IntoPyObject)]
pub(crate) struct ReportFields {
    profile: Option<&'static str>,
    state: Option<&'static str>,
    valid: bool,
    records: u64,
    bytes: u64,
    findings: Vec<FindingFields>,
    suppressed: BTreeMap<&'static str, u64>,
}

#[derive(IntoPyObject)]
pub(crate) struct FindingFields {
    rule: &'static str,
    severity: &'static str,
    line: u64,
    offset: u64,
    pointer: String,
    message: String,
    help: String,
    sidecar: Option<&'static str>,
    /// Data, start and mark.
    excerpt: Option<(Vec<u8>, usize, usize)>,
}

impl From<FileReport> for ReportFields {
    fn from(report: FileReport) -> ReportFields {
        ReportFields {
            profile: report.profile.map(Profile::name),
            state: report.state.map(|state| state.name()),
            valid: report.valid,
            records: report.records,
            bytes: report.bytes,
            findings: report.findings.into_iter().map(FindingFields::from).collect(),
            suppressed: report.suppressed,
        }
    }
}

impl From<Finding> for FindingFields {
    fn from(finding: Finding) -> FindingFields {
        FindingFields {
            rule: finding.rule.id(),
            severity: finding.severity.name(),
            line: finding.line,
            offset: finding.offset,
            pointer: finding.pointer,
            message: finding.message,
            help: finding.help,
            sidecar: finding.sidecar,
            excerpt: finding.excerpt.map(|Excerpt { data, start, mark }| (data, start, mark)),
        }
    }
}

/// Why a file cannot be read: the number of the error, which Python has its own words for, and the words of Rust.
pub(crate) type Failure = (Option<i32>, String);

pub(crate) fn read_failure(error: &io::Error) -> Failure {
    (error.raw_os_error(), cause_of(error))
}
