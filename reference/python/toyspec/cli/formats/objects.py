"""Findings and verdicts as plain objects, with the keys of the report schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.cli.paths import encodable

if TYPE_CHECKING:
    from toyspec.findings import DialectUse, FileReport, Finding, PathError, Skipped
    from toyspec.runs.run_facts import RunFacts


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return *finding* as an object; the excerpt is for people alone."""
    made: dict[str, Any] = {
        "rule": finding.rule,
        "severity": finding.severity,
        "line": finding.line,
        "offset": finding.offset,
        "pointer": encodable(finding.pointer),
        "message": encodable(finding.message),
        "help": finding.help,
    }
    if finding.sidecar is not None:
        made["sidecar"] = finding.sidecar
    return made


def verdict_object(report: FileReport) -> dict[str, Any]:
    """Return *report* without its findings."""
    dialect = {} if report.dialect is None else {"dialect": dialect_object(report.dialect)}
    return {
        "path": encodable(report.path),
        "profile": report.profile,
        **dialect,
        "state": report.state,
        "valid": report.valid,
        "records": report.records,
        "bytes": report.bytes,
        "suppressed": report.suppressed,
    }


def dialect_object(use: DialectUse) -> dict[str, Any]:
    """Return how the log of another program was read as an object of the report schema."""
    keys = {"step": use.step, "time": use.time, "epoch": use.epoch, "phase": use.phase}
    named = {part: None if key is None else encodable(key) for part, key in keys.items()}
    files = {"files": use.files} if use.files > 1 else {}
    notes = {"notes": list(use.notes)} if use.notes else {}
    ended: dict[str, Any] = {"ended": use.ended} if use.ended != "unknown" else {}
    ended |= {} if use.planned is None else {"planned": use.planned}
    return {"name": use.name, "choice": use.choice, **named, **ended, **files, **notes}


def facts_object(facts: RunFacts) -> dict[str, Any]:
    """Return every column of schemas/runs.json of a run, by its name."""
    return {name: encodable(value) if isinstance(value, str) else value for name, value in facts.all().items()}


def file_object(report: FileReport) -> dict[str, Any]:
    """Return *report* as an object of the report schema."""
    made = verdict_object(report)
    suppressed = made.pop("suppressed")
    return made | {"findings": [finding_object(finding) for finding in report.findings], "suppressed": suppressed}


def path_object(entry: PathError | Skipped) -> dict[str, Any]:
    """Return a path that could not be read, or was skipped, as an object of the report schema."""
    return {"path": encodable(entry.path), "message": encodable(entry.message)}
