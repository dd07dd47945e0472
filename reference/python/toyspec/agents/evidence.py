"""What an auditor asks about a run: a document made from its facts, its records and its seal."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core.files import open_file
from toyspec.core.format.profiles import SEAL_FILE
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.sealed_files import parse_seal_line
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORM: Final = "toyspec-evidence/v1"
_OF_START = {"command": "argv", "code": "git", "data": "data", "environment": "packages"}
_OF_PLACE = ("run", "path")


def evidence_of(run: str | os.PathLike[str], *, dialect: DialectChoice | None = None) -> dict[str, Any]:
    """Return the evidence about *run* as JSON has it: the same log and seal always give the same.

    Raises StreamError for a run that cannot be read, and OSError for its seal.
    """
    choice = dialect or DialectChoice()
    path = locate_stream(os.fspath(run), choice.stream_files)
    summary = summarize_run(path, dialect=choice)
    facts, start = summary.facts, summary.start
    with read(path, mode="salvage", dialect=choice) as reading:
        notes = [
            {"line": record.line} | record.value
            for record in reading
            if (record.profile, record.kind) == ("toy/v1", "note")
        ]
    found: dict[str, Any] = {
        "form": _FORM,
        "run": {name: value for name, value in facts.columns.items() if name not in _OF_PLACE}
        | {"name": start.get("name")},
        **{name: start.get(member) for name, member in _OF_START.items()},
        "settings": facts.settings or {},
        "machines": list(_machines(path, start, choice)),
        "end": summary.end,
        "metrics": facts.metrics or {},
        "decisions": notes,
        "seal": _seal(os.path.join(summary.directory, SEAL_FILE)),
    }
    missing = [name for name, value in found.items() if not value]
    if facts.metrics_left_out:
        missing.append(f"{facts.metrics_left_out} metrics beyond the limit")
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


def _seal(path: str) -> dict[str, Any] | None:
    """Return the digest of the seal at *path*, and those of the files that it has; None without one."""
    try:
        with open_file(path) as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    lines = filter(None, map(parse_seal_line, data.split(b"\n")))
    files = {line.name.decode("utf-8", "backslashreplace"): line.digest for line in lines}
    return {"sha256": hashlib.sha256(data).hexdigest(), "files": files}
