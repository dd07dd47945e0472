"""Makes toy/v1 events from the rows of one log that toyspec reads as a dialect."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.losses import (
    NO_PLACE,
    REPEATED,
    Cause,
    as_measure,
    drop_damage,
    step_member,
)
from toyspec.convert.scalar_lines import line_of_record, lines_of_records
from toyspec.convert.timeline import Timeline
from toyspec.format.flattening import flattened
from toyspec.logs import mapping as dialect_mapping
from toyspec.logs.forms import has_repeated_key, may_repeat_keys, repeated_members
from toyspec.logs.mapping import prefix_of
from toyspec.logs.plain_tables import UNUSABLE
from toyspec.reading import rows
from toyspec.reading.log_detection import DialectChoice
from toyspec.reading.reader import read
from toyspec.writing.event_checks import check_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toyspec.convert.losses import Ledger
    from toyspec.logs.mapping import ReadAs
    from toyspec.logs.row_columns import RowColumns

    Events = Iterator[dict[str, Any] | bytes]

PHASE = Cause("phase", "changed", "a phase that toy/v1 does not have is put before the names")
TEXT_AS_NOTE = Cause("text-as-note", "changed", "a value that is not a number becomes a note")

_LARGEST_EXACT = 2**53
# Some programs write other records before those with times and settings.
_FIRST_ROWS = 1000
_PHASES = frozenset(["train", "eval", "decode", "serve"])


def choice_of(read_as: ReadAs) -> DialectChoice:
    """Return the choice of the dialect of *read_as*, which may be one of the user, and of its step."""
    step = () if read_as.step is None else (read_as.step,)
    return DialectChoice(read_as.dialect.name, own=(msgspec.structs.replace(read_as.dialect, step=step),))


def events_of(path: str, read_as: ReadAs, name: str, attempt: int, ledger: Ledger) -> Events:
    """Yield the events of the attempt *attempt* in the log *path*, as the run *name*."""
    return _Import(path, read_as, attempt, ledger).events(name)


class _Import:
    """Reads one attempt of one log."""

    def __init__(self, path: str, read_as: ReadAs, attempt: int, ledger: Ledger) -> None:
        self._path = path
        self._read_as = read_as
        self._attempt = attempt
        self._ledger = ledger
        self._timeline: Timeline
        self._config: dict[str, Any] = {}
        self._is_json = read_as.dialect.form.type not in {"csv", "pattern"}
        time = read_as.time.key if read_as.time else None
        self._mapping = dialect_mapping.Mapping(read_as)
        self._own = {"step": read_as.step, "time": time, "epoch": read_as.epoch, "phase": read_as.phase}

    def _rows(self) -> Iterator[rows.Row | rows.RowBlock | rows.MixedBlock]:
        with read(self._path, mode="salvage", dialect=choice_of(self._read_as)) as reading:
            reading.give_numbers("tables")
            offset = 0
            row: Any
            for row in reading:
                if not isinstance(row, rows.Row) or row.attempt == self._attempt:
                    yield row
                    self._ledger.advance(max(0, row.offset - offset))
                    offset = max(offset, row.offset)
            report = reading.report
        if self._attempt > 1:
            return
        for note in report.dialect.notes if report.dialect is not None else ():
            self._ledger.note(note)
        drop_damage(report, self._ledger)

    def events(self, name: str) -> Events:
        """Yield ``run_start`` and a record for each row with values."""
        origin, time = self._learn()
        self._timeline = Timeline(self._ledger, 0.0 if origin == "run" else time)
        start = self._timeline.run_start(name=name)
        if origin is None:
            self._ledger.note("the source has no times, so t is 0 in every record")
        if self._config:
            start["config"] = self._config
        self._note_dialect()
        yield start
        reason = None
        for row in self._rows():
            if isinstance(row, rows.Row):
                reason = row.end["reason"] if row.end else reason
                yield from self._of_row(row)
                continue
            lines = self._lines(row) if isinstance(row, rows.RowBlock) else self._mixed_lines(row)
            if lines is None:
                for each in row.rows():
                    yield from self._of_row(each)
            else:
                yield lines
        if reason is not None:
            yield {"kind": "run_end", "t": self._timeline.last, "reason": reason}

    def _learn(self) -> tuple[str | None, float | None]:
        """Take the settings from the first record with some; return origin and time of the first one with a time."""
        origin, time = None, None
        has_config, has_times = bool(self._read_as.dialect.config), self._read_as.time is not None
        with read(self._path, mode="salvage", dialect=choice_of(self._read_as)) as reading:
            own = (row for row in reading if row.attempt == self._attempt)
            row: Any
            for row in islice(own, _FIRST_ROWS):
                self._config = self._config or row.config or {}
                if time is None:
                    origin, time = row.time_origin, row.time
                if (self._config or not has_config) and (time is not None or not has_times):
                    break
        return origin, time

    def _note_dialect(self) -> None:
        if self._read_as.dialect.loses:
            self._ledger.note(self._read_as.dialect.loses)

    def _lines(self, block: rows.RowBlock) -> bytes | None:
        """Return the lines of *block*, settled as carried; None if something in it has to be changed or dropped."""
        count = len(block.lines)
        if block.is_json and may_repeat_keys(b"\n".join(block.lines), block.table.keys * count):
            return None
        times = self._times(block.said.times, count) if self._is_carried(block.said) else None
        return None if times is None else self._carried(block, times)

    def _mixed_lines(self, mixed: rows.MixedBlock) -> bytes | None:
        """Return what ``_lines`` does, for rows in which different cells are blank."""
        if not all(self._is_carried(block.said) for _, block in mixed.blocks):
            return None
        count = len(mixed.lines)
        walls: list[float] = [0.0] * count
        for places, block in mixed.blocks:
            for place, wall in zip(places, block.said.times or (), strict=False):
                walls[place] = wall
        has_times = {block.said.times is not None for _, block in mixed.blocks}
        times = self._times(walls if True in has_times else None, count) if len(has_times) == 1 else None
        if times is None:
            return None
        made = [b""] * count
        for places, block in mixed.blocks:
            lines = self._carried(block, [times[place] for place in places])
            for place, line in zip(places, lines.split(b"\n"), strict=False):
                made[place] = line
        self._timeline.take(times[-1])
        return b"\n".join([*made, b""])

    def _is_carried(self, said: RowColumns) -> bool:
        return bool(said.metrics) and _is_carried(said) and self._own["step"] != self._own["epoch"]

    def _carried(self, block: rows.RowBlock, times: list[float]) -> bytes:
        """Return the lines of *block* at *times*, settled as carried."""
        said, count = block.said, len(block.lines)
        self._timeline.take(times[-1])
        self._ledger.carry(count * len(block.table.names))
        members: dict[str, Sequence[Any]] = {"t": times}
        if said.phases is not None:
            members["phase"] = said.phases
        if said.steps is not None:
            members["step"] = said.steps
        if said.epochs is not None:
            members["epoch"] = list(map(float, said.epochs))
        lines = lines_of_records(members, {name: list(map(float, each)) for name, each in said.metrics.items()})
        # The others differ in their numbers only.
        check_record(lines[: lines.index(b"\n")], "scalars")
        return lines

    def _times(self, walls: Sequence[float] | None, count: int) -> list[float] | None:
        """Return ``t`` of each row; None if one of the times has to be changed."""
        timeline = self._timeline
        if walls is None or timeline.start is None:
            return [timeline.last] * count
        start = timeline.start
        times = [wall - start + 0.0 for wall in walls]
        return times if timeline.follows(times) else None

    def _of_row(self, row: rows.Row) -> Events:
        place = f"line {row.line}" if row.step is None else f"line {row.line}, step {row.step}"
        members = self._members(row, place)
        self._ledger.items += len(members)
        note = self._note(row, place)
        if not row.values and note is None:
            for key, value in members.items():
                self._settle_other(key, value, place)
            return
        record = self._frame(row, members, place)
        if note is None:
            record["values"] = self._values(row, members, place)
        else:
            record |= {"kind": "note", "text": note}
            self._ledger.done()
        used = self._used(row, members, note is not None)
        for key, value in members.items():
            if key not in used:
                self._settle_other(key, value, place)
        yield record if note is not None else line_of_record(record) or record

    def _members(self, row: rows.Row, place: str) -> Mapping[str, Any]:
        """Return the members of *row*, flattened; those whose name another one has are dropped."""
        hidden: list[tuple[str, Any]] = []
        members = flattened(row.value, hidden=hidden)
        if self._is_json and has_repeated_key(row.raw, row.value):
            hidden += repeated_members(row.raw[row.raw.find(b"{") :])
        for name, value in hidden:
            self._ledger.lose(REPEATED, f"{place}: {name}", value)
        return members

    def _frame(self, row: rows.Row, members: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return the record without its values; the keys of step, time, epoch and phase are settled."""
        ledger = self._ledger
        record: dict[str, Any] = {"kind": "scalars"}
        own = {part: key for part, key in self._own.items() if key is not None and key in members}
        phase = row.phase if row.phase in _PHASES else None
        if phase is not None:
            record["phase"] = phase
        record["t"] = self._timeline.t(row.time, place)
        if "time" in own:
            ledger.done()
        if "step" in own and own["step"] != own.get("epoch"):
            record |= step_member(members[own["step"]] if row.step is None else row.step, place, ledger)
            ledger.done()
        elif "step" in own and type(row.step) is int and row.step >= 0:
            record["step"] = row.step
        if "epoch" in own:
            self._add_epoch(record, row, place)
        if "phase" in own:
            self._settle_phase(row.phase, members[own["phase"]], place)
        return record

    def _settle_phase(self, phase: str | None, member: Any, place: str) -> None:
        if phase is None:
            self._ledger.drop(NO_PLACE, f"{place}: {self._own['phase']}", member)
            return
        if phase not in _PHASES and prefix_of(phase):
            self._ledger.changed(PHASE, place, phase, f"{phase}/…")
        self._ledger.done()

    def _add_epoch(self, record: dict[str, Any], row: rows.Row, place: str) -> None:
        if row.epoch is not None and 0 <= row.epoch < float("inf"):
            record["epoch"] = float(row.epoch)
            self._ledger.done()
        else:
            self._ledger.drop(NO_PLACE, f"{place}: epoch", row.epoch)

    def _values(self, row: rows.Row, members: Mapping[str, Any], place: str) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        # The name of a value is a member of its own, if the record has it.
        key = self._read_as.dialect.values.name
        has_pairs = bool(key) and key in members
        for name, value in row.values.items():
            found[name] = None if value is None else as_measure(value, f"{place}: {name}", self._ledger)
            self._ledger.done()
            if has_pairs:
                self._ledger.done()
        return found

    def _note(self, row: rows.Row, place: str) -> str | None:
        """Return the text of a note for a record that names a value which is not a number."""
        keys = self._read_as.dialect.values
        name, value = row.value.get(keys.name), row.value.get(keys.value)
        if not keys.name or row.values or not isinstance(name, str) or value is None or isinstance(value, dict):
            return None
        self._ledger.changed(TEXT_AS_NOTE, f"{place}: {name}", value, f"{name}: {value}")
        self._ledger.done()
        return f"{name}: {value}"

    def _used(self, row: rows.Row, members: Mapping[str, Any], is_note: bool) -> set[str | None]:
        keys = self._read_as.dialect.values
        used = set(self._own.values())
        if keys.name:
            return used | {keys.name, keys.value} if row.values or is_note else used
        return used | {key for key, value in members.items() if self._mapping.is_metric(key, value)}

    def _settle_other(self, key: str, value: Any, place: str) -> None:
        """Settle a member that is not a metric: a setting that run_start has, else it is dropped."""
        config, end = self._read_as.dialect.config, self._read_as.dialect.end
        if end is not None and key == end.reason and value in end.reasons:
            self._ledger.done()
            return
        if config and key.startswith(f"{config}/"):
            name = key.removeprefix(f"{config}/")
            if flattened(self._config).get(name, self) == value:
                self._ledger.done()
                return
        self._ledger.drop(NO_PLACE, f"{place}: {key}", value)


def _is_carried(said: RowColumns) -> bool:
    """Return whether all members but the times have a place, and are the same there."""
    largest = max((max(map(abs, each)) for each in said.metrics.values() if int in set(map(type, each))), default=0)
    return (
        not said.unused
        and not any(map(UNUSABLE.search, said.metrics))
        and largest <= _LARGEST_EXACT
        and (said.steps is None or min(said.steps) >= 0)
        and (said.epochs is None or 0 <= min(said.epochs) <= max(said.epochs) <= _LARGEST_EXACT)
        and (said.phases is None or _PHASES.issuperset(said.phases))
    )
