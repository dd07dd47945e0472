"""Reads annotations.jsonl, what people and programs say about a run afterwards: see spec/annotations.md."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import StreamError
from toyspec.core.findings import Gap
from toyspec.core.format.profiles import ANNOTATIONS_FILE
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TEXTS = ("name", "group", "notes")
_FLAGS = ("hidden", "starred")


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What all annotations of a run say together: the last one that has a key counts."""

    name: str | None = None
    """The new name of the run; None where it has its own."""
    group: str | None = None
    """The new group of the run; None where it has its own."""
    notes: str | None = None
    """The new notes on the run; None where it has its own."""
    added: tuple[str, ...] = ()
    """Tags that the run gets, in the order in which they were added."""
    removed: tuple[str, ...] = ()
    """Tags that the run loses."""
    hidden: bool = False
    """Whether lists leave the run out."""
    starred: bool = False
    """Whether the run is marked."""
    count: int = 0
    """Number of annotations that were read."""
    unreadable: int = 0
    """Number of lines that are not annotations."""

    def tags(self, own: list[str]) -> list[str]:
        """Return the tags of the run whose *own* tags are these."""
        kept = [tag for tag in own if tag not in self.removed]
        return [*kept, *(tag for tag in self.added if tag not in kept)]

    def over(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of a ``run_start`` with what the annotations give in place of its own."""
        found = dict(start)
        found |= {name: text for name in _TEXTS if (text := getattr(self, name)) is not None}
        found |= {name: True for name in _FLAGS if getattr(self, name)}
        own = start.get("tags")
        tags = self.tags([tag for tag in own if isinstance(tag, str)] if isinstance(own, list) else [])
        if self.added or self.removed:
            found["tags"] = tags
        return found


NONE = Annotations()
"""The annotations of a run that has none."""


def annotations_file(stream: str) -> tuple[str, str | None]:
    """Return the path of the annotations of the run with *stream*, and the name of the stream in them.

    The name is None for a stream that is a directory: its annotations are in it, and are about it alone.
    """
    if not is_address(stream) and os.path.isdir(stream):
        return path_in(stream, ANNOTATIONS_FILE), None
    if is_address(stream):
        directory, _, name = stream.rpartition("/")
    else:
        directory, name = os.path.split(stream)
    return (path_in(directory, ANNOTATIONS_FILE) if directory else ANNOTATIONS_FILE), name


def read_annotations(stream: str) -> Annotations:
    """Return what the annotations beside the file *stream* say about it; ``NONE`` without any. Never raises.

    A line that is not an annotation is counted and ignored, and so are a value of another type than its key has, and
    what follows the last LF.
    """
    path, name = annotations_file(stream)
    try:
        return _merged(_items(path), name)
    except (OSError, StreamError):
        return NONE


def _items(path: str) -> Iterator[Record | Gap]:
    """Yield the annotations in the file at *path*, and a gap for each line that is none."""
    feed = RecordFeed(detect=lambda *_, **__: None)
    with closing(open_source(path, gzip="keep")) as source:
        while chunk := source.read(feed.chunk_bytes):
            yield from feed.feed(chunk)


def _merged(items: Iterable[Record | Gap], stream: str | None) -> Annotations:
    texts: dict[str, str | None] = {}
    flags: dict[str, bool] = {}
    # The last annotation that names a tag says whether the run has it.
    tags: dict[str, bool] = {}
    count = unreadable = 0
    for item in items:
        if isinstance(item, Gap):
            unreadable += 1
            continue
        entry = item.value
        if entry.get("stream", stream) != stream:
            continue
        count += 1
        texts |= {key: entry[key] or None for key in _TEXTS if isinstance(entry.get(key), str)}
        flags |= {key: entry[key] for key in _FLAGS if isinstance(entry.get(key), bool)}
        changes = entry.get("tags")
        for key, is_added in (("remove", False), ("add", True)):
            for tag in _strings(changes.get(key) if isinstance(changes, dict) else None):
                tags.pop(tag, None)
                tags[tag] = is_added
    added = tuple(tag for tag, is_added in tags.items() if is_added)
    removed = tuple(tag for tag, is_added in tags.items() if not is_added)
    said: dict[str, Any] = {**texts, **flags}
    return Annotations(**said, added=added, removed=removed, count=count, unreadable=unreadable)


def _strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
