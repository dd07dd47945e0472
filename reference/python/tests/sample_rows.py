"""What is read of the sample of each dialect, line by line, so that a change of it is seen: in `dialect_rows.jsonl`.

``python sample_rows.py`` writes the file. Compare the difference with the log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toyspec import check, check_bytes, list_runs, read
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.records import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.findings import FileReport

SAMPLES = Path(__file__).parent / "dialects"
SOURCES: dict[str, dict[str, Any]] = json.loads((SAMPLES / "samples.json").read_bytes())
"""The log of each dialect below the directory of its name, and how it was made."""
ROWS = Path(__file__).parent / "dialect_rows.jsonl"
_OF_A_ROW = ("line", "step", "time", "time_origin", "epoch", "phase", "config", "run", "end", "goal", "values")


def sample_of(name: str) -> Path:
    """Return the path of the sample of the dialect *name*."""
    return logs_of(name)[0]


def logs_of(name: str) -> list[Path]:
    """Return the paths of the sample of the dialect *name*, and of its variants."""
    source = SOURCES[name]
    return [SAMPLES / name / each["file"] for each in (source, *source.get("variants", ()))]


def lines_of(name: str) -> Iterator[str]:
    """Yield lines of JSON on each log of the dialect *name*: how it is read, its rows, its run, what damage does to it.

    What a row does not have is left out.
    """
    for path in logs_of(name):
        reading = read(path, mode="salvage")
        rows = [row for row in reading if isinstance(row, Row)]
        log = DialectChoice().choose(path.read_bytes(), path=str(path))
        assert log is not None
        (report,) = check(path).files
        yield _line(dialect=name, log=path.name, read_as=log.use, findings=_findings(report))
        for row in rows:
            members = {key: getattr(row, key) for key in _OF_A_ROW}
            yield _line(**members, attempt=None if row.attempt == 1 else row.attempt)
        for run in list_runs(path):
            yield _line(**{key: value for key, value in run.row().items() if key != "path" and value is not False})
        data = path.read_bytes()
        start, end = len(data) // 2, len(data) * 5 // 8
        for damage, content in (
            ("cut", data[: -len(data) // 9]),
            ("torn within", data[:start] + data[end:]),
            ("twice", data.rstrip(b"\n") + b"\n" + data),
        ):
            report = check_bytes(content, name=path.name, dialect=name)
            yield _line(damage=damage, state=report.state, records=report.records, findings=_findings(report))


def _findings(report: FileReport) -> list[tuple[str, int, str, str]]:
    return [(each.rule, each.line, each.pointer, each.message) for each in report.findings]


def _line(**members: Any) -> str:
    kept = {key: value for key, value in members.items() if value is not None and value not in ([], {}, ())}
    return json.dumps(kept, default=lambda value: {name: getattr(value, name) for name in value.__struct_fields__})


if __name__ == "__main__":
    text = "".join(f"{line}\n" for name in SOURCES for line in lines_of(name))
    ROWS.write_text(text, encoding="utf-8", newline="\n")
