"""Finds the directories that have the parts of one run: each process that goes on with a run writes a directory."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.format.line_validation import decode

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD_BYTES = 1 << 16
# Times of files have the resolution of the system's clock, some milliseconds.
_SETTLED_NANOSECONDS = 100_000_000
_MOST_FOLDERS = 10_000


class _Beginning(NamedTuple):
    """What the first record of a directory says."""

    run: str
    time: str
    folder: str


def settled_change(directory: str) -> int | None:
    """Return when a file was added to or removed from *directory*; None if that may happen again at the same time."""
    changed = os.stat(directory).st_mtime_ns
    return changed if time.time_ns() - changed > _SETTLED_NANOSECONDS else None


def folders_of_run(directory: str) -> list[str]:
    """Return the directories of the run that the parts in *directory* are of, as paths relative to it, oldest first.

    ``.`` alone if no other directory beside it is of that run.
    """
    place, name = os.path.split(os.path.abspath(directory))
    own = _beginning(place, name)
    if own is None:
        return [os.curdir]
    try:
        changed = settled_change(place)
        found = _beginnings(place, None) if changed is None else _settled_beginnings(place, changed)
    except OSError:
        found = ()
    same = {each.folder: each for each in (*found, own) if each.run == own.run}
    ordered = sorted(same.values(), key=lambda each: (each.time, each.folder))
    return [os.curdir if each.folder == name else os.path.join(os.pardir, each.folder) for each in ordered]


def is_first_of_run(directory: str) -> bool:
    """Return whether the parts in *directory* are the oldest ones of their run."""
    return folders_of_run(directory)[0] == os.curdir


@lru_cache(maxsize=16)
def _settled_beginnings(place: str, changed: int) -> tuple[_Beginning, ...]:
    return _beginnings(place, changed)


def _beginnings(place: str, changed: int | None) -> tuple[_Beginning, ...]:  # noqa: ARG001 - it is a part of a key
    with os.scandir(place) as listing:
        names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
    found = (_beginning(place, name) for name in sorted(names)[:_MOST_FOLDERS])
    return tuple(each for each in found if each is not None)


def _beginning(place: str, folder: str) -> _Beginning | None:
    """Return what the first record of the parts in *folder*, a directory in *place*, says about its run."""
    # Imported here: most directories have a stream of toyspec.
    from toyspec.format.dialects import dialects
    from toyspec.reading.parts import part_names

    known = [dialect for dialect in dialects() if dialect.parts and dialect.run_id]
    try:
        names = part_names(os.listdir(os.path.join(place, folder)))
        record = _first_record(os.path.join(place, folder, names[0])) if names else None
    except OSError:
        return None
    if record is None:
        return None
    for dialect in known:
        run = record.get(dialect.run_id)
        if all(key in record for key in dialect.recognize.keys) and isinstance(run, str):
            return _Beginning(run, _time(record, (key.key for key in dialect.time)), folder)
    return None


def _time(record: dict[str, Any], keys: Iterable[str]) -> str:
    return next((str(record[key]) for key in keys if key in record), "")


def _first_record(path: str) -> dict[str, Any] | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return decode(file.readline(_HEAD_BYTES).rstrip(b"\r\n"))
