"""What the commands that change streams, ``repair`` and ``seal``, have in common: one outcome for each stream."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, TypeVar

from toyspec.cli.paths import fact_of, shown
from toyspec.cli.terminal import without_ci_commands
from toyspec.errors import StreamError, StreamRefusedError
from toyspec.escaping import printable
from toyspec.findings import PathError
from toyspec.runs.walking import NoStream, NotALog
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toyspec.runs.walking import Found, Stream

Done = TypeVar("Done", bound=str)


def outcome_of(
    found: Found, change: Callable[[Stream], Done], *, command: str, missing: str
) -> Done | Literal["refused", "failed"]:
    """Return what *change* returns, or how it failed, which is printed; *missing* is for a path without a stream."""
    if isinstance(found, PathError):
        return failed(command, found.path, found.message)
    if isinstance(found, NoStream | NotALog):
        return failed(command, found.path, missing)
    try:
        return change(found)
    except StreamRefusedError as error:
        return refused(command, found.path, cause_of(error))
    except StreamError as error:
        return failed(command, found.path, fact_of(error))
    except OSError as error:
        return failed(command, os.fsdecode(error.filename) if error.filename else found.path, cause_of(error))


def failed(command: str, path: str, fact: str) -> Literal["failed"]:
    """Print why *command* did not change *path*, and return ``failed``."""
    sys.stdout.flush()
    sys.stderr.write(f"toyspec {command}: {without_ci_commands(f'{shown(path)}: {printable(fact)}')}\n")
    return "failed"


def refused(command: str, path: str, fact: str) -> Literal["refused"]:
    """Print why *path* must not be changed, and return ``refused``."""
    failed(command, path, fact)
    return "refused"


def tally(outcomes: Sequence[Done], titles: Mapping[Done, str]) -> str:
    """Return the number of each outcome, in the order of *titles*; only the title if there is one outcome."""
    if len(outcomes) == 1:
        return titles[outcomes[0]]
    return ", ".join(f"{outcomes.count(outcome)} {title}" for outcome, title in titles.items() if outcome in outcomes)
