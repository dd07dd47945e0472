"""What an auditor asks about a run: a document made from its facts, its records and the digests of its files."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.profiles import EVENTS_FILE, SEAL_FILE
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import media_file, ranks_beside
from toyspec.core.reading.sealed_files import covered_files, digest_in
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toyspec.core.reading.records import Record

FORM: Final = "toyspec-evidence/v1"
"""What a document calls its form."""
_OF_START = {"command": "argv", "code": "git", "data": "data", "environment": "packages"}
_OF_PLACE = ("run", "path")
_DIFF_FILE = "changes.diff"
_OF_NOTES = ("text", "topic", "by", "step", "t", "left_out", "dropped")
_OF_ARTIFACTS = ("kind", "path", "uri", "name", "role", "step", "media_type", "size_bytes", "sha256")
_NAMING = ("artifact", "media", "reference")
_MOST_RECORDS = 10_000


def evidence_of(
    run: str | os.PathLike[str], *, leave_out: str | None = None, dialect: DialectChoice | None = None
) -> dict[str, Any]:
    """Return the evidence about *run* as JSON has it: the same log and files always give the same.

    *leave_out* is the path of a file that does not count as one of the run. Raises StreamError for a run that cannot
    be read, and OSError for its folder.
    """
    choice = dialect or DialectChoice()
    path = locate_stream(os.fspath(run), choice.stream_files)
    summary = summarize_run(path, dialect=choice)
    facts, start = summary.facts, summary.start
    files = list(_files(path, leave_out))
    digests = {file["path"]: file["sha256"] for file in files}
    decisions, artifacts = list[dict[str, Any]](), list[dict[str, Any]]()
    left_out = 0
    with read(path, mode="salvage", dialect=choice) as reading:
        for record in reading:
            if record.profile != "toy/v1" or record.kind not in ("note", *_NAMING):
                continue
            if len(decisions) + len(artifacts) >= _MOST_RECORDS:
                left_out += 1
            elif record.kind == "note":
                decisions.append(_said(record, _OF_NOTES))
            else:
                artifacts.append(_said(record, _OF_ARTIFACTS) | {"problem": _problem(record, digests)})
    found: dict[str, Any] = {
        "form": FORM,
        "run": {name: value for name, value in facts.columns.items() if name not in _OF_PLACE}
        | {"name": start.get("name")},
        **{name: start.get(member) for name, member in _OF_START.items()},
        "settings": facts.settings or {},
        "machines": list(_machines(path, start, choice)),
        "end": summary.end,
        "metrics": facts.metrics or {},
        "decisions": decisions,
        "artifacts": artifacts,
        "seal": next((file for file in files if file["path"] == SEAL_FILE), None),
        "files": files,
    }
    missing = [name for name, value in found.items() if not value and name != "artifacts"]
    missing += [] if _DIFF_FILE in digests else [_DIFF_FILE]
    missing += [f"file of line {each['line']}" for each in artifacts if each["problem"] is not None]
    if facts.metrics_left_out or left_out:
        missing.append(f"{facts.metrics_left_out} metrics and {left_out} records beyond the limits")
    document: dict[str, Any] = msgspec.to_builtins(found | {"not_recorded": missing})
    return document


def differences(document: Any, now: dict[str, Any]) -> list[str]:
    """Return the JSON Pointers at which *document* differs from the evidence of *now*; empty where it still holds."""
    return list(_differences(document, now, ""))


def evidence_page(document: dict[str, Any]) -> str:
    """Return *document* as one page of HTML, without scripts; texts of the log are text."""
    run = document["run"]
    title = escape(f"Evidence of {run.get('name') or run.get('run_id') or 'a run'}")
    parts = "".join(f"<h2>{escape(name)}</h2>{_html(value)}" for name, value in document.items() if name != "form")
    style = (
        "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}table{border-collapse:collapse}"
        "th,td{text-align:left;vertical-align:top;border-top:1px solid #ccc;padding:.2rem .6rem;overflow-wrap:anywhere}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"<h1>{title}</h1>{parts}</html>\n"
    )


def _said(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    return {"line": record.line} | {name: record.get(name) for name in names if record.get(name) is not None}


def _problem(record: Record, digests: Mapping[str, str]) -> str | None:
    """Return why the run does not have the file that *record* names as it says; None where it does."""
    place = record.get("path")
    if record.kind == "reference":
        return None
    if record.kind == "media":
        place = media_file(str(record.get("sha256")), str(record.get("media_type")))
    if place not in digests:
        return "not among the files of the run"
    return None if record.get("sha256") in (None, digests[place]) else "the file has another digest"


def _machines(path: str, start: dict[str, Any], choice: DialectChoice) -> Iterator[dict[str, Any]]:
    """Yield the machine of each process."""
    for rank, stream in {0: path, **ranks_beside(path)}.items():
        if rank:
            with read(stream, mode="salvage", dialect=choice) as reading:
                start = next((found for record in reading if (found := record.start)), {})
        if start.get("host") or start.get("backend"):
            yield {"rank": rank, "host": start.get("host"), "backend": start.get("backend")}


def _files(path: str, leave_out: str | None) -> Iterator[dict[str, Any]]:
    """Yield each file of the run with its size and digest, and its seal; of a log alone, the log."""
    directory, name = os.path.split(path)
    directory = directory or "."
    left_out = None if leave_out is None else os.path.realpath(leave_out)
    names = [os.fsencode(name)]
    if name == EVENTS_FILE:
        names = [each for each, _ in covered_files(directory)]
        names += [os.fsencode(SEAL_FILE)] if os.path.isfile(os.path.join(directory, SEAL_FILE)) else []
    for each in names:
        if left_out == os.path.realpath(os.path.join(os.fsencode(directory), each)).decode("utf-8", "backslashreplace"):
            continue
        found = digest_in(directory, each.split(b"/"))
        shown = each.decode("utf-8", "backslashreplace")
        yield {"path": shown, "size_bytes": found.size, "sha256": found.digest, "problem": found.problem}


def _differences(one: Any, other: Any, pointer: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted({*one, *other}, key=str):
            place = pointer + pointer_to([name])
            if name not in one or name not in other:
                yield place
            else:
                yield from _differences(one[name], other[name], place)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (each, its) in enumerate(zip(one, other, strict=True)):
            yield from _differences(each, its, f"{pointer}/{at}")
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield pointer


def _html(value: Any) -> str:
    if isinstance(value, dict):
        rows = "".join(f"<tr><th>{escape(str(name))}</th><td>{_html(each)}</td></tr>" for name, each in value.items())
        return f"<table>{rows}</table>"
    if isinstance(value, list):
        return f"<ol>{''.join(f'<li>{_html(each)}</li>' for each in value)}</ol>" if value else "none"
    return "not recorded" if value is None else escape(str(value))
