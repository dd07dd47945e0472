"""Finds the TensorBoard event files of one run, and makes toy/v1 events from them."""

from __future__ import annotations

import os
import re
from heapq import merge
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.convert.incoming_files import IncomingMedia
from toyspec.convert.losses import DAMAGED, NO_PLACE, PART_DROPPED, Cause, as_measure, as_setting, step_member
from toyspec.convert.protobuf import MessageError
from toyspec.convert.tensorboard_messages import HPARAMS_START_TAG, NOTE_TAG, Event, Value, decode_event
from toyspec.convert.tensorboard_records import Damage, EventBlock, check, read_blocks
from toyspec.convert.timeline import Timeline, earliest, is_wall
from toyspec.engine import native
from toyspec.files import open_file
from toyspec.writing.media import Audio, Histogram, Image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

NOT_UTF8 = Cause("not-utf-8", "changed", r"bytes of a name that are not UTF-8 are written as \xff")
_SEARCHED_BYTES = 1 << 20
_FIRST_EVENTS = 100
_LAST_BYTES = 1 << 18
# events.out.tfevents.TIME.HOST.PROCESS.NUMBER, as TensorFlow, torch and tensorboardX write it.
_NAME = re.compile(r"tfevents\.(?P<time>\d+)\.(?P<process>.+?\.\d+)\.\d+(?:\.|$)", re.ASCII)


