"""Runs what goes along with a run in a process of its own: it takes no time of the training, and outlives its death."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from toyspec.system_calls import say


class CompanionProcess:
    """A process that goes along with one run. Its standard input ends when the run does, or this process is gone."""

    def __init__(self, module: str, order: bytes, *, wait_seconds: float, late: str) -> None:
        """Start *module* and give it the line *order*; raise OSError where that fails.

        *late* is said where the process is not done within *wait_seconds* after the end of the run.
        """
        self._wait_seconds = wait_seconds
        self._late = late
        self._owner = os.getpid()
        # In a session of its own, Ctrl-C reaches the training alone, whose end the companion still sends.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(order + b"\n")
            self._process.stdin.flush()

    @property
    def process_id(self) -> int:
        """Number of the process."""
        return self._process.pid

    def finish(self) -> None:
        """Say that nothing more is written, and wait for a bounded time; then the process goes on by itself."""
        if os.getpid() != self._owner or self._process.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(self._wait_seconds)
        except subprocess.TimeoutExpired:
            say(f"{self._late}, by process {self._process.pid}")
            # Without a parent it is not a zombie, and must not be reported as a child that was left.
            self._process.returncode = 0
