"""Makes toy/v1 events from a W&B run file."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from toyspec.convert import wandb_messages as messages
from toyspec.convert.alerts import alert_event
from toyspec.convert.losses import DAMAGED, NO_PLACE, PART_DROPPED, REPEATED, STEP_UNUSABLE, as_measure, at_step
from toyspec.convert.protobuf import MessageError, fields, members, signed, text
from toyspec.convert.scalar_lines import line_of_scalars
from toyspec.convert.tensorboard_records import Damage
from toyspec.convert.timeline import Timeline, earliest
from toyspec.convert.wandb_leveldb import FILE_HEADER, read_records
from toyspec.convert.wandb_media import WandbMedia, taken_objects
from toyspec.convert.wandb_rows import WandbRows
from toyspec.convert.wandb_sessions import Beginning, merged, plain
from toyspec.files import open_file
from toyspec.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.losses import Ledger

_FRAMING = frozenset(["_step", "_timestamp", "_runtime", "_wandb"])
_MOST_NAMES = 100_000


class WandbImport:
    """Reads the run files of one run, each twice: run_start comes first, and settings may change to the end."""

    def __init__(self, paths: Sequence[str], ledger: Ledger) -> None:
        self._paths = paths
        self._ledger = ledger
        self._timeline: Timeline
        self._rows: WandbRows
        self._media: WandbMedia
        self._names: set[str] = set(_FRAMING)
        self._summary: dict[str, Any] = {}
        self._end: dict[str, Any] | None = None
        self._record = 0
        self._session = ""
        """Where there are several, the name of the directory for reports, and a colon."""

    def _messages(self, path: str) -> Iterator[tuple[int, bytes] | Damage]:
        """Yield the kind and the content of each record."""
        with open_file(path) as file:
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
        """Yield ``run_start``, the records in the order of the files, and ``run_end`` if the last process has exited.

        Before the records of each later file comes a ``run_resume``.
        """
        beginnings = [self._beginning(path) for path in self._paths]
        yield self._start(beginnings)
        self._rows = WandbRows(self._timeline, self._ledger)
        for path, beginning in zip(self._paths, beginnings, strict=True):
            if len(beginnings) > 1:
                self._session = f"{os.path.basename(os.path.dirname(path))}: "
            if beginning is not beginnings[0]:
                yield self._resume(beginning)
            yield from self._records(path)
        yield from self._rest_of_summary()
        if self._end is not None:
            yield {"kind": "run_end", "t": self._timeline.last, **self._end}

    def _records(self, path: str) -> Iterator[dict[str, Any] | bytes]:
        makers = {
            messages.STATS: self._stats,
            messages.METRIC: self._definition,
            messages.ALERT: self._alert,
            messages.ARTIFACT: self._artifact,
            messages.USED_ARTIFACT: self._used_artifact,
        }
        self._media = WandbMedia(os.path.join(os.path.dirname(path), "files"), self._ledger)
        self._record = 0
        for message in self._messages(path):
            self._record += 1
            if isinstance(message, Damage):
                place = f"{self._session}byte {message.offset}"
                self._ledger.lose(DAMAGED, place, f"{message.length} bytes: {message.fact}")
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
                self._ledger.lose(DAMAGED, self._place, str(error))
        yield from self._taken()

    @property
    def _place(self) -> str:
        """The record at hand."""
        return f"{self._session}record {self._record}"

    def _beginning(self, path: str) -> Beginning:
        found = Beginning()
        for message in self._messages(path):
            if not isinstance(message, Damage):
                with contextlib.suppress(MessageError):
                    found.take(*message)
        return found

    def _start(self, beginnings: Sequence[Beginning]) -> dict[str, Any]:
        """Return run_start from what the whole files say."""
        found = merged(beginnings)
        self._timeline = Timeline(self._ledger, earliest(each.began for each in beginnings))
        for each in beginnings:
            each.settle(found, self._ledger)
        made = self._timeline.run_start(**found.facts)
        if found.config:
            made["config"] = {key: plain(value) for key, value in found.config.items()}
        if found.argv:
            made["argv"] = found.argv
        return made

    def _resume(self, beginning: Beginning) -> dict[str, Any]:
        """Return the record between the process before and that of *beginning*, which goes on at its first step."""
        timeline, last = self._timeline, self._rows.last_step
        from_step = (last or 0) if beginning.step is None else max(0, beginning.step - 1)
        if last is not None and beginning.step is not None and beginning.step <= last:
            again = f"the run was resumed at step {beginning.step}, after step {last}"
            self._ledger.note(f"{again}: both attempts are in the stream, and readers show the later one")
        made: dict[str, Any] = {"kind": "run_resume", "from_step": from_step}
        if beginning.began is not None and timeline.start is not None:
            timeline.last = max(timeline.last, beginning.began - timeline.start)
            made["resumed_at"] = utc_text(beginning.began)
        if self._end is not None:
            made["reason"] = f"exit code {self._end['exit_code']}" if "exit_code" in self._end else self._end["reason"]
        self._end = None
        return {**made, "t": timeline.last}

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
            for name, value in others.items():
                ledger.lose(NO_PLACE, f"run: {name}", value)
        elif kind == messages.ENVIRONMENT:
            ledger.items += 1
            ledger.changed(PART_DROPPED, "environment", "all but program and arguments")
            ledger.done()
        elif kind in (messages.OUTPUT, messages.OUTPUT_RAW):
            ledger.lose(NO_PLACE, "console output", text(members(body).get(3)))
        elif kind in messages.OTHER_ITEMS:
            ledger.lose(NO_PLACE, self._place, messages.OTHER_ITEMS[kind])

    def _take_exit(self, found: dict[int, Any]) -> None:
        code = found.get(1, 0)
        code = signed(code) if isinstance(code, int) else 1
        self._end = {"reason": "completed" if code == 0 else "errored"}
        self._ledger.items += 1
        if 0 <= code <= 255:
            self._end["exit_code"] = code
        else:
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
        step = messages.step_of(rest) if step is None else step
        place = at_step(step)
        self._names.update(found)
        for name in found:
            self._summary.pop(name, None)
        objects = taken_objects(found)
        self._ledger.items += len(found)
        record: dict[str, Any] = {"kind": "scalars", "t": self._timeline.t(wall, place)}
        has_step = type(step) is int and step >= 0
        if has_step:
            record["step"] = self._rows.last_step = step
        values: dict[str, float | None] = {}
        texts: dict[str, str] = {}
        for name, value in found.items():
            if not has_step and step is not None:
                self._ledger.changed(STEP_UNUSABLE, f"{place}: {name}", step)
            kept = self._value(name, value, place)
            if isinstance(kept, str):
                texts[name] = kept
            elif kept is not NO_PLACE:
                values[name] = kept
        if texts:
            yield {**record, "values": values, "texts": texts}
        elif values:
            yield line_of_scalars(record["t"], record.get("step"), values)
        for name, members_of in objects.items():
            yield from self._media.events(record, name, members_of, f"{place}: {name}")

    def _by_name(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the values by name; of two with one name the later, as W&B's summary has it: the other is dropped."""
        last = dict(pairs)
        if len(last) != len(pairs):
            found: dict[str, Any] = {}
            for name, value in pairs:
                if name in found:
                    self._ledger.lose(REPEATED, f"{self._place}: {name}", found[name])
                found[name] = value
        return last

    def _value(self, name: str, value: Any, place: str) -> Any:
        """Return a number or null for a scalar, a text, or NO_PLACE; the item is settled."""
        ledger = self._ledger
        if type(value) is float and value - value == 0.0:
            ledger.done()
            return value
        if type(value) in (float, int):
            return self._number(name, value, place)
        if value is None or isinstance(value, str):
            ledger.done()
            return value
        ledger.drop(NO_PLACE, f"{place}: {name}", value)
        return NO_PLACE

    def _number(self, name: str, value: float, place: str) -> float | None:
        number = as_measure(value, f"{place}: {name}", self._ledger)
        self._ledger.done()
        return number

    def _stats(self, body: bytes) -> Iterator[dict[str, Any]]:
        found = [(number, wire, value) for number, wire, value in fields(body) if number in (2, 3) and wire == 2]
        wall = next((messages.timestamp(value) for number, _, value in found if number == 2), None)
        extra: dict[str, float | None] = {}
        place = "system metrics"
        items = messages.pairs(body)
        self._ledger.items += len(items)
        record = {"kind": "system", "t": self._timeline.t(wall, place), "extra": extra}
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
            self._ledger.drop(NO_PLACE, self._place, "a metric without a name")
            return
        self._ledger.done()
        yield {"kind": "define", "t": self._timeline.last, **made}

    def _alert(self, body: bytes) -> Iterator[dict[str, Any]]:
        found = members(body)
        title, said, level = (text(found.get(number)) for number in (1, 2, 3))
        self._ledger.carry()
        yield {"t": self._timeline.last, **alert_event(title, said, level)}

    def _artifact(self, body: bytes) -> Iterator[dict[str, Any]]:
        """Yield a reference to what the run produced: its files lie in a folder of W&B's that the log names."""
        found = members(body)
        yield from self._reference(text(found.get(5)), text(found.get(4)))

    def _used_artifact(self, body: bytes) -> Iterator[dict[str, Any]]:
        found = members(body)
        yield from self._reference(text(found.get(3)) or text(found.get(1)), "input")

    def _reference(self, name: str, role: str) -> Iterator[dict[str, Any]]:
        self._ledger.items += 1
        if not name:
            self._ledger.drop(NO_PLACE, self._place, "an artifact without a name")
            return
        self._ledger.changed(PART_DROPPED, self._place, f"the files of artifact {name}")
        self._ledger.done()
        role_of = {"role": role} if role else {}
        yield {"kind": "reference", "t": self._timeline.last, "uri": f"wandb-artifact:{name}", **role_of}

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


__all__ = ["FILE_HEADER", "WandbImport"]
