"""What an auditor asks about a run: a document made from its facts, its records and its seal."""

from __future__ import annotations

import os
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core.checker.sidecars import read_seal, seal_lines
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.generated import messages
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.sealed_files import has_seal
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORM: Final = "toyspec-evidence/v1"
_OF_START = {"command": "argv", "code": "git", "data": "data", "environment": "packages"}
_OF_PLACE = ("run", "path")
_MOST_RECORDS = 10_000


def evidence_of(run: str | os.PathLike[str], *, dialect: DialectChoice | None = None) -> dict[str, Any]:
    """Return the evidence about *run* as JSON has it: the same log and seal always give the same.

    Raises StreamError for a run that cannot be read. What is left out, or cannot be read of its seal, is not_recorded.
    """
    choice = dialect or DialectChoice()
    path = locate_stream(os.fspath(run), choice.stream_files)
    summary = summarize_run(path, dialect=choice)
    facts, start = summary.facts, summary.start
    with read(path, mode="salvage", dialect=choice) as reading:
        notes = (
            {"line": record.line} | record.value
            for record in reading
            if (record.profile, record.kind) == ("toy/v1", "note")
        )
        decisions = list(islice(notes, _MOST_RECORDS))
        left_out = sum(1 for _ in notes)
    seal, unread = _seal(summary.directory)
    found: dict[str, Any] = {
        "form": _FORM,
        "run": {name: value for name, value in facts.columns.items() if name not in _OF_PLACE}
        | {"name": start.get("name")},
        **{name: start.get(member) for name, member in _OF_START.items()},
        "settings": facts.settings or {},
        "machines": list(_machines(path, start, choice)),
        "end": summary.end,
        "metrics": facts.metrics or {},
        "decisions": decisions,
        "seal": seal,
    }
    missing = [name for name, value in found.items() if not value] + unread
    if facts.metrics_left_out or left_out:
        missing.append(f"{facts.metrics_left_out} metrics and {left_out} notes beyond the limits")
    document: dict[str, Any] = msgspec.to_builtins(found | {"not_recorded": missing})
    return document


def _machines(path: str, start: dict[str, Any], choice: DialectChoice) -> Iterator[dict[str, Any]]:
    """Yield the machine of each process."""
    for rank, stream in {0: path, **ranks_beside(path)}.items():
        if rank:
            with read(stream, mode="salvage", dialect=choice) as reading:
                start = next((found for record in reading if (found := record.start)), {})
        if start.get("host") or start.get("backend"):
            yield {"rank": rank, "host": start.get("host"), "backend": start.get("backend")}


def _seal(directory: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the digest of the seal in *directory* and those of the files that it has, and what is not in that."""
    if not has_seal(directory):
        return None, []
    seal = read_seal(directory)
    if seal.reason is not None:
        return None, [messages.sidecar_unreadable(name=SEAL_FILE, reason=seal.reason)]
    files: dict[str, str] = {}
    left_out = 0
    for _, line in seal_lines(seal.data):
        if line is None or (name := line.name.decode("utf-8", "backslashreplace")) in files:
            left_out += 1
        else:
            files[name] = line.digest
    unread = [f"{left_out} lines of the seal: `toyspec check` says what is wrong with them"] if left_out else []
    return {"sha256": sha256(seal.data).hexdigest(), "files": files}, unread
