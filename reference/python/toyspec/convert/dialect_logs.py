"""Imports the logs that toyspec reads as dialects: JSON Lines, CSV, JSON documents and console lines."""

from __future__ import annotations

import heapq
import os
import re
import tempfile
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, islice
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.formats import FileOwners, ForeignRun
from toyspec.convert.intake import PHASES, earliest
from toyspec.convert.reports import NO_PLACE, REPEATED, Cause, drop_damage, is_number
from toyspec.convert.sources import files_below, is_file, name_below
from toyspec.core.directories import new_file
from toyspec.core.errors import StreamError
from toyspec.core.files import open_file
from toyspec.core.format.canonical import InvalidEventError, encode
from toyspec.core.format.flattening import flattened
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice, manifest_start, read_manifest
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Row
from toyspec.core.reading.stream_files import GzipDataError, unpacked_head
from toyspec.core.runs.discovery import is_older_checkpoint
from toyspec.core.writing.events import check_record
from toyspec.logs.dialects import dialect_named, dialects
from toyspec.logs.forms import form_of, has_repeated_key, repeated_members
from toyspec.logs.mapping import Mapping as LogMapping
from toyspec.logs.mapping import count_of, prefix_of, time_of
from toyspec.logs.reader import DialectLog
from toyspec.logs.recognition import has_text, recognize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from toyspec.convert.intake import Intake
    from toyspec.core.reading.records import RowBlock
    from toyspec.logs.dialects import Dialect
    from toyspec.logs.mapping import ReadAs


_SKIPPED = (".py", ".md", ".png", ".pt", ".bin", ".safetensors", ".yaml", ".toml", ".npy", ".npz")
PHASE = Cause("phase", "changed", "a phase that toy/v1 does not have is put before the names")

# Some programs write other records before those with times and settings.
_FIRST_ROWS = 1000
_ADVANCE_BYTES = 1 << 16
_DIGITS = re.compile(r"\d+", re.ASCII)
# The first file may have other records than those that the dialect is known by.
_MOST_HEADS = 4
_PIECE_BYTES = 1 << 20
_Key = tuple[float, float]
_FIRST: _Key = (-inf, -inf)


