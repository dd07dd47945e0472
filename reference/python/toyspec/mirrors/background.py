"""Runs a mirror in a process of its own, so that it never takes time of the training, and outlives its death."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec

from toyspec.mirrors.settings import Mirror
from toyspec.system_calls import say

if TYPE_CHECKING:
    from toyspec.mirrors.mirroring import Outcome

WAIT_SECONDS = 10.0
"""How long the end of a run waits for its mirrors; then they go on by themselves."""


class Order(msgspec.Struct, frozen=True):
    """What the process is to do."""

    stream: str
    mirror: Mirror


class BackgroundMirror:
    """The process that mirrors one run. It ends when the run has ended and was sent, or when this process is gone."""

    def __init__(self, stream: str | os.PathLike[str], mirror: Mirror) -> None:
        """Start the process; raise OSError where that fails."""
        self._mirror = mirror
        self._owner = os.getpid()
        # In a session of its own, Ctrl-C reaches the training alone, whose end the mirror still sends.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "toyspec.mirrors"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        order = Order(os.path.abspath(stream), mirror)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()

    @property
    def process_id(self) -> int:
        """Number of the process."""
        return self._process.pid

    def finish(self) -> None:
        """Say that nothing more is written, and wait for ten seconds at most; then the process goes on by itself."""
        if os.getpid() != self._owner or self._process.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{self._mirror.to}: the rest of the run is still being sent, by process {self._process.pid}")
            # Without a parent it is not a zombie, and must not be reported as a child that was left.
            self._process.returncode = 0


def describe(outcome: Outcome, order: Order) -> str | None:
    """Return what a person has to know of *outcome*; None where all is well."""
    if outcome == "abandoned":
        run, to = os.path.dirname(order.stream), order.mirror.to
        return f"{to} does not answer; `toyspec mirror --backfill {run} --to {to}` sends what is missing"
    return None
