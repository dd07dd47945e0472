"""TensorBoard event files, in both directions."""

from __future__ import annotations

import os
import re
from functools import lru_cache, partial
from heapq import merge
from itertools import islice, repeat
from math import inf, isnan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest, is_wall
from toyspec.convert.reports import DAMAGED, NO_PLACE, NOT_UTF8, PART_DROPPED
from toyspec.convert.sources import files_below, head_of, is_file, name_below
from toyspec.convert.tensorboard_files import (
    FILE_VERSION,
    HEADER_BYTES,
    HPARAMS_START_TAG,
    NOTE_TAG,
    Damage,
    Event,
    EventBlock,
    Value,
    events_in,
    may_begin,
    read_blocks,
)
from toyspec.core.engine import native
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake

_MARK = "tfevents"
_PARTS = frozenset(["train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev"])
"""Folders that programs make for the parts of one run."""
_PAUSE_SECONDS = 3600.0
"""Parts of one run are written within this time of each other."""
_MOMENT_SECONDS = 2.0
"""``add_hparams`` writes its folder within this time."""
_SEARCHED_BYTES = 1 << 20
_FIRST_EVENTS = 100
_HEAD_BYTES = 1 << 16
_LAST_BYTES = 1 << 18
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""A folder whose name needs no escape in a line."""
_T = len('{"kind":"scalars","t":')
_TAG = re.compile(rb'^(.{%d}[^,]*,"step":\d+,"values":\{")([^"]*)' % _T, re.MULTILINE)
"""The name of the value in a line of the engine, after what is before it."""


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run of the event file *path*, or those of the event files in each directory at *path* and below.

    Folders that a program makes for parts of a run, such as ``train`` and ``validation``, are of the run above them.
    """
    if os.path.isdir(path):
        for directory, files in _joined(path).items():
            yield _run(name_below(path, directory), directory, files)
    elif is_file(path) and (_MARK in os.path.basename(path) or FILE_VERSION.encode() in head_of(path, 48)):
        yield _run(os.path.basename(os.path.dirname(os.path.abspath(path))), path, {path: ""})


def _run(name: str, source: str, files: dict[str, str]) -> ForeignRun:
    return ForeignRun.of(name, source, [*files], partial(_records, files, name))


def _joined(root: str) -> dict[str, dict[str, str]]:
    """Return the files of each run at *root* and below by its directory, each with the folder that names its values."""
    found = dict(files_below(root.rstrip(os.sep) or root, lambda name: _MARK in name))
    runs = {directory: dict.fromkeys(files, "") for directory, files in found.items()}
    below: dict[str, dict[str, list[str]]] = {}
    for directory, files in found.items():
        below.setdefault(os.path.dirname(directory), {})[directory] = files
    for directory, folders in below.items():
        parts = _parts(found.get(directory, []), folders) if directory in runs or directory not in found else {}
        for folder, name in parts.items():
            runs.setdefault(directory, {}).update(dict.fromkeys(runs.pop(folder), name))
    return runs


def _parts(own: list[str], folders: dict[str, list[str]]) -> dict[str, str]:
    """Return those of *folders* that are of one run with the files *own* above them, each with what names its values.

    A folder is known by its name or by what is in it, and by its times. Without *own*, there are none or several.
    """
    span, parts = _span(own), dict[str, str]()
    if own and span is None:
        return {}
    found: list[tuple[tuple[float, float], str, str]] = []
    for folder, files in folders.items():
        name = os.path.basename(folder)
        # Most roots have many runs and no file of their own: none of them is opened for its times.
        times = _span(files) if own or name in _PARTS else None
        if times is None:
            continue
        if name in _PARTS or (own and _is_of_add_scalars(name, files)):
            found.append((times, folder, name))
        elif own and times[1] - times[0] <= _MOMENT_SECONDS and _is_of_add_hparams(own, files):
            found.append((times, folder, ""))
    for times, folder, name in sorted(found):
        if span is None or (times[0] <= span[1] + _PAUSE_SECONDS and times[1] >= span[0] - _PAUSE_SECONDS):
            span = times if span is None else (min(span[0], times[0]), max(span[1], times[1]))
            parts[folder] = name
    return parts if own or len(parts) > 1 else {}


def _span(files: list[str]) -> tuple[float, float] | None:
    """Return the first and the last time in *files*; None without one."""
    walls = [wall for path in files for wall in (first_wall(path), last_wall(path)) if wall is not None]
    return (min(walls), max(walls)) if walls else None


def _is_of_add_scalars(folder: str, files: list[str]) -> bool:
    """Return whether *folder* is one that ``add_scalars`` makes of its tag and the name of a value."""
    tags = _first_tags(files)
    return bool(tags) and all(folder.startswith(_stem(tag)) for tag in tags)


def _is_of_add_hparams(own: list[str], files: list[str]) -> bool:
    """Return whether *files* have the settings of the run that has the values in *own*: its own files have none."""
    mark = HPARAMS_START_TAG.encode()
    has_settings = any(mark in head_of(path, _HEAD_BYTES) for path in files)
    return has_settings and bool(_first_tags(own)) and not any(mark in head_of(path, _HEAD_BYTES) for path in own)


