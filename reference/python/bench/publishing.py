"""Writes figures down: as data, and as tables into the page that explains them."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DATA = Path(__file__).resolve().parents[3] / "build"
_DOCS = _DATA.parent / "docs"
_BEGIN = "<!-- figures:{part} -->"
_END = "<!-- /figures -->"
_PAGES = {
    "engine": "explanation/speed.md",
    "loggers": "parts/logger-costs.md",
    "viewer": "parts/viewer-speed.md",
    "pixels": "parts/viewer-pixels.md",
}
_ENGINE_COLUMNS = ("engine", "plain Python", "times as fast")
_VERDICTS = {True: "met", False: "**not\u00a0met**", None: ""}


def write_data(part: str, machine: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write machine and figures as JSON below build/."""
    figures = [row._asdict() | {"met": row.met} for row in rows]
    path = _DATA / f"bench-{part}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n", encoding="utf-8")


def with_published(part: str, machine: Mapping[str, str], rows: Sequence[Row]) -> list[Row]:
    """Return the figures that are published, with *rows* in place of those of the same names, in the same groups.

    Raises ValueError where they were taken on another machine.
    """
    data = json.loads((_DOCS / f"assets/bench-{part}.json").read_text(encoding="utf-8"))
    other = sorted(name for name in machine if name != "load before" and machine[name] != data["machine"].get(name))
    if other:
        raise ValueError(f"the published figures were taken with another {', '.join(other)}: measure all of them")
    published = [Row(*[figure[name] for name in Row._fields]) for figure in data["figures"]]
    new = {(row.group, row.name): row for row in rows}
    known = [new.pop((row.group, row.name), row) for row in published]
    groups = dict.fromkeys(row.group for row in (*known, *rows))
    return [row for group in groups for row in (*known, *new.values()) if row.group == group]


def show(found: Mapping[str, Any], text: str, *, published: tuple[Path, Path] | None) -> None:
    """Print *text*; where it is *published*, write what was *found* and the text to the files of data and page."""
    sys.stdout.write(text)
    if published is not None:
        data, part = published
        data.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        part.write_text(text, encoding="utf-8")


def publish(part: str) -> None:
    """Put what was written last into the documentation: the data, and tables between the marks of its page."""
    text = (_DATA / f"bench-{part}.json").read_text(encoding="utf-8")
    (_DOCS / f"assets/bench-{part}.json").write_text(text, encoding="utf-8")
    data = json.loads(text)
    rows = [Row(*[figure[name] for name in Row._fields]) for figure in data["figures"]]
    groups = [(group, list(members)) for group, members in groupby(rows, key=attrgetter("group"))]
    table = _TABLES.get(part)
    tables = table(rows) if table is not None else "\n".join(_table(*group) for group in groups)
    described = ", ".join(f"{name} {value}" for name, value in data["machine"].items())
    page = _DOCS / _PAGES[part] if part in _PAGES else Path(__file__).parent / "README.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(_BEGIN.format(part=part))
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{page} has no marks for {part}")
    page.write_text(f"{before}{begin}\nTaken with: {described}.\n\n{tables}\n{end}{after}", encoding="utf-8")


def _of_loggers(rows: Sequence[Row]) -> str:
    """Return one table with a line for each logger, the cheapest first, in CPU time: other programs delay a loop."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        name, _, what = row.name.rpartition(": ")
        found.setdefault(name or what, {})[what] = row
    columns = ("CPU of the loop", "steps lost")
    measured = {name: figures for name, figures in found.items() if all(what in figures for what in columns)}
    lines = ["| logger | CPU time of the loop | steps lost by a kill |", "|---|---|---|"]
    for name, figures in sorted(measured.items(), key=lambda item: item[1][columns[0]].median):
        cells = [figures[what].figure.replace(" us", " µs").replace(" steps", "") for what in columns]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines) + "\n"


def _beside(rows: Sequence[Row]) -> str:
    """Return one table with a column for each engine, and what was to be reached."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        name, _, what = row.name.rpartition(": ")
        found.setdefault(name, {})[what] = row
    lines = ["| what | engine | plain Python | times as fast | goal |", "|---|---|---|---|---|"]
    for name, figures in found.items():
        cells = [figures[what].figure if what in figures else "" for what in _ENGINE_COLUMNS]
        goals = [
            f"{what} {figures[what].goal_text}" for what in _ENGINE_COLUMNS if what in figures and figures[what].goal
        ]
        if any(cells):
            lines.append(f"| {' | '.join([name, *cells, ', '.join(goals)])} |")
    return "\n".join(lines) + "\n"


def _table(group: str, rows: Sequence[Row]) -> str:
    lines = [f"| {group} | median (lowest to highest) | goal | met |", "|---|---|---|---|"]
    for row in rows:
        figure = f"missing: {row.detail}" if row.unit == "missing" else row.figure
        goal = (
            row.goal_text.replace("at most ", "≤ ")
            .replace("at least ", "≥ ")
            .replace(" us", " µs")
            .replace(" ", "\u00a0")
        )
        lines.append(f"| {row.name} | {figure.replace(' us ', ' µs ')} | {goal} | {_VERDICTS[row.met]} |")
    return "\n".join(lines) + "\n"


def _of_pixels(rows: Sequence[Row]) -> str:
    """Return one table with a line for each number of runs and place, and a column for each kind of mark."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        name, _, what = row.name.rpartition(": ")
        found.setdefault(name, {})[what] = row
    columns = list(dict.fromkeys(what for figures in found.values() for what in figures))
    lines = [f"| runs | where | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for name, figures in found.items():
        runs, _, where = name.partition(", ")
        cells = [figures[what].figure.replace(" marks", "") for what in columns]
        lines.append(f"| {' | '.join([runs, where, *cells])} |")
    return "\n".join(lines) + "\n"


_TABLES = {"engine": _beside, "loggers": _of_loggers, "pixels": _of_pixels}
