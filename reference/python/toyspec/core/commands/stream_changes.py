"""What the commands that change the files of runs, ``repair``, ``seal`` and ``annotate``, have in common."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.errors import StreamError, StreamRefusedError
from toyspec.core.escaping import encodable
from toyspec.core.findings import PathError
from toyspec.core.generated import messages
from toyspec.core.runs.discovery import NoStream, NotALog
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.core.runs.discovery import Found, Stream

Form = Literal["text", "json"]
Outcome = TypeVar("Outcome", bound=str)


class StreamChanges:
    """What became of each stream: lines as it happens, or one object at the end."""

    def __init__(self, command: str, form: Form) -> None:
        """Report what *command* does."""
        self._command = command
        self._form = form
        self._terminal = Terminal(color="never")
        self._found: list[dict[str, Any]] = []

    def line(self, text: str) -> None:
        """Print *text*, unless an object is printed at the end."""
        if self._form == "text":
            self._terminal.line(text)

    def done(self, path: str, outcome: str, **facts: Any) -> None:
        """Take in that *path* had the *outcome*, with what is known about it."""
        known = {name: encodable(value) if isinstance(value, str) else value for name, value in facts.items()}
        self._found.append({"path": encodable(path), "outcome": outcome, **known, "message": None})

    def failed(self, path: str, fact: str) -> None:
        """Report why *path* could not be read or written."""
        self._report(path, "failed", fact)

    def refused(self, path: str, fact: str) -> None:
        """Report why *path* must not be changed."""
        self._report(path, "refused", fact)

    def _report(self, path: str, outcome: str, fact: str) -> None:
        sys.stdout.flush()
        tell(self._command, f"{shown(path)}: {fact}")
        self._found.append({"path": encodable(path), "outcome": outcome, "message": fact})

    def take(self, found: Found, change: Callable[[Stream], None]) -> None:
        """Let *change* work on the stream that was *found*, and report why where it cannot."""
        if isinstance(found, PathError):
            return self.failed(found.path, found.message)
        if isinstance(found, NoStream | NotALog):
            return self.failed(found.path, messages.NO_STREAM)
        try:
            change(found)
        except StreamRefusedError as error:
            self.refused(found.path, cause_of(error))
        except StreamError as error:
            self.failed(found.path, error.fact)
        except OSError as error:
            self.failed(os.fsdecode(error.filename) if error.filename else found.path, cause_of(error))
        return None

    def count(self, outcome: str) -> int:
        """Return the number of streams with this *outcome*."""
        return sum(each["outcome"] == outcome for each in self._found)

    def finish(self, noun: str, titles: Mapping[Outcome, str], *, least: int) -> int:
        """Print the object, or the tally where there are *least* streams or more; return an exit code."""
        if self._form == "json":
            sys.stdout.write(inert_json({"command": self._command, "streams": self._found}) + "\n")
        elif len(self._found) >= least:
            self._terminal.line(f"{counted(len(self._found), noun)}: {self._tally(titles)}")
        if self.count("failed"):
            return exit_codes.USAGE
        return exit_codes.FINDINGS if self.count("refused") else exit_codes.OK

    def _tally(self, titles: Mapping[Outcome, str]) -> str:
        counts = {title: self.count(outcome) for outcome, title in titles.items()}
        if len(self._found) == 1:
            return next(title for title, count in counts.items() if count)
        return ", ".join(f"{count} {title}" for title, count in counts.items() if count)