class EventImport:
    """Reads the files of one run, in order."""

    def __init__(self, writers: EventWriters, name: str, ledger: Ledger) -> None:
        self._files = [file for group in writers.groups for file in group]
        self._groups = writers.groups
        self._folder = writers.folder
        self._name = name
        self._ledger = ledger
        self._timeline: Timeline
        self._reason: str | None = None
        self._place = ""

    def events(self) -> Iterator[dict[str, Any] | bytes]:
        """Yield ``run_start``, the events in the order of the files, and ``run_end`` if the files have an ending.

        Bytes are canonical lines, several at once.
        """
        self._timeline = Timeline(self._ledger, _first_wall(self._files))
        yield self._start()
        for group in self._groups:
            yield from self._of_file(group[0]) if len(group) == 1 else self._of_files(group)
        if self._reason is not None:
            yield {"kind": "run_end", "t": self._timeline.last, "reason": self._reason}

    def _start(self) -> dict[str, Any]:
        config, group = _hparams(self._files)
        start = self._timeline.run_start(name=self._name)
        if config:
            start["config"] = config
        if group or self._folder:
            start["group"] = group or self._folder
        return start

    def _of_file(self, path: str) -> Iterator[dict[str, Any] | bytes]:
        self._place = os.path.basename(path)
        engine = native() if self._timeline.start is not None else None
        for block in self._blocks_in(path):
            if engine is not None:
                yield from self._in_bulk(block, engine)
                continue
            for event in self._events_of_block(block, self._place):
                yield from self._of_event(event)

    def _in_bulk(self, block: EventBlock, engine: Any) -> Iterator[dict[str, Any] | bytes]:
        """Yield what is in *block*; the engine writes what is plainly scalars."""
        timeline, index = self._timeline, 0
        while index < len(block.starts):
            made = engine.tensorboard_lines(
                block.data, block.starts[index], timeline.start, timeline.last, timeline.is_running
            )
            index += made["records"]
            if made["values"]:
                self._ledger.carry(made["values"])
                timeline.take(made["last"])
                yield made["lines"]
            if index < len(block.starts):
                for event in self._events_of_block(block.only(index), self._place):
                    yield from self._of_event(event)
                index += 1

    def _of_files(self, paths: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the records of files that one process wrote at once, in the order of their times."""
        streams = (zip(repeat(os.path.basename(path)), self._events_in(path), strict=False) for path in paths)
        for self._place, event in merge(*streams, key=lambda pair: pair[1].wall):
            yield from self._of_event(event)

    def _events_in(self, path: str) -> Iterator[Event]:
        """Yield the events of the file."""
        for block in self._blocks_in(path):
            yield from self._events_of_block(block, os.path.basename(path))

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
        payloads = block.payloads()
        bad = set(check(block, payloads))
        for index, payload in enumerate(payloads):
            event = None if index in bad else _decoded(payload)
            if event is None:
                fact = "the check sum is wrong" if index in bad else "it is not an event"
                place = f"{name}: byte {block.offset + block.starts[index]}"
                self._ledger.lose(DAMAGED, place, f"{len(payload)} bytes: {fact}")
            else:
                yield event

    def _of_event(self, event: Event) -> Iterator[dict[str, Any]]:
        ledger = self._ledger
        ledger.items += len(event.values) + len(event.others) + event.session_starts
        for other in event.others:
            ledger.drop(NO_PLACE, f"{self._place}: {other}", other)
        if event.session_starts:
            place = f"{self._place}: session start"
            yield {
                "kind": "run_resume",
                "t": self._timeline.t(event.wall, place),
                "from_step": max(0, event.step - 1),
            }
            ledger.done()
        for value in event.values:
            yield from self._of_value(event, value)

    def _of_value(self, event: Event, value: Value) -> Iterator[dict[str, Any]]:
        ledger = self._ledger
        place = f"{self._place}: {value.tag} at step {event.step}"
        if value.kind == "other":
            ledger.drop(NO_PLACE, place, value.value)
            return
        if value.kind in ("hparams", "ending"):
            self._keep(value, place)
            return
        record: dict[str, Any] = {"kind": "scalars", "t": self._timeline.t(event.wall, place)}
        record |= step_member(event.step, place, ledger)
        if not value.is_utf8:
            ledger.changed(NOT_UTF8, place, value.tag)
        if value.kind in ("images", "audio", "histogram"):
            yield from self._shown(record, value, place)
            return
        if value.kind == "text" and value.tag == NOTE_TAG:
            record |= {"kind": "note", "text": value.value}
        elif value.kind in ("text", "texts"):
            several = value.value if isinstance(value.value, list) else [value.value]
            names = [value.tag] if len(several) == 1 else [f"{value.tag}/{index}" for index in range(len(several))]
            record |= {"values": {}, "texts": dict(zip(names, several, strict=True))}
        else:
            record["values"] = {value.tag: as_measure(value.value, place, ledger)}
        ledger.done()
        yield record

    def _shown(self, record: dict[str, Any], value: Value, place: str) -> Iterator[dict[str, Any]]:
        """Yield the files or the histogram of one value."""
        if value.left_out:
            self._ledger.changed(PART_DROPPED, place, value.left_out)
        if value.kind == "histogram":
            bins = Histogram(edges=value.value.edges, counts=value.value.counts)
            yield {**record, "kind": "histogram", "name": value.tag, "file": IncomingMedia(bins, place)}
            return
        self._ledger.items += len(value.value) - 1
        for index, each in enumerate(value.value):
            make = Image if value.kind == "images" else Audio
            made = {**record, "kind": "media", "name": value.tag}
            made |= {"index": index} if len(value.value) > 1 else {}
            made |= {"width": each.width} if each.width else {}
            made |= {"height": each.height} if each.height else {}
            yield {**made, "file": IncomingMedia(make(each.data, caption=each.caption or None), place)}

    def _keep(self, value: Value, place: str) -> None:
        """Settle what is in run_start already, or will be in run_end."""
        if value.kind == "ending":
            self._reason = value.value
        for key, setting in value.value.items() if value.kind == "hparams" else ():
            as_setting(setting, f"{place}: {key}", self._ledger)
        if value.left_out:
            self._ledger.changed(PART_DROPPED, place, value.left_out)
        self._ledger.done()


def _decoded(payload: bytes) -> Event | None:
    try:
        return decode_event(payload)
    except MessageError:
        return None


def events_of(path: str) -> Iterator[Event]:
    """Yield the events of the file that can be read."""
    with open_file(path) as file:
        for block in read_blocks(file):
            if isinstance(block, EventBlock):
                payloads = block.payloads()
                bad = set(check(block, payloads))
                events = (None if index in bad else _decoded(payload) for index, payload in enumerate(payloads))
                yield from (event for event in events if event is not None)


def _first_wall(files: list[str]) -> float | None:
    """Return the earliest time at the start of the first file that has one; other files are later."""
    return next((wall for wall in map(first_wall, files) if wall is not None), None)


def first_wall(path: str) -> float | None:
    """Return the earliest time at the start of the file *path*; None without one."""
    walls = (event.wall for event in islice(events_of(path), _FIRST_EVENTS))
    return earliest(walls) or None


def first_value_wall(path: str) -> float | None:
    """Return the time of the first value in the file *path*; that of its start without one."""
    walls = (event.wall for event in events_of(path) if event.values and is_wall(event.wall))
    found = next(walls, None)
    return first_wall(path) if found is None else found


def last_wall(path: str) -> float | None:
    """Return the latest time at the end of the file *path*; None without one."""
    with open_file(path) as file:
        file.seek(max(0, os.path.getsize(path) - _LAST_BYTES))
        blocks = [block for block in read_blocks(file) if isinstance(block, EventBlock)]
    decoded = (_decoded(payload) for block in blocks[-1:] for payload in block.payloads()[-_FIRST_EVENTS:])
    return max((event.wall for event in decoded if event is not None and is_wall(event.wall)), default=None)


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


class EventWriters(NamedTuple):
    """The files of one run."""

    groups: list[list[str]]
    """The files in order; those that one process wrote at once are together."""
    process: str = ""
    """Host and number of the process; empty for the first one of a directory."""
    folder: str = ""
    """What the runs of a directory have in common; empty where it has one."""


class _Chain:
    def __init__(self, process: str) -> None:
        self.process = process
        self.groups: list[list[str]] = []
        self.end = -1.0

    def add(self, path: str, first: float, last: float, process: str) -> None:
        if first < self.end and self.groups:
            self.groups[-1].append(path)
        else:
            self.groups.append([path])
        self.end = max(self.end, last)
        self.process = process


def writers_of(files: list[str], folder: str) -> list[EventWriters]:
    """Return the runs that the event *files* of one directory are of; *folder* is the name of the directory.

    A file that begins after another one ended goes on with it. Two that two processes wrote at the same time are two
    runs; two of one process are one. A file without a time goes on with the one before it.
    """
    if len(files) < 2:
        return [EventWriters([[path] for path in files])]
    chains: list[_Chain] = []
    walls = [(first_value_wall(path), path) for path in files]
    for index, (first, path) in enumerate(walls):
        if first is None:
            walls[index] = (walls[index - 1][0] if index else 0.0, path)
    for first, path in sorted(walls, key=lambda pair: (pair[0] or 0.0, files.index(pair[1]))):
        begin, process = first or 0.0, _process(path)
        chain = next((each for each in chains if each.process == process), None)
        chain = chain or next((each for each in chains if each.end <= begin), None)
        if chain is None:
            chain = _Chain(process)
            chains.append(chain)
        chain.add(path, begin, last_wall(path) or begin, process)
    if len(chains) == 1:
        return [EventWriters(chains[0].groups)]
    return [EventWriters(chain.groups, chain.process if number else "", folder) for number, chain in enumerate(chains)]


def _process(path: str) -> str:
    """Return host and number of the process that wrote *path*; the name of the file where it does not say them."""
    name = os.path.basename(path)
    found = _NAME.search(name)
    return found["process"] if found else name
