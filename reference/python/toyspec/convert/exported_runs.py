"""Reads a toy/v1 run for an exporter, item by item."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.convert.incoming_files import file_below
from toyspec.convert.losses import (
    MILLISECONDS,
    NO_PLACE,
    OTHER_RANK,
    SUPERSEDED,
    Ledger,
    drop_damage,
)
from toyspec.errors import SourceError
from toyspec.format.date_times import unix_seconds
from toyspec.format.numbers import number
from toyspec.format.run_files import media_file, ranks_beside
from toyspec.generated.fields import FIELDS
from toyspec.reading.annotations import read_annotations
from toyspec.reading.attempts import Attempts
from toyspec.reading.reader import read
from toyspec.reading.stream_files import locate_stream, stream_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toyspec.reading.records import Record

ItemKind = Literal["setting", "fact", "measure", "text", "note", "definition", "resume", "end", "record"]
"""What an item is.

- ``setting``: a value of ``config``; names of nested objects are joined by ``/``.
- ``fact``: another member of run_start, for example ``tags``.
- ``measure``: a number, or null, at a time.
- ``text``: a text at a time; see ``Record.texts``.
- ``end``: a member of run_end, for example ``reason``.
- ``record``: a record that is none of these; its value is all of it.
"""

_FRAMING = frozenset(["kind", "schema", "t", "run_id", "started_at", "phase", "step"])
_ENDING = frozenset(["kind", "t", "ended_at", "final_step", "final_loss", "phase", "step"])
# What is in the objects is a number or a text, or says what null was.
_HELD = frozenset(["kind", "phase", "t", "step", "epoch", "name"])
_OBJECTS = frozenset(["extra", "values", "texts", "nonfinite"])
_MEASURED = frozenset(["step", "scalars", "eval", "system"])
_ADVANCE_BYTES = 1 << 18
_KINDS_WITH_FILES = frozenset(["media", "artifact"])
_OTHER_KINDS: dict[str, ItemKind] = {"note": "note", "define": "definition", "run_resume": "resume"}


class Item(NamedTuple):
    """The smallest unit that an exporter carries, changes or drops."""

    kind: ItemKind
    name: str
    value: Any
    record: dict[str, Any]
    """The record that it is from."""
    t: float
    """Seconds since the start of the run."""
    step: int | None
    place: str
    """For reports."""


class ExportedRun:
    """A toy/v1 run to export."""

    def __init__(self, path: str) -> None:
        """Open the run at *path*, a run directory or a stream; raise SourceError or StreamError if it is none."""
        self.path = path
        self.stream = locate_stream(path)
        self._attempts = Attempts()
        self._started_at: int | None = None
        self.start: dict[str, Any] = {}
        """The first run_start, with what annotations say in place of it; empty where there is none."""
        self.end: dict[str, Any] | None = None
        """The last run_end; None where there is none, and where the run has gone on after it."""
        self.size = stream_size(self.stream)
        annotations = read_annotations(self.stream)
        with read(self.stream, mode="salvage") as reading:
            for record in reading:
                self._attempts.learn(record)
                if record.kind == "run_start" and not self.start:
                    self.start = annotations.over(record.value) if annotations.count else record.value
                    self._started_at = record.offset
                self.end = record.end or (None if record.goes_on else self.end)
            profile = reading.report.profile
        if profile != "toy/v1":
            fact = "not a toy/v1 run" if profile is None else f"a {profile} run"
            raise SourceError(path, f"{fact}; only toy/v1 is exported. `toyspec import` makes a toy/v1 run of it")
        name = self.start.get("run_id")
        folder = os.path.basename(os.path.dirname(os.path.abspath(self.stream)))
        self.run_id: str = name if isinstance(name, str) and name else folder
        self.started = unix_seconds(self.start.get("started_at"))
        """Start of the run in seconds since the Unix epoch; None where it is not known."""

    def ledger(self, *, max_examples: int, watch: Callable[[int], None] | None = None) -> Ledger:
        """Return the ledger of an export of the run ; the logs of its other ranks are dropped in it."""
        ledger = Ledger(max_examples=max_examples, watch=watch)
        for rank, path in ranks_beside(self.stream).items():
            ledger.lose(OTHER_RANK, f"rank {rank}", os.path.basename(path))
        return ledger

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name; names of nested objects are joined by ``/``."""
        config = self.start.get("config")
        return dict(_flat(config)) if isinstance(config, dict) else {}

    def wall(self, t: float) -> float:
        """Return *t* in seconds since the Unix epoch; since the start of the run where that is not known."""
        return (self.started or 0.0) + t

    def wall_ms(self, item: Item, ledger: Ledger) -> int:
        """Return the time of *item* as ``wall`` has it, in whole milliseconds; *ledger* counts it if it is rounded."""
        wall = self.wall(item.t)
        stamp = round(wall * 1000)
        if stamp / 1000 != wall:
            ledger.changed(MILLISECONDS, item.place, wall, stamp / 1000)
        return stamp

    def file_of(self, record: Mapping[str, Any]) -> str | None:
        """Return the path of the file of a ``media`` or ``artifact`` *record*; None if the bundle does not have it."""
        if record.get("kind") == "media":
            relative = media_file(str(record.get("sha256")), str(record.get("media_type")))
        else:
            relative = record.get("path")
        return file_below(os.path.dirname(os.path.abspath(self.stream)), relative)

    def items(self, ledger: Ledger, *, attempts: Literal["all", "latest"] = "latest") -> Iterator[Item]:
        """Yield every item in the order of the stream, each counted in *ledger*; the caller settles it.

        With *attempts* ``"latest"`` items that a resumption supersedes are dropped here, and the resumptions are
        carried by that.
        """
        with read(self.stream, mode="salvage") as reading:
            for record, is_latest in self._with_verdict(self.watched(reading, ledger)):
                for item in self._items_of(record):
                    ledger.items += 1
                    if not is_latest and attempts == "latest":
                        ledger.drop(SUPERSEDED, item.place, item.value)
                    elif item.kind == "resume" and attempts == "latest":
                        ledger.done()
                    else:
                        yield item
            drop_damage(reading.report, ledger)

    def _items_of(self, record: Record) -> Iterator[Item]:
        if record.offset == self._started_at:
            # The first one says what the run is.
            yield from _start_items(self.start, (float(record.time or 0.0), None), f"line {record.line}")
        else:
            yield from _items_of(record, self._attempts)

    def watched(self, records: Iterable[Record], ledger: Ledger) -> Iterator[Record]:
        """Yield *records*, those of the run, and report to *ledger* how far they are."""
        done = 0
        for record in records:
            if record.offset - done >= _ADVANCE_BYTES:
                ledger.advance(record.offset - done)
                done = record.offset
            yield record
        ledger.advance(self.size - done)

    def _with_verdict(self, records: Iterator[Record]) -> Iterator[tuple[Record, bool]]:
        pulled: list[Record] = []

        def noted() -> Iterator[Record]:
            for record in records:
                pulled.append(record)
                yield record

        for kept in self._attempts.latest(noted()):
            yield from ((record, record is kept) for record in pulled)
            pulled.clear()
        yield from ((record, False) for record in pulled)