class DialectImporter:
    """Imports one dialect, or any."""

    def __init__(self, name: str | None, others: FileOwners | None, dialect: DialectChoice | None) -> None:
        """Import the dialect *name*; any without. The files of *others* are left out.

        *dialect* has the dialects of the user, and the key of the step.
        """
        self._choice = dialect or DialectChoice()
        self._name = name
        self._others = others or FileOwners()

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield a run for each log at *path* and below; a file is read by the dialect that the user named."""
        if not os.path.isdir(path):
            alone = _Log([path], _head(path))
            chosen = self._chosen(alone, self._name or self._choice.name)
            yield from () if chosen is None else _runs(alone, chosen, alone.stem)
            return
        for directory, files in files_below(path, lambda name: not name.endswith(_SKIPPED)):
            logs = _logs_in([file for file in files if self._others.owner_of(file) is None])
            found = [(log, chosen) for log in logs if (chosen := self._recognised(log)) is not None]
            for log, chosen in found:
                stem = f"-{log.stem}" if log.dialect is None and len(found) > 1 else ""
                yield from _runs(log, chosen, name_below(path, directory) + stem)

    def _recognised(self, log: _Log) -> ReadAs | None:
        """Return how *log* is read if its content is of the dialect."""
        if self._name:
            own = next((each for each in self._choice.own if each.name == self._name), None)
            if not has_text(log.head, own or dialect_named(self._name)):
                return None
        found = self._chosen(log, "auto" if self._name else self._choice.name)
        return found if found is None or self._name in (None, found.dialect.name) else None

    def _chosen(self, log: _Log, name: str | None) -> ReadAs | None:
        head, choice = log.head, DialectChoice(name, keys=self._choice.keys, own=self._choice.own)
        found = choice.choose(head, path=log.files[0]) if head else None
        return found if isinstance(found, DialectLog) else None


class _Log(NamedTuple):
    """A log in one file, or in several: successive ones, or files that grow together."""

    files: list[str]
    """Their paths, in order."""
    head: bytes
    """The first bytes of the file that shows what it is, unpacked."""
    dialect: Dialect | None = None
    """The dialect of a log in several files."""

    @property
    def stem(self) -> str:
        """The name of the first file without what is after its last dot."""
        return os.path.splitext(os.path.basename(self.files[0]).removesuffix(".gz"))[0]

    @contextmanager
    def merged(self) -> Iterator[str]:
        """Give the path of the log: of several files, that of a temporary file; raise OSError.

        Lines of files that grow together are in the order of their times, and of their steps within one time.
        """
        if self.dialect is None:
            yield self.files[0]
            return
        keyed = [_keyed(path, self.dialect) for path in self.files]
        lines = heapq.merge(*keyed, key=itemgetter(0)) if self.dialect.parts == "together" else chain(*keyed)
        with tempfile.TemporaryDirectory(prefix="toyspec-") as directory:
            path = os.path.join(directory, os.path.basename(self.files[0]))
            with new_file(path) as file:
                file.writelines(line for _, line in lines)
            yield path


def _head(path: str) -> bytes:
    """Return the first bytes of the file *path*, unpacked; none of what is not a file, or is damaged gzip data."""
    try:
        return unpacked_head(path, HEAD_BYTES)[0] if is_file(path) else b""
    except (StreamError, GzipDataError):
        return b""


def _logs_in(files: Sequence[str]) -> Iterator[_Log]:
    """Yield the logs in *files*, those of one directory; one in several files is known by names and first records."""
    alone = [file for file in files if not is_older_checkpoint(file)]
    for dialect in dialects():
        patterns = dialect.files if dialect.parts else ()
        ordered = sorted(files, key=_place)
        matches = (path for each in patterns for path in ordered if fnmatchcase(os.path.basename(path), each))
        parts = list(dict.fromkeys(matches))
        heads = islice(filter(None, map(_head, parts)), _MOST_HEADS)
        head = next((head for head in heads if recognize(head, [dialect])), None)
        if head is not None:
            yield _Log(parts, head, dialect)
            alone = [file for file in alone if file not in parts]
    yield from (_Log([file], _head(file)) for file in alone)


def _place(path: str) -> str:
    """Return what orders *path* by the numbers in its name, however many digits each has."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(20), os.path.basename(path))


def _keyed(path: str, dialect: Dialect) -> Iterator[tuple[_Key, bytes]]:
    """Yield the lines of a file, long ones in pieces, each with what orders it; times do not go back.

    An LF is added at an end without one, so that no line goes on in the next file.
    """
    form, key, piece = form_of(dialect), _FIRST, b"\n"
    with open_file(path) as file:
        while read := file.readline(_PIECE_BYTES):
            record = {}
            if dialect.parts == "together" and piece.endswith(b"\n"):
                line = read.rstrip(b"\r\n")
                record = form.read(line, first=False) or form.validate(line, first=False).value or {}
            times = (time_of(record.get(each.key), each.unit) for each in dialect.time)
            time = next((found[0] for found in times if found is not None), None)
            if time is not None:
                steps = (count_of(record.get(name)) for name in dialect.step)
                key = max(key, (time, next((float(step) for step in steps if step is not None), -inf)))
            yield key, (piece := read)
    if not piece.endswith(b"\n"):
        yield key, b"\n"


def _runs(log: _Log, read_as: ReadAs, name: str) -> Iterator[ForeignRun]:
    attempts = 1
    source = log.files[0] if log.dialect is None else os.path.dirname(log.files[0])
    # No dialect in parts has attempts.
    if log.dialect is None and read_as.dialect.restart is not None:
        with read(source, mode="salvage", dialect=_choice_of(read_as)) as reading:
            attempts = max((row.attempt for row in reading), default=1)
    for attempt in range(1, attempts + 1):
        yield ForeignRun.of(
            name if attempt == 1 else f"{name}-attempt-{attempt}",
            source if attempt == 1 else f"{source}#{attempt}",
            log.files,
            partial(_records, log, read_as, name, attempt),
            f"{read_as.dialect.name} {read_as.step} {attempt}",
            share=attempts,
            dialect=read_as.dialect.name,
        )


def _records(log: _Log, read_as: ReadAs, name: str, attempt: int, intake: Intake) -> Iterator[bytes]:
    with log.merged() as path:
        yield from _DialectImport(path, read_as, attempt, intake).lines(name)
    if log.dialect is not None:
        intake.ledger.note(f"lines are counted through its {len(log.files)} files, as they are read")


