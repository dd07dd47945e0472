"""Starts ``toyspec view`` and a browser, and reads from both what the viewer costs and when it shows what."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from browser.watching import FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Playwright

_WINDOW = {"width": 1440, "height": 900}
_SECONDS = 120.0
_NO_PAUSES = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
_SERVE = (sys.executable, "-m", "toyspec", "view", "--port", "0")

# Notes when the table first has rows and what each chart of the loss shows, by the clock of the machine.
_NOTES = """
(() => {
  const seen = window.seenByBench = {table: 0, settings: 0, drawn: []};
  const now = () => performance.timeOrigin + performance.now();
  const look = () => {
    const count = document.querySelector(".bar .count")?.textContent ?? "";
    if (!seen.table && document.querySelector(".row") && /^[1-9]/.test(count)) seen.table = now();
    if (!seen.settings && document.querySelector("#part-config .tree")?.textContent) seen.settings = now();
    for (const canvas of document.querySelectorAll(".chart-canvas[data-runs]")) {
      if (canvas.closest("figure")?.querySelector("h3")?.textContent !== "loss") continue;
      const {runs, points} = canvas.dataset, last = seen.drawn.at(-1);
      if (last?.runs !== runs || last?.points !== points) seen.drawn.push({runs, points, at: now()});
    }
  };
  const attributes = {attributes: true, attributeFilter: ["data-runs", "data-points"]};
  new MutationObserver(look).observe(document, {subtree: true, childList: true, ...attributes});
})();
"""

# Waits until a chart of the loss had at least so many runs and points, and the table its rows.
_UNTIL = """
async ([runs, points, seconds]) => {
  const end = performance.now() + 1000 * seconds, seen = window.seenByBench;
  const isDrawn = (each) => Number(each.runs) >= runs && Number(each.points) >= points;
  while (!(seen.table && seen.drawn.some(isDrawn))) {
    if (performance.now() > end) throw new Error(`after ${seconds} s: ${JSON.stringify(seen.drawn.at(-1))}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return seen;
}
"""

# Waits until the page had something first, and returns when, by the clock of the machine.
_FIRST = """
async ([what, seconds]) => {
  const end = performance.now() + 1000 * seconds;
  while (!window.seenByBench[what]) {
    if (performance.now() > end) throw new Error(`after ${seconds} s there was no ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return window.seenByBench[what];
}
"""

# Waits until a page of text was painted, and returns when, by the clock of the machine.
_PAINTED = """
async (seconds) => {
  const end = performance.now() + 1000 * seconds;
  for (;;) {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    if (paint) return performance.timeOrigin + paint.startTime;
    if (performance.now() > end) throw new Error(`nothing was painted after ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
"""

# Drags a chart with the shift key held, and returns the milliseconds of each frame.
_PAN = """
async (frames) => {
  const chart = document.querySelector(".chart-overlay"), box = chart.getBoundingClientRect(), times = [];
  const shared = {clientY: box.top + 100, shiftKey: true, button: 0, pointerId: 1, bubbles: true};
  const event = (type, x) => chart.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, ...shared}));
  chart.setPointerCapture = () => undefined;
  event("pointerdown", 300);
  for (let at = 0; at < frames; at++) {
    const began = performance.now();
    event("pointermove", 300 + at);
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    times.push(performance.now() - began);
  }
  event("pointerup", 300 + frames);
  return times;
}
"""


class Shown(NamedTuple):
    """One start of the viewer: seconds from the start of the command."""

    listening: float
    table: float
    first: float
    """When the first curve was drawn."""
    curves: float
    sent: int
    """Bytes that the server sent until the curves were drawn."""
    heap: int
    """Bytes of the page's objects after a collection."""


class Server:
    """``toyspec view`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str, started: float, listening: float) -> None:
        self._process = process
        self.url = url
        self.started = started
        """Seconds since the epoch when the command was started."""
        self.listening = listening
        """When it printed its address."""

    def runs(self) -> list[dict[str, Any]]:
        """Return the rows of all runs."""
        rows: list[dict[str, Any]] = msgspec.json.decode(self.get(f"{self.url}api/runs"))["runs"]
        return rows

    def settle(self) -> None:
        """Wait until every run was checked and the worker processes have ended."""
        deadline = time.monotonic() + _SECONDS
        while any(row.get("findings") is None and not row.get("message") for row in self.runs()) or self._children():
            if time.monotonic() > deadline:
                raise TimeoutError("the runs were not checked in time")
            time.sleep(0.25)

    def get(self, address: str) -> bytes:
        """Return the body of the answer to a request for *address*."""
        parts = urlsplit(address)
        with closing(HTTPConnection(parts.netloc, timeout=_SECONDS)) as connection:
            connection.request("GET", f"{parts.path}?{parts.query}")
            return connection.getresponse().read()

    def megabytes(self) -> float:
        """Return the resident memory of the server."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6

    def _children(self) -> str:
        return Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text("ascii").strip()


@contextmanager
def viewing(root: Path, cache: Path) -> Iterator[Server]:
    """Run ``toyspec view`` on the runs below *root* with its curves in *cache*, until the end of the block.

    Bytecode is kept beside *cache*, as an installer compiles it.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"TOYSPEC_CACHE": str(cache), "PYTHONPYCACHEPREFIX": str(cache.with_name("bytecode"))}
    started = time.time()
    with subprocess.Popen([*_SERVE, str(root)], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            raise OSError("toyspec view did not start")
        # The flags of the browser let it reach this machine by its address alone.
        url = next(word for word in words if word.startswith("http")).replace("localhost", "127.0.0.1")
        try:
            yield Server(process, url, started, time.time())
        finally:
            process.terminate()
            process.stdout.read()


@contextmanager
def browsing(playwright: Playwright, program: str, *, pauses: bool = True) -> Iterator[Browser]:
    """Start the browser at *program*; without *pauses* a frame does not wait for the next one of a screen."""
    flags = [*FLAGS, *(() if pauses else _NO_PAUSES)]
    browser = playwright.chromium.launch(executable_path=program, args=flags, chromium_sandbox=False)
    try:
        yield browser
    finally:
        browser.close()


def new_page(browser: Browser) -> Page:
    """Return a page that notes when it shows what."""
    page = browser.new_context(viewport=_WINDOW).new_page()
    page.set_default_timeout(_SECONDS * 1000)
    page.add_init_script(_NOTES)
    page.goto("about:blank")
    return page


def show(page: Page, server: Server, runs: int) -> Shown:
    """Open the charts on a blank *page* and return when the table and the losses of all *runs* were there."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sent: list[int] = []
    session.on("Network.dataReceived", lambda event: sent.append(event["encodedDataLength"]))
    page.goto(f"{server.url}#charts")
    seen = until_drawn(page, runs=runs)
    first, drawn = (next(each["at"] for each in seen["drawn"] if int(each["runs"]) >= most) for most in (1, runs))
    bytes_sent = sum(sent)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    began = server.started
    table, first, drawn = (at / 1000 - began for at in (seen["table"], first, drawn))
    return Shown(server.listening - began, table, first, drawn, bytes_sent, int(heap))


def show_text(page: Page, server: Server) -> float:
    """Open a page of one line of text on a blank *page*; return when it was painted, in seconds since the command."""
    page.goto(f"{server.url}nothing")
    painted: float = page.evaluate(_PAINTED, _SECONDS)
    return painted / 1000 - server.started


def first_shown(page: Page, server: Server, place: str, what: str) -> float:
    """Open *place* on a blank *page*; return when it had a ``table`` or ``settings``, in seconds since the command."""
    page.goto(f"{server.url}{place}")
    shown: float = page.evaluate(_FIRST, [what, _SECONDS])
    return shown / 1000 - server.started


def until_drawn(page: Page, *, runs: int = 1, points: int = 1) -> Any:
    """Wait until the loss of so many runs and points is drawn; return everything that was noted."""
    return page.evaluate(_UNTIL, [runs, points, _SECONDS])


def frame_milliseconds(page: Page, address: str, runs: int, frames: int = 60) -> list[float]:
    """Return how long each frame takes while the middle half of the loss of *runs* is dragged."""
    page.goto(address)
    until_drawn(page, runs=runs)
    page.wait_for_timeout(1500)
    found: list[float] = page.evaluate(_PAN, frames)
    return found