def drop_file(record: Mapping[str, Any], place: str, ledger: Ledger) -> None:
    """Report the file of *record* at *place*, if it has one, for a format that keeps records only."""
    if record.get("kind") in _KINDS_WITH_FILES:
        ledger.lose(NO_PLACE, f"{place}: file of the record {record['kind']}", record.get("name") or record.get("path"))


def by_record(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield the items of each record together."""
    group: list[Item] = []
    for item in items:
        if group and item.record is not group[-1].record:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _items_of(record: Record, attempts: Attempts) -> Iterator[Item]:
    value = record.value
    at = (float(record.time or 0.0), None if record.step is None else int(record.step))
    place = f"line {record.line}"
    if record.kind == "run_start":
        yield from _start_items(value, at, place)
    elif record.kind == "run_end":
        for name in (name for name in value if name not in _ENDING):
            yield Item("end", name, value[name], value, *at, f"{place}: {name}")
    elif record.kind in _MEASURED:
        for name, item in measures_of(record, attempts):
            yield Item("measure", name, item, value, *at, _place(place, name, at[1]))
        for name, text in attempts.named_texts(record).items():
            yield Item("text", name, text, value, *at, _place(place, name, at[1]))
        for name, item in _others_in(record):
            yield Item("record", name, item, value, *at, _place(place, name, at[1]))
    else:
        kind = _OTHER_KINDS.get(record.kind or "", "record")
        yield Item(kind, record.kind or "", value, value, *at, f"{place}: {record.kind}")


def _place(line: str, name: str, step: int | None) -> str:
    return f"{line}: {name}" if step is None else f"{line}: {name} at step {step}"


def _start_items(value: dict[str, Any], at: tuple[float, int | None], place: str) -> Iterator[Item]:
    config = value.get("config")
    for name, setting in _flat(config) if isinstance(config, dict) else ():
        yield Item("setting", name, setting, value, *at, f"{place}: config/{name}")
    for name, fact in value.items():
        # The names of values do not say the run's own phase, so that one other than train is a fact.
        is_framing = name in _FRAMING and (name != "phase" or fact == "train")
        if name != "config" and not is_framing:
            yield Item("fact", name, fact, value, *at, f"{place}: {name}")


def bins_of(record: Mapping[str, Any]) -> tuple[list[float], list[float]] | None:
    """Return edges and counts of a ``histogram`` *record*; None if they do not belong together."""
    edges, counts = record.get("edges"), record.get("counts")
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) != len(counts) + 1:
        return None
    numbers = [number(each) for each in (*edges, *counts)]
    is_whole = all(each is not None for each in numbers)
    return (edges, counts) if is_whole and counts else None


def measures_of(record: Record, attempts: Attempts) -> Iterator[tuple[str, float | None]]:
    """Yield each number of a *record* by the name that it has in the run, None for null; see ``Attempts``."""
    if record.kind not in _MEASURED:
        return
    yield from attempts.named_values(record).items()
    if record.epoch is not None and record.kind == "scalars":
        yield "epoch", record.epoch


def _others_in(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the members of a measured record that are neither numbers nor texts, as its schema does not allow them."""
    value, declared = record.value, FIELDS["toy/v1"][record.kind or ""]
    is_read = bool(record.values or record.texts)
    for name, item in value.items():
        # An evaluation without a name does not say whose numbers it has; what is not declared is read but of scalars.
        if name in _HELD or item is None or item == {}:
            continue
        is_other = not isinstance(item, dict) if name in _OBJECTS else number(item) is None and name in declared
        if is_other or not is_read or (record.kind == "scalars" and name not in declared):
            yield name, item
    texts = value.get("texts")
    if isinstance(texts, dict) and is_read:
        yield from ((name, item) for name, item in texts.items() if not isinstance(item, str))


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings in *config*, those of nested objects too."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value
