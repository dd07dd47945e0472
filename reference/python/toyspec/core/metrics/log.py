"""Keeps a metrics/v1 log: one entry for each optimizer step, on disk and in memory.

::

    with MetricsLog.open("runs/a/metrics.jsonl") as log:
        log.record(step=1, wall_time_ms=12.5, loss=2.5, grad_norm=0.75, throughput_samples_per_sec=512)
        print(log.summary().loss_mean)

All numbers but ``wall_time_ms`` are binary32: they are rounded when they are recorded, and read back the same.
"""

from __future__ import annotations

import math
import operator
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

import msgspec

from toyspec.core.errors import StreamMissingError, StreamRefusedError, ToyspecError
from toyspec.core.findings import Gap
from toyspec.core.format.canonical import InvalidEventError, encode, members_of
from toyspec.core.format.decoding import typed
from toyspec.core.format.numbers import binary32
from toyspec.core.format.scalars import items
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.metrics_v1 import MetricsEntry
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.records import RecordFeed
from toyspec.core.reading.stream_files import open_stream
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import open_to_append

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_BLOCK_BYTES = 1 << 16
_DEFAULT = Options()
_BINARY32 = tuple(name for name, declared in FIELDS["metrics/v1"]["entry"].items() if declared == "binary32")


class MetricsLogError(ToyspecError, ValueError):
    """A committed line is damaged, or the log is not metrics/v1: ``metrics_log parse error at line N: <cause>``."""

    def __init__(self, path: str, line: int, cause: str) -> None:
        super().__init__(f"metrics_log parse error at line {line}: {cause}")
        self.path = path
        self.line = line
        """Line number, counted from 1; every line counts, blank ones too."""
        self.cause = cause


class MetricsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A log in numbers; all are 0 for an empty one."""

    total_steps: int = 0
    """Number of entries."""
    total_wall_time_ms: float = 0.0
    """``wall_time_ms`` of the last entry."""
    loss_min: float = 0.0
    """Smallest finite loss; NaN when none is."""
    loss_mean: float = 0.0
    """Mean of the finite losses, summed in binary64 and rounded to binary32; NaN when none is."""
    loss_max: float = 0.0
    """Largest finite loss; NaN when none is."""
    non_finite: int = 0
    """Number of entries whose loss is not finite."""


class MetricsLog:
    """The entries of one file, in its order. Iterate over it, or take its ``len``.

    The file is locked from the first ``record`` to ``close``; reading it needs no lock.
    """

    def __init__(self, path: str, *, options: Options) -> None:
        self.path = path
        self.torn_path: str | None = None
        """Path of the side file with the bytes that a dead writer left after the last entry; None without any."""
        self._options = options
        self._entries: list[MetricsEntry] = []
        self._committed = 0
        self._taken_in = 0
        self._invalid = 0
        self._has_fragment = False
        self._file: AppendFile | None = None
        self._opening = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, options: Options = _DEFAULT) -> MetricsLog:
        """Return the log in the file *path*, its entries read; missing parent directories are made.

        Records that are not valid entries stay in the file and are left out here, which is reported on standard error.
        Raises MetricsLogError at a damaged line, and for another format. Bytes after the last line are moved to a side
        file, which is reported on standard error, unless another writer has the file open. Raises OSError if the file
        cannot be read.
        """
        log = cls(os.fspath(path), options=options)
        os.makedirs(os.path.dirname(log.path) or ".", exist_ok=True)
        try:
            descriptor = open_stream(log.path)
        except StreamMissingError:
            return log
        try:
            log._load(lambda _: os.read(descriptor, _BLOCK_BYTES))
        finally:
            os.close(descriptor)
        if log._has_fragment:
            log._repair()
        return log

    def record(self, entry: MetricsEntry | None = None, **fields: Any) -> None:
        """Append an entry, given whole or by its fields: on disk first, then in memory.

        ``extra`` may be left out. Raise InvalidEventError, a ValueError, if it is not an entry, OSError if it
        cannot be written, StreamRefusedError when another writer has the file; the log is unchanged then.
        """
        if self._is_closed:
            raise ValueError(f"{self.path} was closed")
        if entry is not None and fields:
            raise TypeError("pass a whole entry or its fields, not both")
        line = _encoded(fields if entry is None else entry)
        recorded = _rounded(typed(line, None, "metrics/v1"))
        file = self._writable()
        file.in_turn(self._record, file, line, recorded)

    def _record(self, file: AppendFile, line: bytes, recorded: MetricsEntry) -> None:
        """Write *line*; *recorded* is in memory if it is in the file, also after an exception from a signal."""
        try:
            file.commit(line + b"\n")
        except BaseException:
            file.settle()
            raise
        finally:
            if file.appended > self._taken_in:
                self._entries.append(recorded)
                self._taken_in, self._committed = file.appended, file.committed

    def summary(self) -> MetricsSummary:
        """Return the log in numbers."""
        if not self._entries:
            return MetricsSummary()
        losses = [entry.loss for entry in self._entries if math.isfinite(entry.loss)]
        return MetricsSummary(
            total_steps=len(self._entries),
            total_wall_time_ms=self._entries[-1].wall_time_ms,
            loss_min=min(losses, default=math.nan),
            loss_mean=binary32(sum(losses) / len(losses)) if losses else math.nan,
            loss_max=max(losses, default=math.nan),
            non_finite=len(self._entries) - len(losses),
        )

    @property
    def is_empty(self) -> bool:
        """True when there is no entry."""
        return not self._entries

    def close(self) -> None:
        """Close the file; the entries stay. Raise OSError if the system could not store written bytes."""
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __repr__(self) -> str:
        return f"<MetricsLog {self.path!r} entries={len(self)}>"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[MetricsEntry]:
        return iter(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writable(self) -> AppendFile:
        if self._file is not None:
            return self._file
        with self._opening:
            if self._file is None:
                self._file = self._reopened()
            return self._file

    def _reopened(self) -> AppendFile:
        file = open_to_append(self.path, self._catch_up, options=self._options)
        self.torn_path = file.torn_path or self.torn_path
        return file

    def _repair(self) -> None:
        """Move away what is after the last entry, unless a live writer is just writing it."""
        try:
            self._reopened().close()
        except StreamRefusedError:
            # Another writer has it open; reading goes on.
            return
        except OSError as error:
            say(f"{self.path}: the bytes after the last entry could not be moved to a side file: {cause_of(error)}")

    def _catch_up(self, file: AppendFile) -> int:
        """Read what others have written since, now under the lock; return the end of the last entry."""
        if file.size != self._committed:
            self._load(lambda offset: file.read(offset, _BLOCK_BYTES))
        return self._committed

    def _load(self, read: Callable[[int], bytes]) -> None:
        """Read all entries again by *read*, which returns bytes from an offset."""
        feed = RecordFeed(detect=partial(detect_profile_at, self.path))
        entries: list[MetricsEntry] = []
        invalid: list[str] = []
        while block := read(feed.size):
            for item in feed.feed(block):
                if isinstance(item, Gap):
                    raise MetricsLogError(self.path, item.line, f"{item.reason}: {item.message}")
                if feed.profile != "metrics/v1":
                    fact = f"the log is {feed.profile or 'in no format of toyspec'}, not metrics/v1"
                    raise MetricsLogError(self.path, item.line, fact)
                try:
                    entries.append(_rounded(typed(item.raw, None, "metrics/v1")))
                except msgspec.MsgspecError as error:
                    invalid.append(f"line {item.line}: {error}")
        if len(invalid) > self._invalid:
            first = invalid[self._invalid]
            say(f"{self.path}: {len(invalid)} invalid entries are left out, which `toyspec check` lists; {first}")
        self._entries, self._committed, self._invalid = entries, feed.committed, len(invalid)
        self._has_fragment = feed.size > feed.committed


def grad_norm(grads: Iterable[SupportsFloat]) -> float:
    """Return the Euclidean norm of a flat vector, summed in binary64 and rounded to binary32; 0.0 without elements."""
    listed = items(grads)
    values = [float(value) for value in (grads if listed is None else listed)]
    return binary32(math.sqrt(sum(map(operator.mul, values, values))))


def _encoded(entry: MetricsEntry | Mapping[str, Any]) -> bytes:
    members = members_of(entry)
    unknown = members.keys() - FIELDS["metrics/v1"]["entry"].keys()
    if unknown:
        raise TypeError(f"a metrics entry has no field {', '.join(sorted(unknown))}")
    line = encode({"extra": {}, **members}, profile="metrics/v1")
    try:
        typed(line, None, "metrics/v1")
    except msgspec.ValidationError as error:
        raise InvalidEventError(f"the metrics entry is invalid: {error}") from error
    return line


def _rounded(entry: MetricsEntry) -> MetricsEntry:
    """Return *entry* with its numbers as the binary32 values that they stand for, and ``extra`` present."""
    extra = entry.extra or {}
    return MetricsEntry(
        step=entry.step,
        wall_time_ms=entry.wall_time_ms,
        **{name: _binary32(getattr(entry, name)) for name in _BINARY32},
        extra={name: _binary32(value) for name, value in extra.items()},
    )


def _binary32(value: float) -> float:
    # Entries are equal that have the same NaN.
    return math.nan if math.isnan(value) else binary32(value)
