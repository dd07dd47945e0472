"""The screen of `toyspec watch`, by Textual's pilot and in a pseudo-terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from view_client import END, START, step, write_run

pytest.importorskip("textual")

from textual.pilot import Pilot

from toyspec.view.screen import WatchApp

HOSTILE = "\x1b]0;x\x07[bold red]\u202e\n\ud800"


@contextmanager
def watched(tmp_path: Path) -> Iterator[WatchApp]:
    """Return the app over the runs below *tmp_path*, and end what it started."""
    catalog = LiveRuns(str(tmp_path / "runs"), store=CurveStore(str(tmp_path / "cache")))
    catalog.start()
    try:
        yield WatchApp(catalog, "runs")
    finally:
        catalog.close()


def text(app: WatchApp) -> list[str]:
    """Return the lines of the screen."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in (app.screen._compositor.render_strips())]


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Wait until *holds*; fail with what the screen shows."""
    for _ in range(6000):
        await pilot.pause(0.05)
        if holds():
            return
    assert isinstance(pilot.app, WatchApp)
    raise AssertionError("\n".join(text(pilot.app)))


def played(
    tmp_path: Path, play: Callable[[WatchApp, Pilot[Any]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> None:
    """Run the app on a screen of *size* and play on it, once it shows the runs and a curve."""

    async def run() -> None:
        with watched(tmp_path) as app:
            async with app.run_test(size=size) as pilot:
                await until(pilot, lambda: any("┤" in line for line in text(app)))
                await play(app, pilot)

    asyncio.run(run())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory in which a sweep of three runs is below runs/."""
    for number in range(3):
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "config": {"lr": 10.0**-number}}
        lines = [step(at, 3.0 - number + 1 / (at + 1)) for at in range(50)]
        val = b'{"kind":"eval","t":60.0,"step":49,"name":"val","acc":0.%d}\n' % number
        write_run(
            tmp_path / "runs" / f"llama-lr{number}-20261121-001", json.dumps(start).encode() + b"\n", *lines, val, END
        )
    return tmp_path


def test_hidden_runs_are_counted(root: Path) -> None:
    """Runs that are hidden are not in the list, and their number is said, until a filter asks for them."""
    bundle = next((root / "runs").glob("llama-lr0*"))
    (bundle / "annotations.jsonl").write_text('{"at":"2026-11-24T09:30:00Z","hidden":true}\n', encoding="utf-8")

    async def play(app: WatchApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: text(app)[0] == "toyspec watch runs  3 runs  2 listed  1 hidden")
        await pilot.press("slash", *"hidden = true")
        await until(pilot, lambda: text(app)[0].endswith("1 listed"))

    played(root, play)


def test_live_run_grows_on_the_screen(root: Path) -> None:
    """A step that is committed, a new run and a run that is gone are seen without a key."""
    path = root / "runs" / "llama-lr0-20261121-001" / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(END, b""))

    async def play(app: WatchApp, pilot: Pilot[Any]) -> None:
        await pilot.press("space")
        with path.open("ab") as stream:
            stream.write(step(777))
        await until(pilot, lambda: any("777" in line and "lr0" in line for line in text(app)))
        write_run(root / "runs" / "second", START, step(1), END)
        await until(pilot, lambda: any("second" in line for line in text(app)))
        os.rename(root / "runs" / "second", root / "away")
        await until(pilot, lambda: not any("second" in line for line in text(app)))

    played(root, play)


def test_hostile_run_is_inert(tmp_path: Path) -> None:
    """Neither a name nor a metric reaches the terminal with an escape sequence, markup or another line."""
    start = json.dumps(
        {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "name": HOSTILE[:-1], "group": HOSTILE[:-1]}
    )
    values = json.dumps({"kind": "scalars", "t": 1.0, "step": 1, "values": {f"loss{HOSTILE[:-1]}": 1.0}})
    write_run(tmp_path / "runs" / "a", f"{start}\n{values}\n".encode(), END)

    async def play(app: WatchApp, pilot: Pilot[Any]) -> None:
        shown = "\n".join(text(app))
        assert not any(letter in shown for letter in "\x1b\x07\u202e")
        assert "\\x1b]0;x" in shown

    played(tmp_path, play)


def test_many_runs_cost_only_what_is_in_sight(tmp_path: Path) -> None:
    """Of 300 runs those in sight are shown, and the end is one key away."""
    for number in range(300):
        write_run(tmp_path / "runs" / f"run-{number:03d}", START, step(1, float(number)), END)

    async def play(app: WatchApp, pilot: Pilot[Any]) -> None:
        await pilot.press("end")
        await until(pilot, lambda: any("run-299" in line for line in text(app)))
        assert not any("run-100" in line for line in text(app))

    played(tmp_path, play)


def test_without_a_terminal_another_command_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe gets an error, not escape sequences."""
    assert exit_codes.USAGE == main(["watch", str(root)])
    assert "watch needs a terminal; `toyspec ls`" in capsys.readouterr().err


@pytest.mark.posix
@pytest.mark.parametrize(("end", "code"), [("q", 0), ("ctrl-c", 130), ("SIGTERM", 143), ("error", 1)])
def test_terminal_is_left_as_it_was(end: str, code: int, root: Path) -> None:
    """Whatever ends it, the screen, the cursor and the modes of the terminal are those of before."""
    import pty
    import termios

    try:
        parent, child = pty.openpty()
    except OSError:
        pytest.skip("no pseudo-terminals here, as in a bare root directory without /dev/pts")
    termios.tcsetwinsize(child, (24, 80))
    before = termios.tcgetattr(child)
    env = environment({"TERM": "xterm-256color", "TOYSPEC_CACHE": str(root / "cache")})
    program = command("watch", str(root / "runs"))
    if end == "error":
        broken = "from toyspec.view import screen; screen.WatchApp.action_log = lambda self: 1 / 0;"
        program = [sys.executable, "-c", broken + str(command()[2]), "watch", str(root / "runs")]
    process = subprocess.Popen(program, stdin=child, stdout=child, stderr=child, env=env, start_new_session=True)
    try:
        written = read_until(parent, b"llama-lr0")
        if end == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(parent, {"q": b"q", "ctrl-c": b"\x03", "error": b"l"}[end])
        written += read_until(parent, b"\x1b[?1049l")
        assert code == process.wait(300)
        assert before == termios.tcgetattr(child)
        assert written.rindex(b"\x1b[?25h") > written.rindex(b"\x1b[?25l")
        assert written.rindex(b"\x1b[?1000l") > written.rindex(b"\x1b[?1000h")
    finally:
        process.kill()
        process.wait()
        os.close(parent)
        os.close(child)


def read_until(terminal: int, mark: bytes) -> bytes:
    """Return what a terminal shows until *mark*, and what is there just after it."""
    import select

    found, end = b"", time.monotonic() + 300
    while mark not in found and time.monotonic() < end:
        if select.select([terminal], [], [], 0.5)[0]:
            found += os.read(terminal, 1 << 16)
    while select.select([terminal], [], [], 0.3)[0]:
        found += os.read(terminal, 1 << 16)
    assert mark in found, found[-2000:]
    return found
