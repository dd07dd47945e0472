"""Measures how soon the viewer shows what, in a headless Chromium: ``nox -s bench_viewer``, on an idle machine.

Data A is 100 runs of 10,000 steps, B one run of 1,000,000, C 1,000 runs of 500, D 10,000 runs of 100; each step has
five numbers. A cold start has an empty cache of curves, a warm one the cache of the start before. Times begin with the
command, while a blank page waits in the browser. A page of one line of text from the same server is the floor of a
warm start. A table is shown when it has rows: of very many runs, their facts follow.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from math import isclose
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import viewer_runs
from measuring import Row, browser_of, single, spread
from toyspec.core.engine import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser, Playwright

    from viewer_browser import Server, Shown

_STARTS, _CHARTS = "first view", "charts"
_ROUNDS = 3
_MB = 1e6
_UNFINISHED = 300


class _Goals(NamedTuple):
    """Most seconds of the starts over one folder; None where there is no goal."""

    table: float | None
    curves: float


_GOALS = {"A": _Goals(0.6, 2.0), "B": _Goals(None, 2.0), "C": _Goals(1.0, 3.0)}
_WARM_SECONDS = 0.5
_MANY_SECONDS = 1.5


def rows(folder: Path, count: int) -> Iterator[Row]:
    """Yield the figures, with *count* steps in a folder of runs; 1,000,000 are those of the goals."""
    program = browser_of(_STARTS)
    if isinstance(program, Row):
        yield program
        return
    from playwright.sync_api import sync_playwright

    sizes = viewer_runs.Sizes.of(count)._asdict()
    roots = {name.upper(): viewer_runs.write_folder(folder / name, size) for name, size in sizes.items()}
    many = roots.pop("D")
    with sync_playwright() as playwright:
        kept: list[Row] = []
        yield from _starts(playwright, program, roots, folder, kept)
        yield from _first_looks(playwright, program, {"B": roots["B"], "D": many}, folder)
        yield _beside_unfinished(roots["A"], folder / "cache-A-0")
        yield from kept


def _runs_below(root: Path) -> int:
    return sum(1 for _ in root.iterdir())


def _starts(
    playwright: Playwright, program: str, roots: dict[str, Path], folder: Path, kept: list[Row]
) -> Iterator[Row]:
    """Yield what cold and warm starts take, and what they cost over A; add to *kept* what the curves keep."""
    from viewer_browser import browsing

    with browsing(playwright, program) as browser:
        # What the first start compiles, an installer has compiled.
        _start(browser, roots["A"], folder / "cache-compiling")
        for name, root in roots.items():
            cold, warm, floors, server_sizes = [], [], [], []
            for number in range(_ROUNDS):
                cache = folder / f"cache-{name}-{number}"
                shown, size, found = _start(browser, root, cache, checks=number == 0 and name != "C")
                cold.append(shown)
                server_sizes.append(size)
                kept += found
                warm.append(_start(browser, root, cache)[0])
                floors.append(_text(browser, root, cache))
            yield from _times(name, cold, warm)
            yield spread(_STARTS, f"{name}: a page of one line of text, warm", "s", floors)
            if name == "A":
                yield from _costs(cold, server_sizes)
                yield from _plain(browser, root, folder)


def _start(browser: Browser, root: Path, cache: Path, *, checks: bool = False) -> tuple[Shown, float, list[Row]]:
    """Return what a start showed and when, the server's memory afterwards, and what its curves kept where asked."""
    from viewer_browser import new_page, show, viewing

    page = new_page(browser)
    with viewing(root, cache) as server:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        shown = show(page, server, _runs_below(root))
        page.context.close()
        server.settle()
        kept = list(_kept(server, root.name.upper(), asked)) if checks else []
        return shown, server.megabytes(), kept


def _text(browser: Browser, root: Path, cache: Path) -> float:
    """Return the seconds from the command until a page without the viewer was painted."""
    from viewer_browser import new_page, show_text, viewing

    page = new_page(browser)
    with viewing(root, cache) as server:
        painted = show_text(page, server)
        page.context.close()
        return painted


