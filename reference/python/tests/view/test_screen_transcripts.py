"""What `toyspec watch` shows after each of its keys, as a file: ``screens.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/view/test_screen_transcripts.py`` writes it again; read the difference.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from fixed_runs import fixed_runs
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns

pytest.importorskip("textual")

from textual.pilot import Pilot

from toyspec.view.screen import WatchApp

SCREENS = Path(__file__).parents[1] / "screens.txt"
RUNS = fixed_runs()
_MARK = "===="
_IS_UPDATED = bool(os.environ.get("TOYSPEC_UPDATE"))
_MOST_SECONDS = 60.0
_SETTLED_SECONDS = 1.5
"""For so long a screen does not change before it is written into the file."""


def _screen(app: WatchApp) -> list[str]:
    """Return the lines of the screen."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def _settled(app: WatchApp, pilot: Pilot[Any]) -> list[str]:
    shown, since = _screen(app), time.monotonic()
    while time.monotonic() < since + _SETTLED_SECONDS:
        await pilot.pause(0.1)
        if _screen(app) != shown:
            shown, since = _screen(app), time.monotonic()
    return shown


async def _becomes(app: WatchApp, pilot: Pilot[Any], expected: list[str]) -> list[str]:
    """Return the screen once it is *expected*, or what it still is after a long time."""
    deadline = time.monotonic() + _MOST_SECONDS
    while _screen(app) != expected and time.monotonic() < deadline:
        await pilot.pause(0.02)
    return _screen(app)


def _parts() -> list[tuple[str, list[str]]]:
    """Return the keys of each part of the file with what changes on the screen."""
    parts = SCREENS.read_text(encoding="utf-8").split(f"{_MARK} ")[1:]
    return [(lines[0], lines[1:]) for lines in (part.rstrip("\n").split("\n") for part in parts)]


def _differing(before: list[str], after: list[str]) -> list[str]:
    """Return the lines of *after* that differ from those of *before*, with their numbers."""
    padded = [*before, *[""] * (len(after) - len(before))]
    return [f"{at:2} {line}".rstrip() for at, (old, line) in enumerate(zip(padded, after, strict=False)) if old != line]


def _applied(before: list[str], changes: list[str]) -> list[str]:
    """Return the screen *before* with *changes*, as ``_differing`` yields them."""
    after = list(before)
    for change in changes:
        at = int(change[:2])
        after += [""] * (at + 1 - len(after))
        after[at] = change[3:]
    return after


@pytest.mark.slow
def test_each_key_shows_what_the_file_has(tmp_path: Path) -> None:
    """Lists in each order, charts on each axis, filters, help, and what a screen too small shows."""
    for name in ("sorts", "odd", "more"):
        shutil.copytree(RUNS / name, tmp_path / "runs" / name)
    for path in (tmp_path / "runs").rglob("*"):
        os.utime(path, (1780221600, 1780221600))
    catalog = LiveRuns(str(tmp_path / "runs"), store=CurveStore(str(tmp_path / "cache")))
    catalog.start()
    found: list[str] = []

    async def play() -> None:
        app = WatchApp(catalog, "runs")
        async with app.run_test(size=(100, 30)) as pilot:
            shown: list[str] = []
            for keys, changes in _parts():
                if keys.startswith("size "):
                    shown = []
                    await pilot.resize_terminal(*map(int, keys.split()[1:]))
                elif keys != "start":
                    await pilot.press(*keys.split())
                expected = _applied(shown, changes)
                now = await (_settled(app, pilot) if _IS_UPDATED else _becomes(app, pilot, expected))
                found.extend([f"{_MARK} {keys}", *_differing(shown, now)])
                shown = now
                if not _IS_UPDATED:
                    assert expected == now, "\n".join(difflib.unified_diff(expected, now, keys, lineterm=""))

    try:
        asyncio.run(play())
    finally:
        catalog.close()
    if _IS_UPDATED:
        SCREENS.write_text("".join(f"{line}\n" for line in found), encoding="utf-8", newline="\n")
    assert found


def test_every_key_is_pressed() -> None:
    """Each key of the screen is in the file, but for those that end it."""
    pressed = {key for keys, _ in _parts() for key in keys.split()}
    keys = {key for binding in WatchApp.BINDINGS for key in binding.key.split(",")}
    assert keys - {"q", "ctrl+c"} <= pressed
