"""Runs commands that build and test, with their output in one piece."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
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
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            kill_group(process)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill *process*, which leads a process group, and every process of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Windows has no process groups; child processes stay.
        kill = getattr(os, "killpg", None)
        if kill is None:
            process.kill()
        else:
            kill(process.pid, signal.SIGKILL)


def clean_up_when_terminated() -> None:
    """Let SIGTERM unwind this program as an interruption does, so that what it started ends with it."""
    signal.signal(signal.SIGTERM, _unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
