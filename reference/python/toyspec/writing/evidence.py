"""Collects what says how a run came about, while the training begins: the state of the repository, changes, output.

What takes long runs in a thread: ``start_run`` waits for it a few milliseconds only. What is known later lies in the
bundle: ``environment.json`` has the state of the repository, ``changes.diff`` the uncommitted changes.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from toyspec.format.redaction import text_without_secrets
from toyspec.system_calls import cause_of, say
from toyspec.writing.console import ConsoleLog
from toyspec.writing.environment import git_head, git_revision, uncommitted_changes
from toyspec.writing.system_metrics import SystemMetrics

if TYPE_CHECKING:
    from toyspec.generated.toy_v1 import Git
    from toyspec.writing.run_writer import RunWriter

_PATIENCE: Final = 0.005
"""Seconds that the start of a run waits for git."""
_MOST_SECONDS_AT_END: Final = 2.0
_MOST_DIFF_BYTES: Final = 1 << 20
ENVIRONMENT_FILE: Final = "environment.json"
DIFF_FILE: Final = "changes.diff"


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