def _first_tags(files: list[str]) -> set[str]:
    """Return the tags of the numbers at the start of *files*."""
    events = (event for path in files for event in islice(events_of(path), _FIRST_EVENTS))
    return {value.tag for event in events for value in event.values if value.kind == "scalar"}


def _stem(tag: str) -> str:
    return tag.replace("/", "_") + "_"


def _named(tag: str, folder: str) -> str:
    """Return the name of the value *tag* in a *folder* of the run."""
    if not folder or tag.startswith(f"{folder}/"):
        return tag
    stem = _stem(tag)
    return f"{tag}/{folder.removeprefix(stem)}" if folder.startswith(stem) else f"{folder}/{tag}"


def _renamed(lines: bytes, folder: str) -> bytes:
    """Return *lines* of the engine with the names that their values have in a *folder* of the run."""
    if not folder:
        return lines
    named = lru_cache(lambda tag: _named(tag.decode(), folder).encode())
    return _TAG.sub(lambda found: found[1] + named(found[2]), lines)


def _records(named: dict[str, str], name: str, intake: Intake) -> Iterator[bytes]:
    ledger, files = intake.ledger, [*named]
    folders = {folder: None for folder in named.values() if folder}
    if folders:
        ledger.note(f"its folders {', '.join(folders)} are of one run, and name their values")
    yield from _EventImport(named, intake).lines(name)
    damaged = sum(loss.count for loss in ledger.losses if loss.cause == DAMAGED.name)
    heads = (head_of(file, HEADER_BYTES) for file in files)
    # A file that was cut off in its first record is a run without values.
    if 0 < ledger.items == damaged and not any(map(may_begin, heads)):
        raise SourceError(files[0], "not an event file: no record in it can be read")


def _in_order(files: list[str]) -> Iterator[list[str]]:
    """Yield *files*, those of one directory, in the order of their times; those whose times overlap are together."""
    group: list[str] = []
    end = 0.0
    for first, path in sorted(((first_wall(path) or 0.0, path) for path in files), key=itemgetter(0)):
        if group and first >= end:
            yield group
            group = []
        group.append(path)
        end = max(end, last_wall(path) or first)
    yield group


