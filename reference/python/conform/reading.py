"""The roles reader, summarizer and checker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import toyspec
from tagged import tagged_members, tagged_record
from toyspec.core.checker import iter_reports
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.reading.run_files import rank_streams
from views import views_of

if TYPE_CHECKING:
    from toyspec import ReadReport, Record

Message = dict[str, Any]

_RANK = ("object", {"rank": "integer", "steps": "integer", "last_step": "integer"})
_POINT = ("object", {"step": "integer", "epoch": "integer", "value": "number"})
_TAG = ("object", {"count": "integer", "latest": _POINT, "best": _POINT})
# The views of each profile that are not told by their Python types.
_FIELDS: dict[str | None, dict[str, Any]] = {
    "toy/v1": {
        "loss_curve": ("array", "number"),
        "final_loss": "number",
        "duration_seconds": "number",
        "ranks": ("array", _RANK),
    },
    "metrics/v1": {
        "loss_curve": ("array", "binary32"),
        "duration_seconds": "number",
        **dict.fromkeys(("final_loss", "loss_min", "loss_mean", "loss_max"), "binary32"),
    },
    "kaun/v1": {"tags": ("map", _TAG)},
}


def read(request: Message) -> Message:
    """Answer as a reader."""
    options = {"mode": request["mode"]} if "mode" in request else {}
    directory, name = request.get("directory"), request.get("name")
    reading = toyspec.read(
        request["stream"] if directory is None else os.path.join(directory, name or ""),
        profile=request.get("profile"),
        attempts=request.get("view", "all"),
        max_line_bytes=request.get("max_line_bytes", MAX_LINE_BYTES),
        name=name,
        dialect=None,
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
    ranks = (
        {"ranks": [rank for rank in rank_streams(directory) if rank]} if directory is not None and name is None else {}
    )
    return {"outcome": "read", "records": tagged, **_report(reading.report), **ranks}


def summarize(request: Message) -> Message:
    """Answer as a summarizer."""
    views = views_of(
        request["directory"] if "directory" in request else request["stream"],
        profile=request.get("profile"),
        max_line_bytes=request.get("max_line_bytes", MAX_LINE_BYTES),
        name=request.get("name"),
    )
    return {
        "profile": views.profile,
        "state": views.state,
        "summary": tagged_members(views.members, _FIELDS.get(views.profile, {})),
    }


def check(request: Message) -> Message:
    """Answer as a checker."""
    profile, limit = request.get("profile"), request.get("max_line_bytes", MAX_LINE_BYTES)
    report: toyspec.FileReport | toyspec.PathError
    if "directory" in request:
        options = toyspec.CheckOptions(profile=profile, max_line_bytes=limit, dialect=None)
        directory, name = request["directory"], request.get("name")
        report = next(iter_reports([os.path.join(directory, name) if name else directory], options=options))
    else:
        report = toyspec.check_bytes(
            request["stream"], profile=profile, name=request.get("name"), max_line_bytes=limit, dialect=None
        )
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
