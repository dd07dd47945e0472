"""The engines of the checker behind one seam: the compiled one where it is installed, else plain Python."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from toyspec.core.engine import native
from toyspec.core.format.profiles import detect_profile
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.profile_detection import detect_profile_at
from toyspec.core.runs.walking import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.checker.options import CheckOptions
    from toyspec.core.findings import FileReport, Finding, Profile

Walk = Literal["all", "runs"]
"""Whether all files are reported, or only runs: files of other formats below a directory are skipped."""


class Checker(Protocol):
    """Checks one stream as it is fed, and the files beside it."""

    def feed(self, data: bytes, /) -> None:
        """Check the lines that *data* commits."""

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call; counts in their messages may still grow."""

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""

    def finish(self) -> FileReport:
        """Return the report on everything fed; call it once, last."""

    @property
    def fact(self) -> str | None:
        """What a stream without a profile looks like, once it is finished; None for all others."""


def open_checker(path: str, options: CheckOptions, head: bytes = b"", *, name: str | None = None) -> Checker:
    """Return a checker for the stream at *path*, which begins with *head*, and for the other files of its bundle.

    *name* is the name of its file if it has no path: then nothing is beside it.
    """
    choice = options.choice
    own = choice.profile_of(head, path)
    detect = _detection(path, name)
    log = choice.choose(head, detect, path=path) if own is None else None
    if log is not None:
        return log.checker(path, options)
    # Imported below: what one of them needs costs the others their start.
    # The engine reads the files beside a stream by itself, from a file system.
    engine = None if own is not None or is_address(path) else native()
    if engine is not None:
        from toyspec.core.checker.native_checker import NativeChecker

        return NativeChecker(engine, path, options, name=name)
    from toyspec.core.checker.stream_checker import PlainChecker

    return PlainChecker(path, options, detect=detect, name=name, own=own)


def _detection(path: str, name: str | None) -> Callable[..., Profile | None]:
    if name is not None or path == STANDARD_INPUT:
        return partial(detect_profile, file_name=name or "")
    return partial(detect_profile_at, path)
