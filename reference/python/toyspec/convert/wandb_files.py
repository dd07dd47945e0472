"""W&B run files, read without W&B, and written by its offline mode."""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import NUMBERS, alert_event, earliest
from toyspec.convert.protobuf import BYTES, FIXED64, VARINT, Message, MessageError, fields, text
from toyspec.convert.reports import DAMAGED, NO_PLACE, PART_DROPPED, REPEATED, at_step
from toyspec.convert.run_items import Bins
from toyspec.convert.sources import files_at, head_of
from toyspec.convert.tensorboard_files import Damage
from toyspec.core.errors import SourceError
from toyspec.core.files import open_file
from toyspec.core.reading.run_files import leaves_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake


_DIRECTORY = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)", re.ASCII | re.DOTALL)
_OWN_SETTING = "_wandb"
_FRAMING = frozenset(["_step", "_timestamp", "_runtime", "_wandb"])
_MOST_NAMES = 100_000


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the run file *path*, or in each run file in the directory *path* and below.

    A process that resumes a run writes a file of its own, and is a run of its own.
    """
    named = files_at(path, lambda name: name.endswith(".wandb"))
    for file in named if os.path.isdir(path) else (file for file in named if head_of(file, len(MAGIC)) == MAGIC):
        name = os.path.basename(file).removesuffix(".wandb").removeprefix("run-")
        yield ForeignRun.of(name, file, [file], partial(_records, file), parts=[_directory_of(file)])


def _directory_of(path: str) -> str:
    """Return the directory that W&B made for the run file *path*; the file itself if it lies elsewhere."""
    directory = os.path.dirname(os.path.abspath(path))
    return directory if _DIRECTORY.fullmatch(os.path.basename(directory)) else path


def _records(path: str, intake: Intake) -> Iterator[bytes]:
    head = head_of(path, len(FILE_HEADER))
    if head[: len(MAGIC)] != MAGIC:
        raise SourceError(path, "not a W&B run file: it does not begin with `:W&B`")
    if head != FILE_HEADER:
        raise SourceError(path, f"a W&B run file of version {head[4:].hex()}; only e1be00 (version 0) is known")
    yield from _Import(path, intake).lines()


class _Rows(msgspec.Struct):
    """The file of a table."""

    columns: list[str]
    data: list[list[Any]]

    def named(self) -> list[dict[str, Any]]:
        """Return the cells of each row by the name of its column."""
        return [dict(zip(self.columns, row, strict=False)) for row in self.data]


class _Beginning:
    """What the records of a whole run file say about the run as such."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        """Members of run_start."""
        self.config: dict[str, Any] = {}
        self.rest: dict[str, Any] = {}
        """What has no place there."""
        self._start: float | None = None
        self._first: Any = None
        """Time of the first row of the history."""

    @property
    def began(self) -> float | None:
        """The start in seconds since the Unix epoch: a row may have a time of its own, before that of the run."""
        return earliest((self._start, self._first)) or None

    def take(self, kind: int, body: bytes) -> None:
        """Take in a message; raise MessageError."""
        if kind == RUN:
            self._take_run(Message(body))
        elif kind == HISTORY and self._first is None:
            self._first = dict(pairs(body)).get("_timestamp", 0.0)
        elif kind == CONFIG:
            self._configure(dict(pairs(body)))
        elif kind == ENVIRONMENT and (program := (found := Message(body)).parts(6)):
            self.facts["argv"] = [text(part) for part in (*program, *found.parts(5))]

    def _take_run(self, found: Message) -> None:
        git = Message(found.data(21))
        facts: dict[str, Any] = {name: found.text(number) for number, name in _RUN_FACTS.items()}
        facts["tags"] = [text(tag) for tag in found.parts(10) if tag]
        facts["host"] = {"name": found.text(13)} if found.data(13) else {}
        facts["git"] = {name: git.text(number) for name, number in (("sha", 2), ("remote", 1)) if git.parts(number)}
        self.facts |= {name: fact for name, fact in facts.items() if fact}
        self.rest |= {name: found.text(number) for number, name in _RUN_OTHERS.items() if found.data(number)}
        self._configure(dict(pair for part in found.parts(4) for pair in pairs(part)))
        if self._start is None and found.data(17):
            self._start = timestamp(found.data(17))

    def _configure(self, config: dict[str, Any]) -> None:
        for name, value in config.items():
            is_own = name.partition(".")[0] == _OWN_SETTING
            (self.rest if is_own else self.config)[name] = value


class _Import:
    """Hands a run to an intake, its file read twice: run_start comes first, and settings may change to the end."""

    def __init__(self, path: str, intake: Intake) -> None:
        self._path = path
        self._intake = intake
        self._ledger = intake.ledger
        self._record = 0
        self._step_name = ""
        """The metric that has the steps, in a run that was exported or mirrored."""
        self._names: set[str] = set(_FRAMING)
        self._summary: dict[str, Any] = {}

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the run."""
        found = _Beginning()
        for message in self._messages():
            if not isinstance(message, Damage):
                with suppress(MessageError):
                    found.take(*message)
        yield from self._intake.begin(found.began, config=found.config, rest=found.rest, **found.facts)
        yield from self._history()
        rest = {
            name: value
            for name, value in self._summary.items()
            if name not in self._names and name.partition(".")[0] not in _FRAMING
        }
        yield from self._values(None, None, rest, "summary")

    def _messages(self) -> Iterator[tuple[int, bytes] | Damage]:
        with open_file(self._path) as file:
            file.seek(0)
            done = 0
            for record in read_records(file):
                if isinstance(record, Damage):
                    yield record
                    continue
                done += len(record)
                if done > 1 << 18:
                    self._ledger.advance(done)
                    done = 0
                try:
                    yield kind_and_body(record)
                except MessageError as error:
                    yield Damage(file.tell(), len(record), str(error))

    def _history(self) -> Iterator[bytes]:
        for message in self._messages():
            self._record += 1
            if isinstance(message, Damage):
                self._ledger.lose(DAMAGED, f"byte {message.offset}", f"{message.length} bytes: {message.fact}")
                continue
            try:
                yield from self._of_message(*message)
            except MessageError as error:
                self._ledger.lose(DAMAGED, self._place, str(error))

    @property
    def _place(self) -> str:
        return f"record {self._record}"

    def _of_message(self, kind: int, body: bytes) -> Iterator[bytes]:
        intake, ledger = self._intake, self._ledger
        if kind == HISTORY:
            yield from self._row(body)
        elif kind == STATS:
            wall = next(map(timestamp, Message(body).parts(2)), None)
            yield from intake.values(wall, None, dict(pairs(body)), "system metrics", kind="system")
        elif kind == METRIC:
            made = definition_of(body)
            if made == {"name": "*", "step_name": STEP_METRIC}:
                self._step_name = STEP_METRIC
                self._names.add(self._step_name)
            elif made == {"name": STEP_METRIC}:
                return
            elif "name" in made:
                yield from intake.record({"kind": "define", **made}, self._place)
            else:
                ledger.lose(NO_PLACE, self._place, "a metric without a name", name="definition")
        elif kind == ALERT:
            found = Message(body)
            yield from intake.record(alert_event(found.text(1), found.text(2), found.text(3)), self._place)
        elif kind in (ARTIFACT, USED_ARTIFACT):
            yield from self._artifact(Message(body), is_used=kind == USED_ARTIFACT)
        else:
            self._take(kind, body)

    def _take(self, kind: int, body: bytes) -> None:
        """Take in a message that makes no line by itself."""
        ledger = self._ledger
        if kind == SUMMARY:
            for name, value in pairs(body):
                if name not in self._names and len(self._summary) < _MOST_NAMES:
                    self._summary[name] = value
        elif kind == EXIT:
            self._take_exit(Message(body).integer(1))
        elif kind == ENVIRONMENT:
            ledger.items += 1
            ledger.changed(PART_DROPPED, "environment", "all but program and arguments")
            ledger.done()
        elif kind in (OUTPUT, OUTPUT_RAW):
            ledger.lose(NO_PLACE, "console output", Message(body).text(3), name="console output")
        elif kind in OTHER_ITEMS:
            ledger.lose(NO_PLACE, self._place, OTHER_ITEMS[kind], name=OTHER_ITEMS[kind])

    def _row(self, body: bytes) -> Iterator[bytes]:
        found: dict[str, Any] = {}
        for name, value in pairs(body):
            if name in found:
                # Of two with one name the later, as W&B's summary has it.
                self._ledger.lose(REPEATED, f"{self._place}: {name}", found[name], name=name)
            found[name] = value
        step, wall = found.pop("_step", None) if "_step" in found else step_of(body), found.pop("_timestamp", None)
        found.pop("_runtime", None)
        if self._step_name:
            step = found.pop(self._step_name, None)
            step = int(step) if isinstance(step, float) and step.is_integer() else step
        self._names.update(found)
        yield from self._values(wall, step, found, at_step(step))

    def _values(self, wall: Any, step: Any, found: dict[str, Any], place: str) -> Iterator[bytes]:
        objects = {} if NUMBERS.issuperset(map(type, found.values())) else taken_objects(found)
        yield from self._intake.values(wall, step, found, place)
        for name, each in objects.items():
            here, bins = f"{place}: {name}", bins_of(each)
            if bins is not None:
                yield from self._intake.histogram(self._intake.at(wall, step, here), name, bins, here)
            elif not (yield from self._intake.samples(wall, step, name, self._rows_of(each), here)):
                self._ledger.lose(NO_PLACE, here, each, name=name)

    def _rows_of(self, members: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a table, whose file is in the folder of the run; none of all else."""
        path = members.get("path")
        if not str(members.get(_TYPE)).endswith("table-file") or not isinstance(path, str) or leaves_bundle(path):
            return []
        try:
            with open_file(os.path.join(os.path.dirname(self._path), "files", path)) as file:
                return msgspec.convert(value_of(file.read(MAX_RECORD_BYTES)), _Rows).named()
        except (OSError, msgspec.ValidationError):
            return []

    def _take_exit(self, code: int) -> None:
        is_kept = 0 <= code <= 255
        if not is_kept:
            self._ledger.items += 1
            self._ledger.changed(PART_DROPPED, "exit", code)
            self._ledger.done()
        self._intake.end("completed" if code == 0 else "errored", **({"exit_code": code} if is_kept else {}))

    def _artifact(self, found: Message, *, is_used: bool) -> Iterator[bytes]:
        """Yield a reference to an artifact: its files lie in a folder of W&B's that the log names."""
        name = found.text(3) or found.text(1) if is_used else found.text(5)
        role = "input" if is_used else found.text(4)
        if not name:
            self._ledger.lose(NO_PLACE, self._place, "an artifact without a name", name="artifact")
            return
        self._ledger.changed(PART_DROPPED, self._place, f"the files of artifact {name}")
        made = {"kind": "reference", "uri": f"wandb-artifact:{name}", **({"role": role} if role else {})}
        yield from self._intake.record(made, self._place)


MAGIC = b":W&B"
FILE_HEADER = MAGIC + struct.pack("<HB", 0xBEE1, 0)
BLOCK_BYTES = 1 << 15
MAX_RECORD_BYTES = 1 << 27
"""A longer record is dropped: memory is bounded."""

_CHUNK = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_records(file: BinaryIO) -> Iterator[bytes | Damage]:
    """Yield each record of *file*, and the places that cannot be read; memory does not grow with the file."""
    offset = 0
    parts: list[bytes] = []
    at = len(FILE_HEADER)
    while block := file.read(BLOCK_BYTES):
        for item in _chunks(block, at, offset):
            if isinstance(item, Damage):
                parts = []
                yield item
                continue
            kind, data, place = item
            if kind == _FULL and not parts:
                yield data
                continue
            if kind in (_FULL, _FIRST):
                if parts:
                    yield Damage(place, sum(map(len, parts)), "a record has no end")
                parts = [data]
            elif parts and sum(map(len, parts)) < MAX_RECORD_BYTES:
                parts.append(data)
            else:
                # Its start was damaged, and is reported already.
                parts = []
                continue
            if kind in (_FULL, _LAST):
                yield b"".join(parts)
                parts = []
        at = 0
        offset += len(block)
    if parts:
        yield Damage(offset, sum(map(len, parts)), "the last record is not complete")


def _chunks(block: bytes, at: int, offset: int) -> Iterator[tuple[int, bytes, int] | Damage]:
    """Yield type, data and offset of each chunk of a block from *at* on; after damage look for the next one."""
    crc32, unpack, size = zlib.crc32, _CHUNK.unpack_from, len(block)
    while at + _CHUNK.size <= size:
        checksum, length, kind = unpack(block, at)
        end = at + _CHUNK.size + length
        if end <= size and _FULL <= kind <= _LAST and crc32(block[at + 6 : end]) == checksum:
            yield kind, block[at + _CHUNK.size : end], offset + at
            at = end
            continue
        if not any(block[at:]):
            if size < BLOCK_BYTES or at + _CHUNK.size < size:
                yield Damage(offset + at, size - at, "zeros in place of records")
            return
        after = next((each for each in (end, *range(at + 1, size)) if _is_chunk(block, each)), size)
        yield Damage(offset + at, after - at, "the check sum of a record is wrong")
        at = after
    if at < size < BLOCK_BYTES:
        yield Damage(offset + at, size - at, "the last record is not complete")


def _is_chunk(block: bytes, at: int) -> bool:
    if at + _CHUNK.size > len(block):
        return at in (len(block), BLOCK_BYTES)
    checksum, length, kind = _CHUNK.unpack_from(block, at)
    end = at + _CHUNK.size + length
    return bool(end <= len(block) and _FULL <= kind <= _LAST and zlib.crc32(block[at + 6 : end]) == checksum)


HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, ALERT, METRIC, OUTPUT_RAW = 2, 3, 4, 5, 7, 10, 12, 13
RUN, EXIT, ENVIRONMENT = 17, 18, 26
ARTIFACT, USED_ARTIFACT = 8, 25
OTHER_ITEMS = {9: "TensorBoard file", 23: "preempting"}
"""Records that are items and have no place."""

_LATER = frozenset([*OTHER_ITEMS, RUN, EXIT, ENVIRONMENT, USED_ARTIFACT])

_NOT_FINITE = re.compile(rb"NaN|Infinity")
_decode = msgspec.json.Decoder().decode


STEP_METRIC = "train/step"
"""The metric that all others of an exported or mirrored run are drawn over; ``_step`` counts its rows."""


def kind_and_body(record: bytes) -> tuple[int, bytes]:
    """Return the number and the content of the message in *record*; 0 if it has none that is known."""
    found = (0, b"")
    for number, wire, value in fields(record):
        if wire == BYTES and (number in _LATER or HISTORY <= number <= OUTPUT_RAW):
            found = (number, value)
            if number in (HISTORY, SUMMARY):
                break
    return found


def pairs(body: bytes) -> list[tuple[str, Any]]:
    """Return name and value of each item of a history, summary, config or stats; raise MessageError.

    Names of nested objects are joined by a dot, as W&B shows them.
    """
    # Items of stats have the number 3.
    return [_pair(item) for number, wire, item in fields(body) if number in (1, 3) and wire == BYTES]


def _pair(item: bytes) -> tuple[str, Any]:
    # A row has many: a message of each would take twice the time.
    key, nested, value = "", [], None
    for number, wire, part in fields(item):
        if number == 1 and wire == BYTES:
            key = text(part)
        elif number == 2 and wire == BYTES:
            nested.append(text(part))
        elif read := _VALUES.get((number, wire)):
            value = read(part)
    return ".".join(nested) or key, value


def value_of(data: bytes) -> Any:
    """Return the value of JSON text, which may have NaN and infinities; other text is returned unchanged."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        with suppress(ValueError, RecursionError):
            if _NOT_FINITE.search(data):
                return json.loads(data.decode())
        return text(data)


_VALUES: dict[tuple[int, int], Callable[[Any], Any]] = {
    (16, BYTES): value_of,
    (4, VARINT): bool,
    (5, VARINT): lambda part: part >> 1 ^ -(part & 1),  # sint64
    (6, FIXED64): lambda part: struct.unpack("<d", part)[0],
    (7, BYTES): text,
    (8, BYTES): value_of,
}
"""What reads the value of an item, by the number and the wire type of its field."""


def step_of(body: bytes) -> int | None:
    """Return the step that follows the items of a history; None if there is none."""
    said = Message(body).parts(2)
    return Message(said[0]).integer(1) if said else None


_RUN_FACTS = {6: "group", 8: "name", 9: "notes"}
_RUN_OTHERS = {2: "entity", 3: "project", 7: "job_type", 12: "sweep_id"}


def timestamp(data: bytes) -> float:
    """Return a timestamp message in seconds."""
    found = Message(data)
    return found.integer(1) + found.integer(2) / 1e9


def definition_of(body: bytes) -> dict[str, str]:
    """Return the members of a ``define`` that a metric record gives; without a name if it has none."""
    found = Message(body)
    summary, goals = Message(found.data(7)), {1: "min", 2: "max"}
    goal = goals.get(found.integer(8)) or next((goals[number] for number in goals if summary.integer(number)), "")
    made = {"name": found.text(1) or found.text(2), "goal": goal, "step_name": found.text(4)}
    return {key: value for key, value in made.items() if value}


_TYPE = "_type"


def taken_objects(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Remove the members of objects with a type from *found*, a row, and return them by the name of the object."""
    names = [name.removesuffix(f".{_TYPE}") for name in found if name.endswith(f".{_TYPE}")]
    objects = {name: value for name, value in found.items() if isinstance(value, dict) and _TYPE in value}
    for name in objects:
        del found[name]
    for name in names:
        own = [key for key in found if key.startswith(f"{name}.")]
        objects[name] = {key.removeprefix(f"{name}."): found.pop(key) for key in own}
    return {name: members for name, members in objects.items() if members}


def bins_of(members: dict[str, Any]) -> Bins | None:
    """Return the bins of an object with these *members*; None if it is not a histogram, or not whole."""
    counts, edges = members.get("values"), members.get("bins")
    least, width, count = (members.get(f"packedBins.{key}") for key in ("min", "size", "count"))
    if edges is None and isinstance(count, int) and isinstance(least, int | float) and isinstance(width, int | float):
        edges = [least + width * at for at in range(min(count, 1 << 16) + 1)]
    if members.get(_TYPE) != "histogram" or not isinstance(counts, list) or not isinstance(edges, list):
        return None
    is_whole = len(edges) == len(counts) + 1 and all(type(each) in (int, float) for each in (*edges, *counts))
    return Bins(edges, counts) if is_whole else None