class _EventImport:
    """Reads the files of one run, in order."""

    def __init__(self, files: dict[str, str], intake: Intake) -> None:
        self._folders = files
        self._files = [*files]
        self._intake = intake
        self._ledger = intake.ledger
        self._path = ""

    @property
    def _place(self) -> str:
        """The file that is read, as reports name it."""
        return os.path.join(self._folders[self._path], os.path.basename(self._path))

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of the run."""
        config, group = _hparams(self._files)
        # Other files of a folder are later than the first one with a time.
        walls = ((path, first_wall(path)) for path in reversed(self._files))
        firsts = {os.path.dirname(path): wall for path, wall in walls if wall is not None}
        began = earliest(firsts.values())
        yield from self._intake.begin(began, name=name, group=group, config=config)
        for files in _in_order(self._files):
            yield from self._of_file(files[0]) if len(files) == 1 else self._of_files(files)

    def _of_file(self, path: str) -> Iterator[bytes]:
        self._path = path
        timeline = self._intake.timeline
        for part in self._parts_of(path, lambda: (timeline.last, timeline.is_running)):
            if isinstance(part, Event):
                yield from self._of_event(part)
            else:
                yield self._intake.lines(*part)

    def _of_files(self, paths: list[str]) -> Iterator[bytes]:
        """Yield the records of files that were written at once, in the order of their times."""
        streams = (zip(repeat(path), self._placed(path), strict=False) for path in paths)
        for self._path, (wall, item) in merge(*streams, key=lambda pair: pair[1][0]):
            if isinstance(item, Event):
                yield from self._of_event(item)
            elif times := self._intake.timeline.times([wall], 1):
                yield self._intake.lines(item, 1, times[0])
            else:
                step, values = itemgetter("step", "values")(msgspec.json.decode(item))
                place = f"{self._place}: {', '.join(values)} at step {step}"
                yield from self._intake.values(wall, step, values, place)

    def _placed(self, path: str) -> Iterator[tuple[float, Event | bytes]]:
        """Yield the line of each number in a file, and its other events that have anything, each with its time."""
        start = self._intake.timeline.start or 0.0
        for part in self._parts_of(path, lambda: (-inf, False)):
            if isinstance(part, Event):
                if any(part[2:]):
                    # NaN has no place among others.
                    yield -inf if isnan(part.wall) else part.wall, part
            else:
                lines = part[0].splitlines(keepends=True)
                yield from ((start + float(line[_T : line.index(b",", _T)]), line) for line in lines)

    def _parts_of(self, path: str, at: Callable[[], tuple[float, bool]]) -> Iterator[Event | tuple[bytes, int, float]]:
        """Yield the lines of what is plainly scalars in a file, which the engine writes, and the other events.

        With lines come their number and the last time. *at* returns the time before them, and whether there is one.
        """
        folder, start = self._folders[path], self._intake.timeline.start
        engine = native() if start is not None and _PLAIN.fullmatch(folder) else None
        place = os.path.join(folder, os.path.basename(path))
        for block in self._blocks_in(path):
            if engine is None:
                yield from self._events_of_block(block, place)
                continue
            index = 0
            while index < len(block.starts):
                made = engine.tensorboard_lines(block.data, block.starts[index], start, *at())
                index += made["records"]
                if made["values"]:
                    yield _renamed(made["lines"], folder), made["values"], made["last"]
                if index < len(block.starts):
                    yield from self._events_of_block(block.part(index), place)
                    index += 1

    def _blocks_in(self, path: str) -> Iterator[EventBlock]:
        """Yield the records of the file; what cannot be read is dropped."""
        name = os.path.basename(path)
        with open_file(path) as file:
            for block in read_blocks(file):
                if isinstance(block, Damage):
                    self._ledger.lose(DAMAGED, f"{name}: byte {block.offset}", f"{block.length} bytes: {block.fact}")
                    self._ledger.advance(block.length)
                else:
                    yield block
                    self._ledger.advance(len(block.data))

    def _events_of_block(self, block: EventBlock, name: str) -> Iterator[Event]:
        for event in events_in(block):
            if isinstance(event, Damage):
                self._ledger.lose(DAMAGED, f"{name}: byte {event.offset}", f"{event.length} bytes: {event.fact}")
            else:
                yield event

    def _of_event(self, event: Event) -> Iterator[bytes]:
        for other in event.others:
            self._ledger.lose(NO_PLACE, f"{self._place}: {other}", other, name=other)
        if event.session_starts:
            place = f"{self._place}: session start"
            at = {"t": self._intake.timeline.t(event.wall, place), "from_step": max(0, event.step - 1)}
            yield from self._intake.record({"kind": "run_resume", **at}, place)
        for value in event.values:
            yield from self._of_value(event, value)

    def _of_value(self, event: Event, value: Value) -> Iterator[bytes]:
        intake, tag = self._intake, _named(value.tag, self._folders[self._path])
        place = f"{self._place}: {tag} at step {event.step}"
        if value.kind == "other":
            self._ledger.lose(NO_PLACE, place, value.value, name=tag)
            return
        if not value.is_utf8:
            self._ledger.changed(NOT_UTF8, place, tag)
        if value.left_out:
            self._ledger.changed(PART_DROPPED, place, value.left_out)
        if value.kind == "hparams":
            # The start has them.
            self._ledger.items += 1
            self._ledger.done()
        elif value.kind == "ending":
            intake.end(value.value)
        elif value.kind == "histogram":
            yield from intake.histogram(intake.at(event.wall, event.step, place), tag, value.value, place)
        elif value.kind == "text" and value.tag == NOTE_TAG:
            at = intake.at(event.wall, event.step, place)
            yield from intake.record({"kind": "note", **at, "text": value.value}, place)
        else:
            several = value.value if isinstance(value.value, list) else [value.value]
            names = [tag] if len(several) == 1 else [f"{tag}/{index}" for index in range(len(several))]
            yield from intake.values(event.wall, event.step, dict(zip(names, several, strict=True)), place)


def events_of(path: str) -> Iterator[Event]:
    """Yield the events of the file that can be read."""
    with open_file(path) as file:
        blocks = (block for block in read_blocks(file) if isinstance(block, EventBlock))
        yield from (event for block in blocks for event in events_in(block) if isinstance(event, Event))


def first_wall(path: str) -> float | None:
    """Return the earliest time at the start of the file *path*; None without one."""
    walls = (event.wall for event in islice(events_of(path), _FIRST_EVENTS))
    return earliest(walls) or None


def last_wall(path: str) -> float | None:
    """Return the latest time at the end of the file *path*; None without one."""
    with open_file(path) as file:
        file.seek(max(0, os.path.getsize(path) - _LAST_BYTES))
        blocks = [block for block in read_blocks(file) if isinstance(block, EventBlock)][-1:]
    parts = (block.part(max(0, len(block.starts) - _FIRST_EVENTS), _FIRST_EVENTS) for block in blocks)
    events = (event for part in parts for event in events_in(part) if isinstance(event, Event))
    return max((event.wall for event in events if is_wall(event.wall)), default=None)


def _hparams(files: list[str]) -> tuple[dict[str, Any], str]:
    """Return the hyperparameters and their group; run_start comes first, so they are looked for before all else."""
    config: dict[str, Any] = {}
    group = ""
    for path in files:
        if not _holds(path, HPARAMS_START_TAG.encode()):
            continue
        for event in events_of(path):
            for value in event.values:
                if value.kind == "hparams":
                    config |= value.value
                    group = value.group or group
    return config, group


def _holds(path: str, mark: bytes) -> bool:
    """Return whether the file has the bytes *mark*, without decoding it."""
    with open_file(path) as file:
        kept = b""
        while chunk := file.read(_SEARCHED_BYTES):
            if mark in chunk or mark in kept + chunk[: len(mark)]:
                return True
            kept = chunk[-len(mark) :]
    return False
