"""What tests of the viewer share: its server over runs that are made up, and what a chart shows."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from playwright.sync_api import Browser, Page, expect

from browser.watching import WIDE, Watch
from toyspec.view.server import ViewHandler
from view_client import Client, served

_STARTED = "2026-11-22T10:30:00Z"


def line(step: int, *, kind: str, **members: Any) -> bytes:
    """Return the line of a record at *step*, two of which take a second; NaN is null."""
    return msgspec.json.encode({"kind": kind, "t": step / 2, "step": step, **members}) + b"\n"


def logged(step: int, values: Mapping[str, float]) -> bytes:
    """Return the line of *values* at *step*: a loss alone is of a step, which the engine reads in blocks."""
    if [*values] == ["loss"]:
        return line(step, kind="step", **values)
    return line(step, kind="scalars", values=values)


@dataclass
class MadeRun:
    """A run: its curves by metric, whose steps are 1, 2, …, and what else is in its log."""

    id: str
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    """More members of `run_start`."""
    records: Mapping[int, Sequence[Mapping[str, Any] | bytes]] = field(default_factory=dict)
    """Records and lines after those of a step."""
    end: Mapping[str, Any] | None = field(default_factory=lambda: {"reason": "completed"})
    """Members of `run_end`."""

    def write(self, root: Path) -> None:
        """Write the run below *root*."""
        folder = root / self.id
        folder.mkdir(parents=True, exist_ok=True)
        lines = [line(0, kind="run_start", schema="toy/v1", run_id=folder.name, started_at=_STARTED, **self.start)]
        for step in sorted({*self.records, *range(1, max(map(len, self.curves.values()), default=0) + 1)}):
            values = {name: values[step - 1] for name, values in self.curves.items() if 0 < step <= len(values)}
            lines += [logged(step, values)] if values else []
            lines += [each if isinstance(each, bytes) else line(step, **each) for each in self.records.get(step, ())]
        lines += [line(9**6, kind="run_end", **self.end)] if self.end is not None else []
        (folder / "events.jsonl").write_bytes(b"".join(lines))


@dataclass
class Made:
    """Runs that are served, and what a page asked for."""

    root: Path
    streams: list[ViewHandler]
    """Every stream of changes that has begun."""
    may_stream: threading.Event
    """While it is not set, a new stream waits before it begins."""
    requests: list[str] = field(default_factory=list)
    """The addresses of all curves."""

    def grow(self, run: str, values: Sequence[float]) -> None:
        """Append *values* to the loss of a run that has nothing but its curve."""
        path = self.root / run / "events.jsonl"
        steps = enumerate(values, path.read_bytes().count(b"\n"))
        with path.open("ab") as file:
            file.write(b"".join(logged(at, {"loss": value}) for at, value in steps))


Opened = Callable[..., tuple[Page, Made]]
"""Serves runs and opens the viewer at a hash, in a window of a size."""


class Viewed:
    """Serves folders of runs and opens pages on them."""

    def __init__(self, browser: Browser, stack: ExitStack) -> None:
        self._browser = browser
        self._stack = stack
        self.watches: list[Watch] = []

    def serve(self, root: Path) -> Client:
        """Return the client of a server of the runs below *root*."""
        return self._stack.enter_context(served(root, root.parent / f"cache-{len(self.watches)}"))

    def new_page(
        self, client: Client, size: tuple[int, int] = WIDE, scheme: Literal["light", "dark"] = "light"
    ) -> Page:
        """Return an empty page for a server."""
        self.watches.append(Watch(self._browser, f"http://127.0.0.1:{client.server.port}/"))
        return self.watches[-1].new_page(size, scheme)

    def open(
        self, root: Path, place: str = "", *, size: tuple[int, int] = WIDE, scheme: Literal["light", "dark"] = "light"
    ) -> tuple[Page, Client]:
        """Return a page at *place* over the runs below *root*, and the server's client."""
        client = self.serve(root)
        page = self.new_page(client, size, scheme)
        page.goto(place)
        return page, client


def falling(steps: int, *, end: float = 1.0) -> list[float]:
    """Return a loss that falls to *end*."""
    return [end + 5 / (1 + at) for at in range(steps)]


def sweep(count: int, steps: int = 20) -> list[MadeRun]:
    """Return runs that differ in learning rate, seed and final loss."""
    return [
        MadeRun(
            f"sweep/run-{number:04}",
            {"loss": falling(steps, end=1 + number / count), "val/acc": [0.5 + number / count / 2]},
            {
                "config": {"optim": {"lr": 10.0 ** -(1 + number % 4)}, "seed": number},
                "tags": ["even"] if number % 2 == 0 else [],
            },
        )
        for number in range(count)
    ]


def pixels(page: Page, colour: str, distance: int = 60) -> list[list[int]]:
    """Return the columns and rows of a chart whose colour is that of a custom property, up to a distance."""
    script = """([name, distance]) => {
        const canvas = document.querySelector(".chart-canvas");
        const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
        const pen = copy.getContext("2d", {willReadFrequently: true});
        pen.drawImage(canvas, 0, 0);
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const {data, width, height} = pen.getImageData(0, 0, canvas.width, canvas.height);
        const found = [];
        for (let at = 0; at < width * height; at++) {
            const [x, y, z, a] = [data[4 * at], data[4 * at + 1], data[4 * at + 2], data[4 * at + 3]];
            const isSame = a > 30 && Math.abs(x - r) + Math.abs(y - g) + Math.abs(z - b) < distance;
            if (isSame) found.push([at % width, Math.floor(at / width)]);
        }
        return JSON.stringify(found);
    }"""
    # As one text: a list of a hundred thousand places takes half a minute.
    found: list[list[int]] = json.loads(page.evaluate(script, [colour, distance]))
    return found


def until(page: Page, holds: Callable[[], object]) -> bool:
    """Return whether *holds* is true, now or within two minutes: a busy machine draws late."""
    end = time.monotonic() + 120
    while not holds():
        if time.monotonic() > end:
            return False
        page.wait_for_timeout(50)
    return True


def drawn(page: Page) -> None:
    """Wait until the first chart shows its curves."""
    expect(page.locator(".chart-overlay").first).to_have_attribute("aria-label", re.compile(r" [1-9]\S* runs?\."))
    at_rest(page)


def at_rest(page: Page) -> None:
    """Wait until the first chart will not change any more by itself."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator(".chart-canvas").first).to_have_attribute("data-busy", "false")


def arrived(page: Page, place: str) -> None:
    """Wait until the view at the hash *place* is there: rows, charts, a comparison, or the whole page of a run."""
    view = place.removeprefix("#").partition("/")[0].partition("?")[0]
    part = {"runs": ".row", "compare": ".compare"}.get(view, ".chart")
    page.locator(f"[data-view={view}] main {part}").first.wait_for()
    expect(page.get_by_text("Loading the rest …")).to_have_count(0)
