"""Writes annotations.jsonl, what people and programs say about a run afterwards: see spec/annotations.md."""

from __future__ import annotations

import contextlib
import getpass
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import StreamMissingError, StreamRefusedError
from toyspec.core.format.lines import end_of_lines
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.annotations import Annotations, annotations_file, read_annotations
from toyspec.core.reading.stream_files import STREAM_NAMES, locate_stream
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls, named
from toyspec.core.writing import opening
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import move_fragment
from toyspec.core.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.generated.toy_v1 import Author

# Each writer holds the file for one line.
_WAIT_SECONDS = 5.0


def annotate(  # noqa: PLR0913 - one for each key of an annotation
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    group: str | None = None,
    add_tags: Sequence[str] = (),
    remove_tags: Sequence[str] = (),
    notes: str | None = None,
    starred: bool | None = None,
    hidden: bool | None = None,
    by: Author | Mapping[str, str] | str | None = None,
    calls: SystemCalls = SYSTEM_CALLS,
) -> Annotations:
    """Add an annotation to the run directory or stream *run*; return what all its annotations say together.

    The log does not change, and a seal stays intact: the annotation is a line of ``annotations.jsonl`` beside it.
    An empty *name*, *group* or *notes* removes an earlier one, so that the run has its own again. *by* is who says
    it: the name of a person, or an Author. Raises ValueError without anything to say, StreamMissingError without a run,
    StreamRefusedError for an address or where another process holds the file, and OSError if the system fails.
    """
    tags = {"add": _tags(add_tags), "remove": _tags(remove_tags)}
    said: dict[str, Any] = {
        "name": name, "group": group, "tags": {key: each for key, each in tags.items() if each} or None, "notes": notes,
        "hidden": hidden, "starred": starred,
    }  # fmt: skip
    said = {key: value for key, value in said.items() if value is not None}
    if not said:
        raise ValueError("nothing to say: give a name, group, tags, notes, starred or hidden")
    path = os.fspath(run)
    if is_address(path):
        fact = "an address is only read; annotate the run where it was written, or a copy on this machine"
        raise StreamRefusedError(path, "irregular", fact)
    stream = locate_stream(path)
    if not os.path.exists(stream):
        raise StreamMissingError(stream, "No such file or directory")
    file, stream_name = annotations_file(stream)
    # Files with the usual names are one run; any other file is a run of its own.
    is_only = stream_name is None or stream_name in STREAM_NAMES
    about: dict[str, Any] = {} if is_only else {"stream": stream_name}
    author: Any = {"kind": "human", "name": by} if isinstance(by, str) else by
    entry = {"at": utc_text(time.time()), **({} if author is None else {"by": author}), **about, **said}
    line = msgspec.json.encode(entry)
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"the annotation is {len(line):,} bytes long; at most {MAX_LINE_BYTES:,} are allowed")
    _append(file, line, calls)
    return read_annotations(stream)


def user_name() -> str | None:
    """Return the name of the user of this process; None for one without a name, as in many containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def _tags(given: Sequence[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"tags are a list of strings, and not the string {given!r}")
    return list(given)


def _append(path: str, line: bytes, calls: SystemCalls) -> None:
    options = Options(durability="fsync", calls=calls)
    try:
        file = opening.in_time(lambda: AppendFile.reopen(path, options=options), _WAIT_SECONDS)
        with contextlib.closing(file):
            move_fragment(file, end_of_lines(file.read, file.size))
            file.append(line)
    except OSError as error:
        raise named(error, path) from None
