"""What the commands that change the files of runs, ``repair``, ``seal`` and ``annotate``, have in common."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted, shown
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.errors import StreamError, StreamRefusedError
from toyspec.core.findings import PathError
from toyspec.core.generated import messages
from toyspec.core.runs.discovery import NoStream, NotALog
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from toyspec.core.runs.discovery import Found, Stream


Outcome = TypeVar("Outcome", bound=str)


def change_each(  # noqa: PLR0913 - what the three commands differ in
    command: str,
    streams: Iterable[Found],
    change: Callable[[Stream], Outcome],
    *,
    noun: str,
    titles: Mapping[Outcome, str],
    least: int = 2,
) -> int:
    """Let *change* work on each of *streams*, and report why where it cannot; return an exit code.

    An outcome is what *change* returns, ``refused`` where a stream must not be changed, and ``failed`` where it cannot
    be read or written. Of *least* streams or more, the number of each outcome is printed by its title.
    """
    counts = Counter[str]()
    for found in streams:
        outcome: str = "failed"
        path, fact = found.path, ""
        try:
            if isinstance(found, PathError):
                fact = found.message
            elif isinstance(found, NoStream | NotALog):
                fact = messages.NO_STREAM
            else:
                outcome = change(found)
        except StreamRefusedError as error:
            outcome, path, fact = "refused", os.fsdecode(error.filename or path), cause_of(error)
        except StreamError as error:
            fact = error.fact
        except OSError as error:
            path, fact = os.fsdecode(error.filename or path), cause_of(error)
        counts[outcome] += 1
        if fact:
            sys.stdout.flush()
            tell(command, f"{shown(path)}: {fact}")
    if counts.total() >= least:
        named = [f"{counts[outcome]} {title}" for outcome, title in titles.items() if counts[outcome]]
        text = ", ".join(named) if counts.total() > 1 else "".join(named).removeprefix("1 ")
        Terminal(color="never").line(f"{counted(counts.total(), noun)}: {text}")
    if counts["failed"]:
        return exit_codes.USAGE
    return exit_codes.FINDINGS if counts["refused"] or counts["torn"] else exit_codes.OK
