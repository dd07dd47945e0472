"""What is read of the log of another program, whichever reader makes it.

A ``Row`` is a ``Record``, so everything that takes records takes rows. Besides the line as it lies (``raw``, ``line``,
``offset``) and the object in it (``value``), a row says what any log says: ``step``, ``time``, ``epoch``, ``phase`` and
``values``, the metrics by name. ``toyspec.read(path)`` yields rows where it recognizes a dialect::

    with toyspec.read("trainer_state.json", mode="salvage") as reading:
        for row in reading:
            row.step, row.time, row.epoch, row.phase, row.values
        reading.read_as          # the dialect, and the keys that were chosen; None for toyspec's own profiles
        reading.report           # state, gaps, bytes

``values`` keeps NaN and infinities as floats; null is None. ``time`` is in seconds since the Unix epoch where the time
key is absolute (``row.time_origin == "unix"``), else since the start of the run (``"run"``). ``config`` is what the
record states of the run's settings. A converter counts a member of ``value`` that is in none of them as dropped.
"""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.format.lines import offsets_of
from toyspec.core.format.record_mapping import TimeOrigin, Values  # noqa: TC001 - tools resolve the types of a struct
from toyspec.core.reading.records import Record

if TYPE_CHECKING:
    from toyspec.logs.mapping import RowColumns
    from toyspec.logs.plain_tables import PlainTable


class Row(Record, eq=False, gc=False):
    """One record of another program's log, and what it says."""

    step: int | float | None = None
    """The step; None if the record has none."""
    time: float | None = None
    """Seconds, since ``time_origin``."""
    time_origin: TimeOrigin | None = None
    """``unix`` for times since 1970, ``run`` for times since the start of the run; None without a time."""
    epoch: int | float | None = None
    phase: str | None = None
    values: Values = msgspec.field(default_factory=dict)
    """The metrics by name. NaN and infinities are floats; None is null."""
    attempt: int = 1
    """Number of the attempt, counted from 1; a later one supersedes those before."""
    config: dict[str, Any] | None = None
    """The settings that the record has; None if it has none."""
    run: str | None = None
    """The name of the run that the record has; None if it has none."""
    end: dict[str, Any] | None = None
    """How the run ended, as ``reason`` of ``run_end``, if the record says that."""
    goal: dict[str, str] = msgspec.field(default_factory=dict)
    """``min`` or ``max`` by the name of a metric, if the record says which values of it are better."""

    @property
    def start(self) -> dict[str, Any] | None:
        """The description of the run in the record, as members of ``run_start``; None if it has none."""
        members = {"config": self.config, "name": self.run}
        return {name: value for name, value in members.items() if value} or None

    @property
    def texts(self) -> dict[str, str]:
        """Empty: which texts of another program's log are values, no dialect says."""
        return {}

    @property
    def is_known(self) -> bool:
        """True: a dialect has no kinds."""
        return True

    @property
    def is_step(self) -> bool:
        """False: rows come in any order of their steps."""
        return False

    def drop_value(self) -> None:
        """Keep the object: only its form can decode it."""


class RowBlock(NamedTuple):
    """Successive rows of which nothing but the numbers and phases counts."""

    table: PlainTable
    said: RowColumns
    is_json: bool
    """Whether the lines can be decoded without what came before them, such as a header."""

    @property
    def offset(self) -> int:
        """Byte offset of the first line."""
        return self.table.offset

    @property
    def number(self) -> int:
        """Number of the first line, counted from 1."""
        return self.table.number

    @property
    def lines(self) -> list[bytes]:
        """The lines."""
        return self.table.lines

    def rows(self) -> list[Row]:
        """Return the rows."""
        table, said = self.table, self.said
        nothing: Any = repeat(None)
        names, columns = tuple(said.metrics), zip(*said.metrics.values(), strict=True)
        metrics = (dict(zip(names, row, strict=True)) for row in columns) if names else ({} for _ in table.lines)
        values = nothing
        if not self.is_json:
            values = (dict(zip(table.names, row, strict=True)) for row in zip(*table.columns, strict=True))
        parts = zip(
            zip(table.lines, count(table.number), offsets_of(table.lines, table.offset), strict=False),
            values,
            zip(*(each or nothing for each in (said.steps, said.times, said.epochs, said.phases)), strict=False),
            metrics,
            strict=False,
        )
        return [
            Row(
                raw=raw,
                line=number,
                offset=offset,
                profile=None,
                kind=None,
                _value=value,
                step=step,
                time=time,
                time_origin=said.time_origin,
                epoch=epoch,
                phase=phase,
                values=found,
            )
            for (raw, number, offset), value, (step, time, epoch, phase), found in parts
        ]
