"""The roles reader and checker."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import toyspec
from tagged import tagged_record
from toyspec.checker import iter_reports
from toyspec.generated.limits import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec import ReadReport, Record

Message = dict[str, Any]


def read(request: Message) -> Message:
    """Answer as a reader."""
    with _source(request) as path:
        options = {"mode": request["mode"]} if "mode" in request else {}
        reading = toyspec.read(
            path,
            profile=request.get("profile"),
            attempts=request.get("view", "all"),
            max_line_bytes=request.get("max_line_bytes", MAX_LINE_BYTES),
            **options,
        )
        records: list[Record] = []
        try:
            records.extend(reading)
        except (toyspec.DamagedStreamError, toyspec.TornStreamError) as error:
            report = error.report
            if report is None:
                return {"error": "the failure has no report"}
            answer = {"outcome": "fails", **_report(report)}
            if isinstance(error, toyspec.DamagedStreamError):
                reason = report.gaps[0].reason
                answer["error"] = {"line": error.line, "offset": error.offset, "reason": reason}
            return answer
        tagged = [tagged_record(record.value, record.profile) for record in records]
        return {"outcome": "read", "records": tagged, **_report(reading.report)}


def check(request: Message) -> Message:
    """Answer as a checker."""
    profile, limit = request.get("profile"), request.get("max_line_bytes", MAX_LINE_BYTES)
    report: toyspec.FileReport | toyspec.PathError
    if "directory" in request:
        options = toyspec.CheckOptions(profile=profile, max_line_bytes=limit)
        (report,) = iter_reports([request["directory"]], options=options)
    else:
        report = toyspec.check_bytes(request["stream"], profile=profile, name=request.get("name"), max_line_bytes=limit)
    if isinstance(report, toyspec.PathError):
        return {"error": f"{report.path}: {report.message}"}
    return {
        "profile": report.profile,
        "state": report.state,
        "valid": report.valid,
        "suppressed": report.suppressed,
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity,
                "line": finding.line,
                "offset": finding.offset,
                "pointer": finding.pointer,
                **({"sidecar": finding.sidecar} if finding.sidecar else {}),
            }
            for finding in report.findings
        ],
    }


@contextmanager
def _source(request: Message) -> Iterator[str]:
    """Give the path of what *request* is about; a stream lies alone in a folder without a name of its own."""
    if "directory" in request:
        yield request["directory"]
        return
    with tempfile.TemporaryDirectory(prefix="adapter-") as folder:
        path = os.path.join(folder, request.get("name", "stream.jsonl"))
        with open(path, "wb") as file:
            file.write(request["stream"])
        yield path


def _report(report: ReadReport) -> Message:
    return {
        "profile": report.profile,
        "state": report.state,
        "count": report.records,
        "committed": report.committed_bytes,
        "fragment": report.fragment_bytes,
        "gap_bytes": report.gap_bytes,
        "gaps": [{"offset": gap.offset, "length": gap.length, "reason": gap.reason} for gap in report.gaps],
    }
