"""The scalars of a kaun/v1 run: read as they are appended, call by call, and kept by their tags.

They are read as their source reads them: strict about what it needs, lenient about the rest.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import StreamError
from toyspec.core.findings import Gap
from toyspec.core.format.decoding import typed
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.generated.kaun_v1 import Scalar
from toyspec.core.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.core.generated.runs import KAUN_SMALLER_IS_BETTER
from toyspec.core.reading.live_stream import LiveStream
from toyspec.core.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def scalar_of(line: bytes, value: Mapping[str, Any]) -> Scalar:
    """Return the scalar in a readable *line*, whose object is *value*; raise ValueError if it is not one.

    An invalid optional member counts as absent, ``wall_time`` as 0; a step or epoch with a fraction is cut.
    """
    try:
        scalar: Scalar = typed(line, "scalar", "kaun/v1")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        scalar = _lenient(value)
    scalar.wall_time = scalar.wall_time or 0.0
    return scalar


def lateness(step: int, epoch: object) -> tuple[int, int]:
    """Return what orders the scalars of a tag: the latest has the largest, and of equal ones it is the first.

    A scalar without a valid *epoch* is before all that have one.
    """
    count = cut_count(epoch)
    return step, -1 if count is None else count


def is_smaller_better(tag: str, minimize: bool | None) -> bool:
    """Return whether smaller values of *tag* are better, *minimize* being what its scalars say last, if anything."""
    if minimize is not None:
        return minimize
    # In any case of the ASCII letters, and of no others.
    lowered = tag.encode("utf-8", "replace").lower().decode("utf-8", "replace")
    return any(word in lowered for word in KAUN_SMALLER_IS_BETTER)


def _lenient(value: Mapping[str, Any]) -> Scalar:
    step, tag, number = cut_count(value.get("step")), value.get("tag"), value.get("value", "")
    if step is None:
        raise ValueError("step must be an integer ≥ 0")
    if not isinstance(tag, str):
        raise ValueError("tag must be a string")  # noqa: TRY004 - one error for what is not a scalar
    if number is not None and not _is_number(number):
        raise ValueError("value must be a number or null")
    wall_time, minimize, epoch = value.get("wall_time"), value.get("minimize"), cut_count(value.get("epoch"))
    return Scalar(
        step=step,
        tag=tag,
        value=math.nan if number is None else float(number),
        wall_time=float(wall_time) if wall_time is not None and _is_number(wall_time) else None,
        minimize=minimize if isinstance(minimize, bool) else None,
        epoch=epoch,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class ScalarStore:
    """What is known of each tag. Memory grows with the number of scalars, all of which are kept."""

    def __init__(self, scalars: Iterable[Scalar] = ()) -> None:
        self.clear()
        self.update(scalars)

    @property
    def tags(self) -> list[str]:
        """Every tag, in the order of first appearance."""
        return list(self._history)

    @property
    def latest_epoch(self) -> int | None:
        """The largest epoch of all scalars; None where none has one."""
        return self._epoch

    @property
    def latest_metrics(self) -> dict[str, Scalar]:
        """For each tag, sorted, the scalar of the largest step, of those of the largest epoch, of those the first.

        A scalar without an epoch counts as before every epoch.
        """
        return {tag: self._latest[tag] for tag in sorted(self._latest)}

    @property
    def best_metrics(self) -> dict[str, Scalar]:
        """For each tag that has one, sorted, what ``best_for_tag`` returns."""
        found = {tag: self.best_for_tag(tag) for tag in sorted(self._history)}
        return {tag: scalar for tag, scalar in found.items() if scalar is not None}

    def update(self, scalars: Iterable[Scalar]) -> None:
        """Take in *scalars*, in the order of the stream."""
        for scalar in scalars:
            self._take(scalar)

    def history_for_tag(self, tag: str) -> list[Scalar]:
        """Return all scalars of *tag* in the order of the stream; none for a tag that is not known."""
        return list(self._history.get(tag, ()))

    def best_for_tag(self, tag: str) -> Scalar | None:
        """Return the scalar with the smallest value where smaller is better, else with the largest; None without one.

        Smaller is better if the last ``minimize`` of the tag is true or, without any, if the tag has ``loss``
        or ``error`` in it. What is not finite takes no part. Of equal ones, the first is the best.
        """
        smaller = is_smaller_better(tag, self._minimize.get(tag))
        return (self._smallest if smaller else self._largest).get(tag)

    def clear(self) -> None:
        """Forget all scalars."""
        self._history: dict[str, list[Scalar]] = {}
        self._latest: dict[str, Scalar] = {}
        self._smallest: dict[str, Scalar] = {}
        self._largest: dict[str, Scalar] = {}
        self._minimize: dict[str, bool] = {}
        self._epoch: int | None = None

    def _take(self, scalar: Scalar) -> None:
        tag = scalar.tag
        self._history.setdefault(tag, []).append(scalar)
        latest = self._latest.get(tag)
        if latest is None or lateness(scalar.step, scalar.epoch) > lateness(latest.step, latest.epoch):
            self._latest[tag] = scalar
        if scalar.epoch is not None:
            self._epoch = scalar.epoch if self._epoch is None else max(self._epoch, scalar.epoch)
        if scalar.minimize is not None:
            self._minimize[tag] = scalar.minimize
        if not math.isfinite(scalar.value):
            return
        smallest, largest = self._smallest.get(tag), self._largest.get(tag)
        if smallest is None or scalar.value < smallest.value:
            self._smallest[tag] = scalar
        if largest is None or scalar.value > largest.value:
            self._largest[tag] = scalar


_BLOCK_BYTES = 1 << 16
_KIND = "scalar"


class SkippedLine(msgspec.Struct, frozen=True):
    """A committed line that gave no scalar."""

    line: int
    """Line number, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0."""
    reason: str
    """The fact; log text in it is escaped and cut."""


class ScalarStream:
    """A position in the events of one run. It starts at the first byte.

    Lines of a kind other than scalar are passed over. A line that is unreadable, or of kind scalar but not a valid one,
    is passed over and listed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.last_mtime = 0.0
        """Time of the file's last change when it was read last, in seconds since the Unix epoch; 0 before."""
        self.skipped: list[SkippedLine] = []
        """The first 100 lines that the last reading passed over, in order."""
        self.skipped_lines = 0
        """Number of all lines passed over so far."""
        self._is_closed = False
        self._restart()

    def _restart(self) -> None:
        # A run is read once, too, and what is there then counts.
        path = self.path
        self._stream = LiveStream(lambda: path, chunk_bytes=_BLOCK_BYTES, nul="trust")
        self._feed = RecordFeed(profile="kaun/v1")

    def read(self) -> list[Scalar]:
        """Return the scalars that were committed since the last call.

        A file that was replaced or has become shorter is read from its start. When it is missing, return what was left
        of it and start over when it comes; when it cannot be read, return nothing.
        """
        self.skipped = []
        found: list[Scalar] = []
        with contextlib.suppress(OSError, StreamError, ValueError):
            self._reopen()
            for change in self._stream.poll():
                if isinstance(change, bytes):
                    found += filter(None, map(self._scalar, self._feed.feed(change)))
                elif change == "uncommitted-changed":
                    self._feed.drop_fragment()
                elif change == "gone":
                    self._restart()
                else:
                    self._feed = RecordFeed(profile="kaun/v1")
            if self._stream.file is not None:
                self.last_mtime = self._stream.status.st_mtime_ns / 1e9
        return found

    def close(self) -> None:
        """Close the file and keep the position: the next reading goes on from there."""
        self._is_closed = True
        self._stream.close()

    def _reopen(self) -> None:
        """Open the file again if it was closed; start over if another one is at the path."""
        file = self._stream.file
        if self._is_closed and file is not None:
            file.reopen()
            try:
                file.status()
            except OSError:
                self._restart()
        self._is_closed = False

    def _scalar(self, item: Record | Gap) -> Scalar | None:
        if isinstance(item, Gap):
            self._skip(item.line, item.offset, f"{item.reason}: {item.message}")
            return None
        if item.kind not in (None, _KIND):
            return None
        try:
            return scalar_of(item.raw, item.value)
        except ValueError as error:
            self._skip(item.line, item.offset, str(error))
            return None

    def _skip(self, line: int, offset: int, reason: str) -> None:
        self.skipped_lines += 1
        if len(self.skipped) < MAX_FINDINGS_PER_RULE:
            self.skipped.append(SkippedLine(line, offset, reason))


def open_events(directory: str | os.PathLike[str]) -> ScalarStream:
    """Return the events of the run in *directory*, from the first on; the file need not exist yet."""
    return ScalarStream(os.path.join(directory, EVENTS_FILE))


def read_events(stream: ScalarStream) -> list[Scalar]:
    """Return the scalars that were committed since the last call; see ``ScalarStream.read``."""
    return stream.read()


def close_events(stream: ScalarStream) -> None:
    """Close the file of *stream* and keep the position."""
    stream.close()
