"""The processes of the chaos: started, killed and started again; what they say on standard error is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

_CRASH = (b"Traceback (most recent call last)", b"panicked at", b"Fatal Python error", b"Segmentation fault")
COMMAND = [sys.executable, "-m", "toyspec"]


class Player:
    """One place among the processes, in which one process runs at a time."""

    def __init__(self, name: str, command: Callable[[], list[str]], log: Path, *, returns: Collection[int]) -> None:
        """Let it end by itself only with one of the statuses *returns*; without any, it must go on."""
        self.name, self.log = name, log
        self.starts = self.kills = 0
        self.most_bytes = 0
        """The most memory that was seen."""
        self._command, self._returns = command, returns
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    @property
    def process_id(self) -> int:
        """The id of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether a process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the next process."""
        self._is_killed = False
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal that ends the process, if one runs, and wait for it."""
        if self._process is not None and self.is_running:
            self._is_killed = True
            self.kills += 1
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
                return
            self._process.kill()
            self._process.wait()

    def interrupt(self, seconds: float = 60.0) -> int | None:
        """Ask the process to end, as Ctrl-C does; return its status, None if it had to be killed.

        A process that has just been started is waited for: one that does not catch signals so far ends by the signal.
        """
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while self.is_running and not _catches(self._process.pid, signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._is_killed = True
        self._process.send_signal(signal.SIGINT)
        return self.wait(seconds)

    def wait(self, seconds: float) -> int | None:
        """Return the status of the process, None if it does not end in time and was killed."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        self._process.kill()
        self._process.wait()
        return None

    def end_group(self) -> None:
        """End all that the last process has left behind."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wrong_end(self) -> str:
        """Return what is wrong with how the process has ended by itself; empty if nothing is."""
        if self._process is None or self.is_running or self._is_killed or self._process.returncode in self._returns:
            return ""
        return f"{self.name} ended by itself with status {self._process.returncode}: {self.last_words()}"

    def crash(self) -> str:
        """Return what looks like a crash in what it has said; empty if nothing does."""
        data = self.log.read_bytes() if self.log.exists() else b""
        for mark in _CRASH:
            at = data.find(mark)
            if at >= 0:
                return f"{self.name}: {data[at : at + 1500].decode(errors='replace')}"
        return ""

    def last_words(self) -> str:
        """Return the end of what it has said."""
        data = self.log.read_bytes() if self.log.exists() else b""
        return data[-600:].decode(errors="replace")

    def measure(self) -> None:
        """Look at how much memory it takes."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{self.process_id}/statm").read_text(encoding="ascii").split()[1])
            self.most_bytes = max(self.most_bytes, pages * os.sysconf("SC_PAGE_SIZE"))


def _catches(process_id: int, number: signal.Signals) -> bool:
    """Return whether a process has a handler for a signal."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process_id}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def stopped(process_id: int, seconds: float = 10.0) -> bool:
    """Stop a process and return whether it has stopped; it goes on with SIGCONT."""
    os.kill(process_id, signal.SIGSTOP)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, IndexError):
            state = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
            if state in "TZ":
                return state == "T"
        time.sleep(0.005)
    return False


def left_alone(mark: str, seconds: float) -> list[str]:
    """Return the command lines of the processes with *mark* in their environment that go on, and end them.

    They are what ended processes have started, such as the one that sends a run; they have *seconds* to end.
    """
    deadline = time.monotonic() + seconds
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for process_id in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    return [*found.values()]


def _marked(mark: str) -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes()
            # One that has ended, and is not waited for, has no words.
            if words and int(path.name) != os.getpid() and mark.encode() in (path / "environ").read_bytes():
                found[int(path.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
    return found
