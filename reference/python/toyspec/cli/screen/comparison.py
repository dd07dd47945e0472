"""What runs have in common and what not, as a table: results with the best marked, and settings that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.cli.columns import cut_middle
from toyspec.cli.figures import duration, figure
from toyspec.cli.screen.run_list import end_of
from toyspec.escaping import shortened
from toyspec.runs.metric_names import losses_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Look = Literal["plain", "best", "different", "absent", "state"]

_NAME_CHARS = 200
VALUE_COLUMNS = 18
"""A longer value is cut in its middle."""
_ABSENT = "\N{EN DASH}"


class ComparedCell(NamedTuple):
    """One fact about one run."""

    text: str
    look: Look = "plain"
    style: str = ""
    """That of a state."""


class ComparedLine(NamedTuple):
    """One fact about all runs; a title without cells."""

    name: str
    note: str = ""
    cells: Sequence[ComparedCell] = ()


def compared(rows: Sequence[dict[str, Any]]) -> list[ComparedLine]:
    """Return the lines of the table of *rows*, which are rows of the catalog: results, metrics, then settings."""
    return [ComparedLine("results"), *_facts(rows), *_metrics(rows), *_settings(rows)]


def _facts(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    yield ComparedLine("state", "", [ComparedCell(end_of(row)[0], "state", end_of(row)[1]) for row in rows])
    yield ComparedLine(
        "took", "", [ComparedCell("" if row["seconds"] is None else duration(row["seconds"])) for row in rows]
    )
    yield ComparedLine(
        "last step", "", [ComparedCell("" if row["last_step"] is None else figure(row["last_step"])) for row in rows]
    )


def _metrics(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    for name in losses_first({name for row in rows for name in row["metrics"]}):
        found = [row["metrics"].get(name) for row in rows]
        goal = next((facts["goal"] for facts in found if facts is not None and facts["goal"] is not None), None)
        values = [None if facts is None else _value(facts, goal) for facts in found]
        known = [value for value in values if value is not None]
        best = None if goal is None or len(known) < 2 else (min if goal == "min" else max)(known)
        note = "last" if goal is None else "lowest" if goal == "min" else "highest"
        yield ComparedLine(_shown(name), note, [_metric(value, best) for value in values])


def _value(facts: dict[str, Any], goal: str | None) -> float | None:
    best: float | None = facts["best"]
    last: float | None = facts["last"]
    return last if goal is None or best is None else best


def _metric(value: float | None, best: float | None) -> ComparedCell:
    if value is None:
        return ComparedCell("")
    return ComparedCell(f"{figure(value)} *", "best") if value == best else ComparedCell(figure(value))


def _settings(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    names = dict.fromkeys(name for row in rows for name in row["config"])
    different = [name for name in names if len({_written(row["config"], name) for row in rows}) > 1]
    yield ComparedLine("settings", f"{len(different)} of {len(names)} differ")
    for name in different:
        written = [_written(row["config"], name) for row in rows]
        usual = next((each for each in written if 2 * written.count(each) > len(rows)), None)
        looks: list[Look] = ["plain" if usual in (None, each) else "different" for each in written]
        values = [row["config"].get(name, _ABSENT) for row in rows]
        is_there = [name in row["config"] for row in rows]
        cells = [
            ComparedCell(cut_middle(figure(value), VALUE_COLUMNS), look) if there else ComparedCell(_ABSENT, "absent")
            for value, look, there in zip(values, looks, is_there, strict=True)
        ]
        yield ComparedLine(_shown(name), "", cells)


def _written(config: dict[str, Any], name: str) -> str:
    # Types are compared too: 1, 1.0 and true are three different settings.
    return repr(config[name]) if name in config else ""


def _shown(name: str) -> str:
    return shortened(name, _NAME_CHARS)
