"""What goes along with a run while it is written, in processes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toyspec.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Iterable


class Begun(Protocol):
    """A companion of one run."""

    def finish(self) -> None:
        """Take that nothing more is written; wait for a bounded time at most."""


class Companion(Protocol):
    """Something that follows the stream of a run, for example a mirror."""

    def begin(self, stream: str, /) -> Begun:
        """Follow the file *stream*, which may be empty still."""


def begin_all(companions: Iterable[Companion], stream: str) -> list[Begun]:
    """Begin every one of *companions*; a failure of the system is reported on standard error."""
    begun = []
    for companion in companions:
        try:
            begun.append(companion.begin(stream))
        except OSError as error:
            say(f"{stream}: {companion} could not be started ({cause_of(error)}); the program continues")
    return begun
