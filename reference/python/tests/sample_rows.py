"""What is read of the sample of each dialect, line by line, so that a change of it is seen: in `dialect_rows/`.

``python sample_rows.py NAME…`` writes the file of these dialects, of all without a name. Compare it with the log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toyspec import check, check_bytes, list_runs, read
from toyspec.core.reading.records import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.findings import FileReport

SAMPLES = Path(__file__).parent / "dialects"
_OF_A_ROW = ("line", "step", "time", "time_origin", "epoch", "phase", "config", "run", "end", "goal", "values")


def logs_of(name: str) -> list[Path]:
    """Return the paths of the sample of the dialect *name*, and of its variants."""
    expected = json.loads((SAMPLES / name / "sample.json").read_text(encoding="utf-8"))
    files = [expected["file"], *(variant["file"] for variant in expected.get("variants", []))]
    return [SAMPLES / name / file for file in files]


def lines_of(name: str) -> Iterator[str]:
    """Yield lines of JSON on each log of the dialect *name*: how it is read, its rows, its run, what damage does to it.

    What a row does not have is left out.
    """
    for path in logs_of(name):
        reading = read(path, mode="salvage")
        rows = [row for row in reading if isinstance(row, Row)]
        assert reading.read_as is not None
        (report,) = check(path).files
        yield _line(log=path.name, read_as=reading.read_as.use, findings=_findings(report))
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


def path_of(name: str) -> Path:
    """Return the path of what was read of the sample of the dialect *name*."""
    return Path(__file__).parent / "dialect_rows" / f"{name}.jsonl"


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(folder.name for folder in SAMPLES.iterdir()):
        path_of(each).write_text("".join(f"{line}\n" for line in lines_of(each)), encoding="utf-8")
