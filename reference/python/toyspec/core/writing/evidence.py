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

from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.system_calls import NO_LINK, cause_of, say
from toyspec.core.writing.companions import Companionship
from toyspec.core.writing.environment import git_head, git_revision, uncommitted_changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from toyspec.core.generated.toy_v1 import Git
    from toyspec.core.writing.run_writer import RunWriter

_PATIENCE: Final = 0.005
"""Seconds that the start of a run waits for git."""
_MOST_SECONDS_AT_END: Final = 2.0
_MOST_DIFF_BYTES: Final = 1 << 20
ENVIRONMENT_FILE: Final = "environment.json"
DIFF_FILE: Final = "changes.diff"
FILE = "console.log"


class Console(msgspec.Struct, frozen=True):
    """What the program prints, in ``console.log`` beside the log."""

    def started(self, run: RunWriter) -> ConsoleLog:
        """Return what keeps it for *run*."""
        return ConsoleLog(run)


class ConsoleLog(Companionship):
    """Adds what is printed by Python to ``console.log`` of *run* until its end."""

    def __init__(self, run: RunWriter) -> None:
        self._run = run
        self._path = os.path.join(run.directory, FILE)
        self._pid = os.getpid()
        self._file: TextIO | None = None
        self._streams: dict[str, _Both] = {}
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK, 0o666)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
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

    def ending(self) -> None:
        """Keep nothing more, and name the file in the log, if there is one."""
        for name, both in self._streams.items():
            if getattr(sys, name) is both:
                setattr(sys, name, both.stream)
        self._streams.clear()
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            self._run.artifact(FILE, role="console", media_type="text/plain")


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
    """Asks git for the state of the repository, in a thread; what is known late is in ``environment.json``."""

    def __init__(self) -> None:
        self._found: Git | None = None
        self._is_late = False
        self._thread = threading.Thread(target=self._ask, name="toyspec-git", daemon=True)
        self._head = git_head()
        if self._head is not None:
            self._thread.start()

    def answer(self) -> Git | None:
        """Return what is known after a few milliseconds: all, or the commit and its branch."""
        if self._head is None:
            return None
        self._thread.join(_PATIENCE)
        self._is_late = self._thread.is_alive()
        return self._head if self._is_late else self._found

    def started(self, run: RunWriter) -> Companionship:
        """Return what waits for git, if ``answer`` did not have all of it."""
        return Collecting(lambda: self._keep(run)) if self._is_late else Companionship()

    def _keep(self, run: RunWriter) -> None:
        self._is_late = False
        self._thread.join(_MOST_SECONDS_AT_END)
        if not self._thread.is_alive():
            _write(run, ENVIRONMENT_FILE, msgspec.json.encode({"git": self._found}))

    def _ask(self) -> None:
        self._found = git_revision()


class Diff(msgspec.Struct, frozen=True):
    """The uncommitted changes of the repository, in ``changes.diff`` beside the log."""

    def started(self, run: RunWriter) -> Collecting:
        """Return what keeps them for *run*."""
        return Collecting(lambda: _keep_changes(run))


class Collecting(Companionship):
    """What is collected in a thread while the training begins; its end waits for a bounded time."""

    def __init__(self, collect: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=collect, name="toyspec-evidence", daemon=True)
        self._thread.start()

    def ending(self) -> None:
        """Wait for it."""
        self._thread.join(_MOST_SECONDS_AT_END)


def _keep_changes(run: RunWriter) -> None:
    changes = uncommitted_changes(_MOST_DIFF_BYTES)
    if changes and _write(run, DIFF_FILE, text_without_secrets(changes).encode()):
        run.artifact(DIFF_FILE, role="diff", media_type="text/x-diff")


def _write(run: RunWriter, name: str, data: bytes) -> bool:
    """Write the file *name* beside the log; return whether that has changed it."""
    path = os.path.join(run.directory, name)
    try:
        with open(path, "a+b") as file:
            file.seek(0)
            if file.read() == data:
                return False
            file.truncate(0)
            file.write(data)
    except OSError as error:
        say(f"{path}: {cause_of(error)}; it is not kept")
        return False
    return True
