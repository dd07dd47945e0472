"""Makes the part of the page of formats that lists the dialects, from schemas/dialects/."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from codegen import sources
from toyspec import read
from toyspec.convert.destinations.destination import TOOLS, exportable
from toyspec.convert.finding import importable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEAD = """\
## Logs that are read in place {#dialects}

`toyspec check`, `show`, `ls`, `compare` and `tail`, and `toyspec.read`, read these logs of other programs where they
are. Each is a *dialect*, a file in `schemas/dialects/`. `toyspec import` makes toy/v1 runs of them. How a file is
recognized and what can be chosen is described in [Read any training log](../how-to/read-any-log.md).

| dialect | form | step | follow | import | export | what cannot be known |
|---|---|---|---|---|---|---|
"""
_SAMPLES = """\
### What toyspec reads of a sample of each {#samples}

Each sample was made by its program, or written after its source. A run has ended where its log has the end, or where it
reached the step that it planned.

| format | recognized | step | times | metrics | state | sample |
|---|---|---|---|---|---|---|
"""
_FOLDER = sources.SCHEMAS.parent / "reference/python/tests/dialects"
_SHOWN = 3
_FORMS = {
    "lines": "JSON Lines",
    "prefixed": "JSON after a prefix",
    "document": "a JSON document",
    "objects": "JSON objects over several lines",
    "lists": "JSON lists",
    "csv": "CSV",
    "pattern": "text that matches a pattern",
}
_TABLES = {"\t": "TSV", " ": "a table", ";": "a table"}
_RANKS = {"program": 0, "shape": 1, "guess": 2}


def dialects_section() -> str:
    """Return the section: one row for each dialect, those of one program first."""
    found = sorted(sources.dialects(), key=lambda dialect: (_RANKS[dialect["rank"]], dialect["title"].lower()))
    return (
        _HEAD
        + "\n".join(map(_row, found))
        + "\n\n"
        + _SAMPLES
        + "\n".join(row for dialect in found for row in _sample_rows(dialect))
        + "\n"
    )


def _sample_rows(dialect: dict[str, Any]) -> Iterator[str]:
    """Yield the row of each sample of *dialect*."""
    folder = _FOLDER / dialect["name"]
    sample = json.loads((_FOLDER / "samples.json").read_bytes())[dialect["name"]]
    yield _sample_row(dialect["title"], folder, sample)
    for variant in sample.get("variants", ()):
        yield _sample_row(variant["title"], folder, variant)


def _sample_row(title: str, folder: Path, expected: dict[str, Any]) -> str:
    """Return the row of a sample in *folder*, as toyspec reads it."""
    with read(folder / expected["file"], mode="salvage") as reading:
        rows: list[Any] = list(reading)
        report = reading.report
    assert report.dialect is not None, f"{folder}: the sample is not recognized"
    use, metrics = report.dialect, dict.fromkeys(name for row in rows for name in row.values)
    steps = [row.step for row in rows if row.step is not None]
    span = f"`{use.step}`, {steps[0]} to {steps[-1]}" if steps else "none"
    times = "none" if use.time is None else f"`{use.time}`"
    shown = ", ".join(f"`{name}`" for name in list(metrics)[:_SHOWN]) + (", …" if len(metrics) > _SHOWN else "")
    origin = "made by the program" if "made_with" in expected else expected["made_after"].partition(";")[0]
    cells = [title, f"`{use.name}`, {use.choice}", span, times, f"{len(metrics)}: {shown}"]
    return f"| {' | '.join([*cells, f'{report.state}, ended: {use.ended}', origin])} |"


def _row(dialect: dict[str, Any]) -> str:
    form = dialect["form"]
    name = _TABLES.get(form.get("delimiter", ""), _FORMS[form["type"]])
    source = dialect.get("source")
    writer = f", {source['program']} {source.get('version', '')}".rstrip() if source else ""
    steps = ", ".join(f"`{key}`" for key in dialect["step"][:3]) + (", …" if len(dialect["step"]) > 3 else "")
    follow = "when it is rewritten" if form["type"] in ("document", "objects", "lists") else "yes"
    title = f"`{dialect['name']}`: {dialect['title']}{writer}"
    converts = [support(dialect["name"], direction) for direction in ("import", "export")]
    return f"| {' | '.join([title, name, steps, follow, *converts, dialect['loses']])} |"


def support(name: str, direction: Literal["import", "export"]) -> str:
    """Return whether the format *name* is converted in a direction, and with which extra."""
    if name not in (importable() if direction == "import" else exportable()):
        return "no"
    # A dialect that is read in place needs nothing, whatever the other files of its program need.
    needs = TOOLS[name].extra if direction == "export" else None
    return f"with `toyspec[{needs}]`" if needs else "yes"
