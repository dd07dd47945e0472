"""Runs whose files are special, and every command that is asked of them, each in a process of its own."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from command_matrix import SUBJECTS
from toyspec.core.command_line.commands import COMMANDS, load
from toyspec.core.command_line.main import main

SPECIAL: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "directory": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
}
"""What may be in place of a file, by what puts it there."""
STREAM = b'{"kind":"run_start","t":0.0,"run_id":"a","schema":"toy/v1"}\n{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
OTHERS = {
    "mirror": "{} --to tensorboard --into out --once", "view": None, "watch": None, "mcp": None, "train": None,
    "guard": "{} --idle-timeout 0.1", "capture": None, "push": None, "pull": None, "sync": "{} copy",
    "site": "{} --out site", "emit": "{} note hello", "emitter": None, "skill": None, "conform": None,
    "completion": None, "schema": None, "explain": None, "query": "--catalog {} 'select 1'", "import": "{} --out in",
    "export": "csv {} --out out", "catalog": "build --out made {}", "tail": "--once {}", "plot": "{} --json",
    "evidence": "{} --json", "dialect": "new --dry-run {}", "repair": "--dry-run {}", "compare": "{} {}",
}  # fmt: skip
"""Arguments of commands that need more than a place; None for what reads no folder, or serves."""


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)
        made.bind(path.name)
        os.chdir(before)


SPECIAL["socket"] = _socket


def lines(place: str) -> list[list[str]]:
    """Return a line of each command that is asked of *place*; a new command has one without being listed.

    The commands are imported here, once for all the processes.
    """
    found = []
    for name in COMMANDS:
        load(name)
        arguments = OTHERS.get(name, "{}")
        if arguments is not None:
            found.append([name, *(word.strip("'").replace("{}", place) for word in arguments.split(" "))])
    assert {each[0] for each in found} >= set(SUBJECTS) - {"explain"}
    return found


def ended(act: Callable[[], int], seconds: float = 20.0) -> str:
    """Return how *act* ended in a process of its own: "0", its status, its traceback, or "hangs"."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 70
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1):
                os.dup2(nothing, number)
            os.setsid()
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = sys.stdout
            status = act()
        except BaseException:  # noqa: BLE001 - reported
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writer)
    try:
        limit = time.monotonic() + seconds
        if not select.select([reader], [], [], max(0.0, limit - time.monotonic()))[0]:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs"
        said = os.read(reader, 1 << 16).decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return said or str(status)
    finally:
        os.close(reader)


def run(words: list[str]) -> str:
    """Return how the command line *words* ended."""
    return ended(lambda: main(words))
