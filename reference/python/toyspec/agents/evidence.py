"""What an auditor asks about a run: a document made from its facts, its records and the digests of its files."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core.format.flattening import pointer_to
from toyspec.core.format.profiles import EVENTS_FILE, SEAL_FILE
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.sealed_files import covered_files, digest_in
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.reading.records import Record

FORM: Final = "toyspec-evidence/v1"
"""What a document calls its form."""
_OF_START = {"command": "argv", "code": "git", "data": "data", "environment": "packages"}
_OF_PLACE = ("run", "path")
_OF_NOTES = ("text", "topic", "by", "step", "t", "left_out", "dropped")
_MOST_RECORDS = 10_000


def evidence_of(run: str | os.PathLike[str], *, dialect: DialectChoice | None = None) -> dict[str, Any]:
    """Return the evidence about *run* as JSON has it: the same log and files always give the same.

    Raises StreamError for a run that cannot be read, and OSError for its folder.
    """
    choice = dialect or DialectChoice()
    path = locate_stream(os.fspath(run), choice.stream_files)
    summary = summarize_run(path, dialect=choice)
    facts, start = summary.facts, summary.start
    files = list(_files(path))
    with read(path, mode="salvage", dialect=choice) as reading:
        notes = (_said(record) for record in reading if (record.profile, record.kind) == ("toy/v1", "note"))
        decisions = list(islice(notes, _MOST_RECORDS))
        left_out = sum(1 for _ in notes)
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
        "seal": next((file for file in files if file["path"] == SEAL_FILE), None),
        "files": files,
    }
    missing = [name for name, value in found.items() if not value]
    if facts.metrics_left_out or left_out:
        missing.append(f"{facts.metrics_left_out} metrics and {left_out} notes beyond the limits")
    document: dict[str, Any] = msgspec.to_builtins(found | {"not_recorded": missing})
    return document


def differences(document: Any, now: dict[str, Any]) -> list[str]:
    """Return the JSON Pointers at which *document* differs from the evidence of *now*; empty where it still holds."""
    return list(_differences(document, now, ""))


def _said(record: Record) -> dict[str, Any]:
    return {"line": record.line} | {name: value for name in _OF_NOTES if (value := record.get(name)) is not None}


def _machines(path: str, start: dict[str, Any], choice: DialectChoice) -> Iterator[dict[str, Any]]:
    """Yield the machine of each process."""
    for rank, stream in {0: path, **ranks_beside(path)}.items():
        if rank:
            with read(stream, mode="salvage", dialect=choice) as reading:
                start = next((found for record in reading if (found := record.start)), {})
        if start.get("host") or start.get("backend"):
            yield {"rank": rank, "host": start.get("host"), "backend": start.get("backend")}


def _files(path: str) -> Iterator[dict[str, Any]]:
    """Yield each file of the run with its size and digest, and its seal; of a log alone, the log."""
    directory, name = os.path.split(path)
    directory = directory or "."
    names = [os.fsencode(name)]
    if name == EVENTS_FILE:
        names = [each for each, _ in covered_files(directory)]
        names += [os.fsencode(SEAL_FILE)] if os.path.isfile(os.path.join(directory, SEAL_FILE)) else []
    for each in names:
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
