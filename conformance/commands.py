"""Runs commands that build and test, with their output in one piece."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType


def captured(
    words: Sequence[str], folder: str, seconds: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in *folder* without input; its standard error is in its output. Raise OSError or TimeoutExpired.

    The command has a process group of its own. A time-out or an interruption kills the whole group: a test program
    that loops would otherwise outlive the cargo that started it.
    """
    interruptions = _Interruptions()
    try:
        started = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        interruptions.release()
        raise
    with started as process:
        try:
            interruptions.release()
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            kill_group(process)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output)


class _Interruptions:
    """Delays SIGINT and SIGTERM until ``release``: one that came while a process begins would leave it to run."""

    def __init__(self) -> None:
        self._came: list[int] = []
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        self._handlers = {number: signal.signal(number, self._take) for number in numbers}

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)

    def release(self) -> None:
        """Let signals be handled again, those that came too."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for came in self._came:
            signal.raise_signal(came)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill *process*, which leads a process group, and every process of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Windows has no process groups; child processes stay.
        kill = getattr(os, "killpg", None)
        if kill is None:
            process.kill()
        else:
            kill(process.pid, signal.SIGKILL)