def _times(name: str, cold: Sequence[Shown], warm: Sequence[Shown]) -> Iterator[Row]:
    table, curves = _GOALS[name]
    goal: dict[str, Any] = {} if table is None else {"most": table}
    yield spread(_STARTS, f"{name}: address printed, cold", "s", [each.listening for each in cold])
    yield spread(_STARTS, f"{name}: run table, cold", "s", [each.table for each in cold], **goal)
    yield spread(_STARTS, f"{name}: first loss curve, cold", "s", [each.first for each in cold])
    yield spread(_STARTS, f"{name}: all loss curves, cold", "s", [each.curves for each in cold], most=curves)
    yield spread(_STARTS, f"{name}: run table, warm", "s", [each.table for each in warm], **goal)
    yield spread(_STARTS, f"{name}: all loss curves, warm", "s", [each.curves for each in warm], most=_WARM_SECONDS)


def _plain(browser: Browser, root: Path, folder: Path) -> Iterator[Row]:
    """Yield when a cold start without the compiled engine shows curves."""
    was = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "python"
    try:
        shown = [_start(browser, root, folder / f"cache-plain-{number}")[0] for number in range(_ROUNDS)]
    finally:
        os.environ.pop(VARIABLE) if was is None else os.environ.update({VARIABLE: was})
    yield spread(_STARTS, "A: first loss curve, cold, plain Python", "s", [each.first for each in shown], most=2.0)
    yield spread(_STARTS, "A: all loss curves, cold, plain Python", "s", [each.curves for each in shown])


def _costs(cold: Sequence[Shown], server_sizes: Sequence[float]) -> Iterator[Row]:
    yield spread(_STARTS, "A: memory of the server", "MB", server_sizes, most=40)
    yield spread(_STARTS, "A: memory of the page", "MB", [each.heap / _MB for each in cold], most=50)
    yield spread(_STARTS, "A: sent", "MB", [each.sent / _MB for each in cold], most=1.5)


def _first_looks(playwright: Playwright, program: str, roots: dict[str, Path], folder: Path) -> Iterator[Row]:
    """Yield when the settings of a long run and the table of very many runs are there, without a cache."""
    from viewer_browser import browsing, first_shown, new_page, viewing

    goals: dict[str, dict[str, Any]] = {"settings": {}, "table": {"most": _MANY_SECONDS}}
    looks = (("B", "settings", "#run/run-0000", "settings of the run"), ("D", "table", "#runs", "run table"))
    with browsing(playwright, program) as browser:
        for name, what, place, words in looks:
            times = []
            for number in range(_ROUNDS):
                page = new_page(browser)
                with viewing(roots[name], folder / f"cache-{what}-{number}") as server:
                    times.append(first_shown(page, server, place, what))
                    page.context.close()
            yield spread(_STARTS, f"{name}: {words}, cold", "s", times, **goals[what])


def _beside_unfinished(root: Path, cache: Path) -> Row:
    """Return how long an answer takes while so many connections wait for the rest of their requests."""
    from viewer_browser import viewing

    with viewing(root, cache) as server, ExitStack() as stack:
        server.runs()
        place = urlsplit(server.url)
        began = time.monotonic()
        for _ in range(_UNFINISHED):
            connection = stack.enter_context(socket.create_connection((str(place.hostname), int(place.port or 0))))
            with suppress(ConnectionError):
                connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: x")
        server.runs()
        taken = time.monotonic() - began
    return single(_STARTS, f"A: {_UNFINISHED} unfinished requests and one answer", "s", taken)


def _kept(server: Server, name: str, asked: Sequence[str]) -> Iterator[Row]:
    """Yield in how many curves that the page asked for the planted spike and the planted NaN are."""
    from view_client import frames

    spikes, marked = set(), set()
    for address in asked:
        if "api/curve?metric=loss" in address:
            for header, columns in frames(server.get(address)):
                if isclose(max(columns.get("max") or columns["mean"], default=0.0), viewer_runs.SPIKE, rel_tol=1e-6):
                    spikes.add(header["run"])
                if sum(columns.get("nan", ())) == 1:
                    marked.add(header["run"])
    runs = len(server.runs())
    yield single(_CHARTS, f"{name}: spikes of one step in answers", f"of {runs}", len(spikes), least=runs)
    yield single(_CHARTS, f"{name}: NaN in answers", f"of {runs}", len(marked), least=runs)
