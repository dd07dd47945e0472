"""The other profiles of this project, kaun/v1 and metrics/v1: what their modules share."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from toyspec.convert.formats import ForeignRun
from toyspec.convert.reports import drop_damage
from toyspec.convert.sources import files_below, identity_of, is_file, size_of
from toyspec.core.errors import SourceError, StreamError
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE, METRICS_FILE
from toyspec.core.reading.log_detection import detect_profile_at, first_object
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import open_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger
    from toyspec.core.findings import Profile
    from toyspec.core.reading.records import Record
    from toyspec.core.reading.stream_files import Source

    Records = Callable[[str, Intake], Iterator[bytes]]

_NAMES = (EVENTS_FILE, METRICS_FILE)
_HEAD_BYTES = 1 << 18


def has_native(path: str, profile: Profile) -> bool:
    """Return whether a stream of *profile* is at *path* or below."""
    return next(_streams(path, profile), None) is not None


def find_native(path: str, profile: Profile, read_records: Records) -> Iterator[ForeignRun]:
    """Yield the runs of *profile* at *path* and below, read by *read_records*; raise SourceError without any."""
    found = False
    for stream, files in _streams(path, profile):
        found = True
        yield ForeignRun(
            name=os.path.basename(os.path.dirname(os.path.abspath(stream))),
            source=stream,
            identity=identity_of(files),
            size=size_of(files),
            records=partial(read_records, stream),
        )
    if not found:
        raise SourceError(path, f"no run of {profile}")


def _streams(path: str, profile: Profile) -> Iterator[tuple[str, list[str]]]:
    """Yield each stream of *profile* at *path* and below, with the files of its run."""
    if not os.path.isdir(path):
        found = [path] if is_file(path) else []
    else:
        found = [file for _, files in files_below(path, lambda name: name in _NAMES) for file in files]
    for file in found:
        if profile_of(file) == profile:
            manifest = os.path.join(os.path.dirname(file), MANIFEST_FILE)
            yield file, [file, manifest] if os.path.isfile(manifest) and profile == "kaun/v1" else [file]


def profile_of(path: str) -> Profile | None:
    """Return the profile of the stream at *path*, by the first readable record at its start."""
    try:
        with closing(_opened(path)) as source:
            first = first_object(source.read(_HEAD_BYTES))
    except (StreamError, OSError):
        return None
    return None if first is None else detect_profile_at(path, first)


def _opened(path: str) -> Source:
    return open_named(path)


def records(path: str, profile: Profile | None, ledger: Ledger, *, dialect: str | None = None) -> Iterator[Record]:
    """Yield the records of the stream, or of the log of a *dialect*; what cannot be read is dropped."""
    reading = read(path, mode="salvage", profile=profile, dialect=dialect)
    done = 0
    for record in reading:
        yield record
        ledger.advance(record.offset - done)
        done = record.offset
    drop_damage(reading.report, ledger)
