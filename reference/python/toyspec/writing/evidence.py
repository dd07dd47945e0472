"""Collects what says how a run came about, while the training begins: the state of the repository, changes, output.

What takes long runs in a thread: ``start_run`` waits for it a few milliseconds only. What is known later lies in the
bundle: ``environment.json`` has the state of the repository, ``changes.diff`` the uncommitted changes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.format.redaction import text_without_secrets
from toyspec.system_calls import cause_of, say
from toyspec.writing.environment import git_head, git_revision, uncommitted_changes
from toyspec.writing.system_metrics import SystemMetrics

if TYPE_CHECKING:
    from typing import TextIO

    from toyspec.generated.toy_v1 import Git
    from toyspec.writing.run_writer import RunWriter

_PATIENCE: Final = 0.005
"""Seconds that the start of a run waits for git."""
_MOST_SECONDS_AT_END: Final = 2.0
_MOST_DIFF_BYTES: Final = 1 << 20
ENVIRONMENT_FILE: Final = "environment.json"
DIFF_FILE: Final = "changes.diff"
FILE = "console.log"


class ConsoleLog:
    """Adds what is printed by Python to ``console.log`` in *directory* until ``stop``."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, FILE)
        self._pid = os.getpid()
        self._file: TextIO | None = None
        self._streams: dict[str, _Both] = {}
        try:
            self._file = open(self._path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - until stop
        except OSError as error:
            say(f"{self._path}: {cause_of(error)}; what the program prints is not kept")
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None:
                self._streams[name] = _Both(stream, self)
                setattr(sys, name, self._streams[name])

    def add(self, text: str) -> None:
        """Add *text*; what a forked child prints is left to its parent's terminal."""
        if self._file is not None and os.getpid() == self._pid:
            try:
                self._file.write(text)
                self._file.flush()
            except (OSError, ValueError):
                self._file = None

    def stop(self) -> str | None:
        """Keep nothing more; return the name of the file, None without one."""
        for name, both in self._streams.items():
            if getattr(sys, name) is both:
                setattr(sys, name, both.stream)
        self._streams.clear()
        file, self._file = self._file, None
        if file is None:
            return None
        with contextlib.suppress(OSError):
            file.close()
        return FILE


class _Both:
    """A stream whose text is also kept."""

    def __init__(self, stream: Any, log: ConsoleLog) -> None:
        self.stream = stream
        self._log = log

    def write(self, text: str) -> int:
        """Write *text* to the stream, and keep it."""
        written: int = self.stream.write(text)
        self._log.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        """Write every one of *lines*."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class GitQuestion:
    """Asks git for the state of the repository, in a thread."""

    def __init__(self) -> None:
        self._found: Git | None = None
        self._thread = threading.Thread(target=self._ask, name="toyspec-git", daemon=True)
        self._head = git_head()
        if self._head is not None:
            self._thread.start()

    def answer(self) -> Git | None:
        """Return what is known after a few milliseconds: all, or the commit and its branch."""
        if self._head is None:
            return None
        self._thread.join(_PATIENCE)
        return self._head if self._thread.is_alive() else self._found

    def late_answer(self) -> Git | None:
        """Wait for git; return its answer if ``answer`` did not have it."""
        if self._head is None:
            return None
        was_late = self._thread.is_alive()
        self._thread.join(_MOST_SECONDS_AT_END)
        return self._found if was_late and not self._thread.is_alive() else None

    def _ask(self) -> None:
        self._found = git_revision()


class Evidence:
    """What goes along with one run in this process, until ``finish``."""

    def __init__(
        self, run: RunWriter, git: GitQuestion | None, *, system_seconds: float = 0.0, console: bool, diff: bool
    ) -> None:
        self._run = run
        self._git = git
        self._wants_diff = diff
        self._console = ConsoleLog(run.directory) if console else None
        self._system = SystemMetrics(run, system_seconds, first="at-once") if system_seconds > 0 else None
        self._thread = threading.Thread(target=self._collect, name="toyspec-evidence", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Stop collecting, and name the files; wait for a bounded time."""
        if self._system is not None:
            self._system.stop()
        self._thread.join(_MOST_SECONDS_AT_END)
        kept = None if self._console is None else self._console.stop()
        if kept is not None:
            self._run.artifact(kept, role="console", media_type="text/plain")

    def _collect(self) -> None:
        late = None if self._git is None else self._git.late_answer()
        if late is not None:
            self._write(ENVIRONMENT_FILE, msgspec.json.encode({"git": late}))
        changes = uncommitted_changes(_MOST_DIFF_BYTES) if self._wants_diff else None
        if changes:
            self._write(DIFF_FILE, text_without_secrets(changes).encode())
            self._run.artifact(DIFF_FILE, role="diff", media_type="text/x-diff")

    def _write(self, name: str, data: bytes) -> None:
        path = os.path.join(self._run.directory, name)
        try:
            with open(path, "wb") as file:
                file.write(data)
        except OSError as error:
            say(f"{path}: {cause_of(error)}; it is not kept")
