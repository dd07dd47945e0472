"""The checker in plain Python behind the seam of the engines: a stream, and the files beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.checker.sidecars import SidecarText, read_sidecars
from toyspec.checker.stream_checker import StreamChecker
from toyspec.format.profiles import EVENTS_FILE, stream_name
from toyspec.format.run_files import rank_of
from toyspec.generated.looks import HEAD_BYTES
from toyspec.places.addresses import is_address
from toyspec.runs.walking import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.checker.options import CheckOptions
    from toyspec.findings import FileReport, Profile


class PlainChecker(StreamChecker):
    """Checks the stream at a path, or a stream without one."""

    def __init__(
        self, path: str, options: CheckOptions, *, detect: Callable[..., Profile | None], name: str | None = None
    ) -> None:
        """Check the stream at *path*; *name* is the name of its file if it has no path, then nothing is beside it."""
        self._place: str | None = None
        self._sidecars: list[SidecarText] = []
        directory = None
        has_path = name is None and path != STANDARD_INPUT
        if has_path and stream_name(os.path.basename(path)) == EVENTS_FILE:
            self._place = os.path.dirname(path if is_address(path) else os.path.abspath(path))
            directory = os.path.basename(self._place)
        super().__init__(path, options=options, detect=detect, directory=directory)
        rank = rank_of(os.path.basename(path)) if has_path and not is_address(path) else None
        if rank is not None:
            self._in_bundle(os.path.dirname(os.path.abspath(path)), rank)
        self.read_bundle_again()

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""
        if self._place is not None:
            self._sidecars = read_sidecars(self._place, self._options.max_line_bytes)

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""
        return self.is_foreign and self.size > HEAD_BYTES

    @property
    def fact(self) -> str | None:
        """What a stream without a profile looks like, once it is finished; None for all others."""
        return None if self.look is None else self.look.fact

    def finish(self, sidecars: Sequence[SidecarText] | None = None) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        return super().finish(self._sidecars if sidecars is None else sidecars)
