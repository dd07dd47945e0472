"""Writes figures down: as data, and as tables into the page that explains them."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from measuring import Row

_BEGIN = "<!-- figures:{part} -->"
_END = "<!-- /figures -->"
_VERDICTS = {True: "met", False: "**not met**", None: ""}


def write_data(path: Path, machine: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write machine and figures as JSON."""
    figures = [
        row._asdict()
        | {"met": row.met}
        | ({"median": None, "low": None, "high": None} if row.unit == "missing" else {})
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n", encoding="utf-8")


def write_tables(page: Path, part: str, machine: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Put machine and figures between the marks of *part* in *page*."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN.format(part=part))
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{page} has no marks for {part}")
    tables = "\n".join(_table(group, list(members)) for group, members in groupby(rows, key=lambda row: row.group))
    described = ", ".join(f"{name} {value}" for name, value in machine.items())
    page.write_text(f"{before}{begin}\n{described}.\n\n{tables}\n{end}{after}", encoding="utf-8")


def _table(group: str, rows: Sequence[Row]) -> str:
    lines = [f"| {group} | median (lowest to highest) | goal | |", "|---|---|---|---|"]
    for row in rows:
        figure = f"missing: {row.detail}" if row.unit == "missing" else row.figure
        lines.append(f"| {row.name} | {figure} | {row.goal_text} | {_VERDICTS[row.met]} |")
    return "\n".join(lines) + "\n"
