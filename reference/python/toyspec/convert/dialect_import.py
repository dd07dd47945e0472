"""Reads one log that toyspec reads as a dialect, row by row, for an import."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.intake import PHASES
from toyspec.convert.losses import NO_PLACE, REPEATED, Cause, drop_damage, is_number
from toyspec.core.format.flattening import flattened
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.rows import Row
from toyspec.logs import mapping as dialect_mapping
from toyspec.logs.forms import has_repeated_key, may_repeat_keys, repeated_members
from toyspec.logs.mapping import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from toyspec.convert.intake import Intake
    from toyspec.core.reading.rows import RowBlock
    from toyspec.logs.mapping import ReadAs

PHASE = Cause("phase", "changed", "a phase that toy/v1 does not have is put before the names")

# Some programs write other records before those with times and settings.
_FIRST_ROWS = 1000
_ADVANCE_BYTES = 1 << 16


def choice_of(read_as: ReadAs) -> DialectChoice:
    """Return the choice of the dialect of *read_as*, which may be one of the user, and of its step."""
    step = () if read_as.step is None else (read_as.step,)
    return DialectChoice(read_as.dialect.name, own=(msgspec.structs.replace(read_as.dialect, step=step),))


class DialectImport:
    """Hands one attempt of the log at a path to an intake."""

    def __init__(self, path: str, read_as: ReadAs, attempt: int, intake: Intake) -> None:
        self._path = path
        self._read_as = read_as
        self._attempt = attempt
        self._intake = intake
        self._ledger = intake.ledger
        self._config: Mapping[str, Any] = {}
        self._is_json = read_as.dialect.form.type not in {"csv", "pattern"}
        self._mapping = dialect_mapping.Mapping(read_as)
        self._step = read_as.step
        self._time = read_as.time.key if read_as.time else None

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of the run *name*."""
        origin, time = self._learn()
        dialect = self._read_as.dialect
        yield from self._intake.begin(0.0 if origin == "run" else time, name=name, config=self._config)
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

    def _rows(self) -> Iterator[Row | RowBlock]:
        with read(self._path, mode="salvage", dialect=choice_of(self._read_as)) as reading:
            reading.give_numbers()
            offset = 0
            row: Any
            for row in reading:
                if not isinstance(row, Row) or row.attempt == self._attempt:
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

    def _of_block(self, block: RowBlock) -> bytes | None:
        """Return the lines of *block*; None if its rows have anything but metrics that are carried."""
        said, count = block.said, len(block.lines)
        if said.unused or (block.is_json and may_repeat_keys(b"\n".join(block.lines), block.table.keys * count)):
            return None
        lines = self._intake.rows(
            said.metrics, walls=said.times, steps=said.steps, epoch=said.epochs, phase=said.phases
        )
        if lines is not None:
            self._ledger.carry(count * (len(block.table.names) - len(said.metrics)))
        return lines

    def _of_row(self, row: Row) -> Iterator[bytes]:
        place = f"line {row.line}" if row.step is None else f"line {row.line}, step {row.step}"
        hidden: list[tuple[str, Any]] = []
        value = row.value
        members = flattened(value, hidden=hidden)
        if self._is_json and has_repeated_key(row.raw, value):
            hidden += repeated_members(row.raw[row.raw.find(b"{") :])
        for name, lost in hidden:
            self._ledger.lose(REPEATED, f"{place}: {name}", lost, name=name)
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
        end, config = self._read_as.dialect.end, self._read_as.dialect.config
        for key in others:
            value = members[key]
            is_known = value is None or (end is not None and key == end.reason and value in end.reasons)
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
