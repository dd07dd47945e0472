"""Packages of others for tests: a folder on the path, with the entry points that an installed package has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

EntryPoints = Mapping[str, Mapping[str, str]]
"""What each name stands for, by group."""


def install(
    patch: pytest.MonkeyPatch, place: Path, name: str, entry_points: EntryPoints, files: Mapping[str, str]
) -> None:
    """Install the package *name*, whose *files* are texts by path, in *place*, until *patch* is undone."""
    information = place / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, named in entry_points.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in named.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines))
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
        patch.delitem(sys.modules, path.removesuffix(".py").replace("/", "."), raising=False)
    patch.syspath_prepend(place)