def _choice_of(read_as: ReadAs) -> DialectChoice:
    """Return the choice of the dialect of *read_as*, which may be one of the user, and of its step."""
    step = () if read_as.step is None else (read_as.step,)
    return DialectChoice(read_as.dialect.name, own=(msgspec.structs.replace(read_as.dialect, step=step),))


class _DialectImport:
    """Hands one attempt of the log at a path to an intake."""

    def __init__(self, path: str, read_as: ReadAs, attempt: int, intake: Intake) -> None:
        self._path = path
        self._read_as = read_as
        self._attempt = attempt
        # Trainings that only their steps distinguish are one run, as its notes say.
        self._has_attempts = read_as.dialect.restart is not None
        self._intake = intake
        self._ledger = intake.ledger
        self._config: Mapping[str, Any] = {}
        self._is_json = read_as.dialect.form.type not in {"csv", "pattern"}
        self._mapping = LogMapping(read_as)
        self._step = read_as.step
        self._time = read_as.time.key if read_as.time else None
        end, define, marks = read_as.dialect.end, read_as.dialect.define, read_as.dialect.recognize.equals
        self._marks = [*marks.items(), *((each.key, each.equals) for each in (end, define) if each is not None)]
        """Members that say what a record is."""

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of the run *name*."""
        origin, time = self._learn()
        dialect = self._read_as.dialect
        began, facts, rest = self._manifest()
        self._config = facts.get("config", self._config)
        began = 0.0 if origin == "run" else earliest((began, time))
        yield from self._intake.begin(began, rest=rest, **{"name": name, **facts, "config": self._config})
        if origin is None:
            self._ledger.note("the source has no times, so t is 0 in every record")
        if dialect.loses:
            self._ledger.note(dialect.loses)
        self._config = flattened(self._config)
        for row in self._rows():
            lines = None if isinstance(row, Row) else self._of_block(row)
            if lines is not None:
                yield lines
                continue
            for each in [row] if isinstance(row, Row) else row.rows():
                if each.end:
                    self._intake.end(each.end["reason"])
                yield from self._of_row(each)

    def _manifest(self) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Return the start, the members of ``run_start`` and the rest of what the manifest beside the log has."""
        folder, members = os.path.dirname(self._path), self._read_as.dialect.manifest
        manifest = (read_manifest(folder) if members else None) or {}
        found = manifest_start(folder, self._read_as.dialect.name) if manifest else {}
        began = found.pop("created_at", None)
        if experiment := found.pop("experiment", None):
            found.setdefault("group", experiment)
        facts = {name: value for name, value in found.items() if _is_fact(name, value)}
        kept = [key for name, key in members.items() if name.partition("/")[0] in facts]
        return began, facts, {key: value for key, value in manifest.items() if key not in kept}

    def _rows(self) -> Iterator[Row | RowBlock]:
        with read(self._path, mode="salvage", dialect=_choice_of(self._read_as)) as reading:
            reading.give_blocks()
            offset = 0
            row: Any
            for row in reading:
                if not self._has_attempts or row.attempt == self._attempt:
                    yield row
                    if row.offset - offset > _ADVANCE_BYTES:
                        self._ledger.advance(row.offset - offset)
                        offset = row.offset
            report = reading.report
        if self._attempt > 1:
            return
        for note in report.dialect.notes if report.dialect is not None else ():
            self._ledger.note(note)
        drop_damage(report, self._ledger)

    def _learn(self) -> tuple[str | None, float | None]:
        """Take the settings from the first record with some; return origin and time of the first one with a time."""
        origin, time = None, None
        has_config, has_times = bool(self._read_as.dialect.config), self._read_as.time is not None
        with read(self._path, mode="salvage", dialect=_choice_of(self._read_as)) as reading:
            own = (row for row in reading if not self._has_attempts or row.attempt == self._attempt)
            row: Any
            for row in islice(own, _FIRST_ROWS):
                self._config = self._config or row.config or {}
                if time is None:
                    origin, time = row.time_origin, row.time
                if (self._config or not has_config) and (time is not None or not has_times):
                    break
        return origin, time

    def _of_block(self, block: RowBlock) -> bytes | None:
        """Return the lines of *block*; None if its rows have anything but metrics that are carried."""
        text = b"\n".join(block.lines)
        if block.unused or (self._is_json and has_repeated_key(text, block.objects[0], len(block.lines))):
            return None
        lines = self._intake.rows(
            block.metrics, walls=block.times, steps=block.steps, epoch=block.epochs, phase=block.phases
        )
        if lines is not None:
            self._ledger.carry(len(block.lines) * (len(block.columns) - len(block.metrics)))
        return lines

    def _of_row(self, row: Row) -> Iterator[bytes]:
        place = f"line {row.line}" if row.step is None else f"line {row.line}, step {row.step}"
        members, hidden = row.members, row.hidden
        if self._is_json and has_repeated_key(row.raw, row.value):
            hidden = [*hidden, *repeated_members(row.raw[row.raw.find(b"{") :])]
        for name, lost in hidden:
            self._ledger.lose(REPEATED, f"{place}: {name}", lost, name=name)
        for name, goal in row.goal.items():
            t = self._intake.timeline.t(row.time, place)
            yield from self._intake.record({"kind": "define", "t": t, "name": name, "goal": goal}, place)
        framing, placed = self._framing(row)
        values = self._values(row, members, placed, place)
        for key in (key for key in members if key in placed):
            self._settle(key, members[key], place, is_kept=bool(values))
        if row.phase not in PHASES and row.phase is not None and values and prefix_of(row.phase):
            self._ledger.changed(PHASE, place, row.phase, f"{row.phase}/…")
        step = members.get(self._step or "") if row.step is None else row.step
        yield from self._intake.values(row.time, step, values, place, **framing)

    def _framing(self, row: Row) -> tuple[dict[str, Any], AbstractSet[str | None]]:
        """Return phase and epoch of *row*, and the keys of all that is not a value."""
        framing: dict[str, Any] = {}
        placed = {self._step}
        if row.time is not None:
            placed.add(self._time)
        if row.epoch is not None and 0 <= row.epoch < inf:
            framing["epoch"] = float(row.epoch)
            placed.add(self._read_as.epoch)
        if row.phase is not None:
            placed.add(self._read_as.phase)
        if row.phase in PHASES:
            framing["phase"] = row.phase
        return framing, placed

    def _values(
        self, row: Row, members: Mapping[str, Any], placed: AbstractSet[str | None], place: str
    ) -> dict[str, Any]:
        """Return the metrics of *row* by name, and with them its texts, truths and lists.

        Other numbers, which the dialect does not take for metrics, are left out, as is a record without metrics.
        """
        values: dict[str, Any] = dict(row.values)
        others = [key for key in members if key not in values and key not in placed]
        if not others:
            return values
        keys = self._read_as.dialect.values
        if keys.name and isinstance(named := row.value.get(keys.name), str):
            # A record with one value by its name, which may be a text.
            if not values and row.value.get(keys.value) is not None:
                values[named] = row.value[keys.value]
            others = [key for key in others if key not in (keys.name, keys.value)] if values else others
        end, config, define = self._read_as.dialect.end, self._read_as.dialect.config, self._read_as.dialect.define
        for key in others:
            value = members[key]
            is_known = value is None or (key, value) in self._marks
            is_known |= end is not None and key == end.reason and value in end.reasons
            is_known |= define is not None and bool(row.goal) and key in (define.name, define.goal)
            is_setting = config and self._config.get(key.removeprefix(f"{config}/"), self) == value
            if row.values and not keys.name and self._mapping.is_metric(key, value):
                continue  # among the values already, under the name of its phase
            if is_known or is_setting:
                self._ledger.carry()
            elif values and not is_number(value):
                values.setdefault(key, value)
            else:
                self._settle(key, value, place, is_kept=False)
        return values

    def _settle(self, key: str, value: Any, place: str, *, is_kept: bool) -> None:
        if is_kept:
            self._ledger.carry()
        else:
            self._ledger.lose(NO_PLACE, f"{place}: {key}", value, name=key)


def _is_fact(name: str, value: Any) -> bool:
    """Return whether a ``run_start`` may have the member *name* with this *value*."""
    try:
        check_record(
            encode({"kind": "run_start", "t": 0.0, "schema": "toy/v1", "run_id": "r", name: value}), "run_start"
        )
    except InvalidEventError:
        return False
    return True
