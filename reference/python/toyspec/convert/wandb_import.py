"""Makes toy/v1 events from a W&B run file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from toyspec.convert import wandb_messages as messages
from toyspec.convert.block_records import FILE_HEADER, read_records
from toyspec.convert.event_records import Damage
from toyspec.convert.losses import DAMAGED, NO_PLACE, NOT_FINITE, REPEATED, STEP_UNUSABLE, Cause
from toyspec.convert.measures import as_measure
from toyspec.convert.protobuf import BYTES, MessageError, fields, members, signed, text
from toyspec.convert.scalar_lines import line_of_scalars
from toyspec.convert.timeline import Timeline, is_wall
from toyspec.convert.wandb_rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

TEXT_AS_NOTE = Cause("text-as-note", "changed", "a text in the history becomes a note that begins with its name")
PART_DROPPED = Cause("part-dropped", "changed", "a part of the item has no place in toy/v1")

_FRAMING = frozenset(["_step", "_timestamp", "_runtime", "_wandb"])
_MOST_NAMES = 100_000


class WandbImport:
    """Reads one run file, twice: run_start comes first, and settings may change to the end."""

    def __init__(self, path: str, ledger: Ledger) -> None:
        self._path = path
        self._ledger = ledger
        self._timeline: Timeline
        self._rows: Rows
        self._names: set[str] = set(_FRAMING)
        self._summary: dict[str, Any] = {}
        self._end: dict[str, Any] | None = None
        self._record = 0

    def _messages(self) -> Iterator[tuple[int, bytes] | Damage]:
        """Yield the kind and the content of each record."""
        with open(self._path, "rb") as file:
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
                    yield messages.kind_and_body(record)
                except MessageError as error:
                    yield Damage(file.tell(), len(record), str(error))

    def events(self) -> Iterator[dict[str, Any] | bytes]:
        """Yield ``run_start``, the records in the order of the file, and ``run_end`` if the run has exited."""
        yield self._start()
        self._rows = Rows(self._timeline, self._ledger)
        makers = {
            messages.STATS: self._stats,
            messages.METRIC: self._definition,
            messages.ALERT: self._alert,
        }
        for message in self._messages():
            self._record += 1
            if isinstance(message, Damage):
                self._ledger.items += 1
                self._ledger.drop(DAMAGED, f"byte {message.offset}", f"{message.length} bytes: {message.fact}")
                continue
            kind, body = message
            try:
                if kind == messages.HISTORY:
                    yield from self._history(body)
                elif kind in makers:
                    yield from self._taken()
                    yield from makers[kind](body)
                else:
                    self._take(kind, body)
            except MessageError as error:
                self._ledger.items += 1
                self._ledger.drop(DAMAGED, f"record {self._record}", str(error))
        yield from self._taken()
        yield from self._rest_of_summary()
        if self._end is not None:
            yield {"kind": "run_end", "t": self._timeline.last, **self._end}

    def _start(self) -> dict[str, Any]:
        """Return run_start from the run, config and environment records of the whole file."""
        found = _Beginning()
        for message in self._messages():
            if not isinstance(message, Damage):
                with contextlib.suppress(MessageError):
                    found.take(*message)
        facts, config = found.facts, found.config
        # A row may have a time of its own, before that of the run.
        known = [wall for wall in (found.start, found.first) if is_wall(wall) and wall]
        self._timeline = Timeline(self._ledger, min(known) if known else None)
        self._settle_start(facts, config)
        made: dict[str, Any] = {"kind": "run_start", "t": 0.0, **facts}
        if config:
            made["config"] = {key: _without_bare(value) for key, value in config.items()}
        if found.argv:
            made["argv"] = found.argv
        if self._timeline.started_at is not None:
            made["started_at"] = self._timeline.started_at
        return made

    def _settle_start(self, facts: dict[str, Any], config: dict[str, Any]) -> None:
        ledger = self._ledger
        ledger.items += len(facts) + len(config)
        for _ in facts:
            ledger.done()
        for key, value in config.items():
            if isinstance(value, float) and value - value != 0.0:
                ledger.changed(NOT_FINITE, f"config/{key}", value, "null")
            ledger.done()

    def _take(self, kind: int, body: bytes) -> None:
        """Take in a record that makes no event by itself."""
        ledger = self._ledger
        if kind == messages.SUMMARY:
            for name, value in messages.new_pairs(body, self._names):
                if len(self._summary) < _MOST_NAMES:
                    self._summary[name] = value
        elif kind == messages.EXIT:
            self._take_exit(members(body))
        elif kind == messages.RUN:
            others = messages.run_of(body).others
            ledger.items += len(others)
            for name, value in others.items():
                ledger.drop(NO_PLACE, f"run: {name}", value)
        elif kind == messages.ENVIRONMENT:
            ledger.items += 1
            ledger.changed(PART_DROPPED, "environment", "all but program and arguments")
            ledger.done()
        elif kind in (messages.OUTPUT, messages.OUTPUT_RAW):
            ledger.items += 1
            ledger.drop(NO_PLACE, "console output", text(members(body).get(3)))
        elif kind in messages.OTHER_ITEMS:
            ledger.items += 1
            ledger.drop(NO_PLACE, f"record {self._record}", messages.OTHER_ITEMS[kind])

    def _take_exit(self, found: dict[int, Any]) -> None:
        code = found.get(1, 0)
        code = signed(code) if isinstance(code, int) else 1
        self._end = {"reason": "completed" if code == 0 else "errored"}
        if 0 <= code <= 255:
            self._end["exit_code"] = code
        self._ledger.items += 1
        if not 0 <= code <= 255:
            self._ledger.changed(PART_DROPPED, "exit", code)
        self._ledger.done()

    def _history(self, body: bytes) -> Iterator[dict[str, Any] | bytes]:
        """Yield a row, or take it to those that become lines together."""
        short, rest = messages.short_items(body)
        if not self._rows.take(body, short, rest):
            yield from self._taken()
            yield from self._row(short, rest)
            self._rows.learn([name for name, _ in short])
        elif self._rows.is_full:
            yield from self._taken()

    def _taken(self) -> Iterator[dict[str, Any] | bytes]:
        """Yield the rows that were taken, together if nothing of them has to be changed."""
        lines, bodies = self._rows.lines(), self._rows.bodies
        self._rows.clear()
        if lines is not None:
            yield lines
            return
        for body in bodies:
            yield from self._row(*messages.short_items(body))

    def _row(self, short: list[tuple[str, bytes]], rest: bytes) -> Iterator[dict[str, Any] | bytes]:
        found = self._by_name(messages.pairs_of(short, rest))
        step, wall = found.pop("_step", None), found.pop("_timestamp", None)
        found.pop("_runtime", None)
        if step is None:
            said = [members(value) for number, wire, value in fields(rest) if number == 2 and wire == BYTES]
            step = said[0].get(1, 0) if said else None
        place = f"step {step}"
        self._ledger.items += len(found)
        record: dict[str, Any] = {"kind": "scalars", "t": self._t(wall, place)}
        has_step = type(step) is int and step >= 0
        if has_step:
            record["step"] = step
        values: dict[str, float | None] = {}
        notes: list[str] = []
        media = tuple(name.removesuffix("_type") for name in found if name.endswith("._type"))
        for name, value in found.items():
            self._names.add(name)
            self._summary.pop(name, None)
            if media and name.startswith(media):
                self._ledger.drop(NO_PLACE, f"{place}: {name}", value)
                continue
            if not has_step and step is not None:
                self._ledger.changed(STEP_UNUSABLE, f"{place}: {name}", step)
            kept = self._value(name, value, place)
            if isinstance(kept, str):
                notes.append(kept)
            elif kept is not NO_PLACE:
                values[name] = kept
        if values:
            yield line_of_scalars(record["t"], record.get("step"), values)
        for note in notes:
            yield {**record, "kind": "note", "text": note}

    def _by_name(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the values by name; of two with one name the later, as W&B's summary has it: the other is dropped."""
        last = dict(pairs)
        if len(last) != len(pairs):
            found: dict[str, Any] = {}
            for name, value in pairs:
                if name in found:
                    self._ledger.items += 1
                    self._ledger.drop(REPEATED, f"record {self._record}: {name}", found[name])
                found[name] = value
        return last

    def _value(self, name: str, value: Any, place: str) -> Any:
        """Return a number or null for a scalar, the text of a note, or NO_PLACE; the item is settled."""
        ledger = self._ledger
        if type(value) is float and value - value == 0.0:
            ledger.done()
            return value
        if type(value) in (float, int):
            return self._number(name, value, place)
        if isinstance(value, str):
            ledger.changed(TEXT_AS_NOTE, f"{place}: {name}", value, f"{name}: {value}")
            ledger.done()
            return f"{name}: {value}"
        if value is None:
            ledger.done()
            return None
        ledger.drop(NO_PLACE, f"{place}: {name}", value)
        return NO_PLACE

    def _number(self, name: str, value: float, place: str) -> float | None:
        number = as_measure(value, f"{place}: {name}", self._ledger)
        self._ledger.done()
        return number

    def _t(self, wall: Any, place: str) -> float:
        return self._timeline.t(float(wall) if type(wall) in (int, float) else None, place)

    def _stats(self, body: bytes) -> Iterator[dict[str, Any]]:
        found = [(number, wire, value) for number, wire, value in fields(body) if number in (2, 3) and wire == 2]
        wall = next((messages.timestamp(value) for number, _, value in found if number == 2), None)
        extra: dict[str, float | None] = {}
        place = "system metrics"
        items = messages.pairs(body)
        self._ledger.items += len(items)
        record = {"kind": "system", "t": self._t(wall, place), "extra": extra}
        for name, value in items:
            if type(value) in (int, float) and type(value) is not bool:
                extra[name] = self._number(name, value, place)
            else:
                self._ledger.drop(NO_PLACE, f"{place}: {name}", value)
        if extra:
            yield record

    def _definition(self, body: bytes) -> Iterator[dict[str, Any]]:
        made = messages.definition_of(body)
        self._ledger.items += 1
        if "name" not in made:
            self._ledger.drop(NO_PLACE, f"record {self._record}", "a metric without a name")
            return
        self._ledger.done()
        yield {"kind": "define", "t": self._timeline.last, **made}

    def _alert(self, body: bytes) -> Iterator[dict[str, Any]]:
        found = members(body)
        self._ledger.items += 1
        self._ledger.done()
        yield {"kind": "note", "t": self._timeline.last, "text": f"{text(found.get(1))}: {text(found.get(2))}"}

    def _rest_of_summary(self) -> Iterator[dict[str, Any]]:
        """Yield the values of the summary that no row of the history has."""
        rest = {
            name: value
            for name, value in self._summary.items()
            if name not in self._names and name.partition(".")[0] not in _FRAMING
        }
        self._ledger.items += len(rest)
        values: dict[str, float | None] = {}
        for name, value in rest.items():
            if type(value) in (int, float):
                values[name] = self._number(name, value, "summary")
            else:
                self._ledger.drop(NO_PLACE, f"summary: {name}", value)
        if values:
            yield {"kind": "scalars", "t": self._timeline.last, "values": values}


class _Beginning:
    """What the records of a whole file say about the run as such."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.argv: list[str] = []
        self.start: float | None = None
        self.first: Any = None
        """Time of the first row of the history."""

    def take(self, kind: int, body: bytes) -> None:
        """Take in a message; raise MessageError."""
        if kind == messages.RUN:
            run = messages.run_of(body)
            self.facts |= run.facts
            self.config |= run.config
            self.start = run.start if self.start is None else self.start
        elif kind == messages.HISTORY and self.first is None:
            self.first = next((value for name, value in messages.pairs(body) if name == "_timestamp"), 0.0)
        elif kind == messages.CONFIG:
            self.config |= {key: value for key, value in messages.pairs(body) if key != "_wandb"}
        elif kind == messages.ENVIRONMENT:
            self.argv = _argv(body) or self.argv


def _argv(body: bytes) -> list[str]:
    found = [(number, text(value)) for number, wire, value in fields(body) if wire == 2 and number in (5, 6)]
    program = [value for number, value in found if number == 6]
    return program + [value for number, value in found if number == 5] if program else []


def _without_bare(value: Any) -> Any:
    return None if isinstance(value, float) and value - value != 0.0 else value


__all__ = ["FILE_HEADER", "WandbImport"]
