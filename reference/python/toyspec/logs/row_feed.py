"""Makes rows from the log of another program: the reader of every dialect."""

from __future__ import annotations

import math
from itertools import islice, repeat
from operator import le, lt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.findings import STARTS_AGAIN, Gap
from toyspec.core.format.flattening import flattened, member_at
from toyspec.core.format.line_validation import validate_line
from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.format.numbers import number as number_in
from toyspec.core.generated import rules
from toyspec.core.generated.limits import MAX_FINDINGS_PER_RULE, MAX_LINE_BYTES
from toyspec.core.reading.readers import LogFeed
from toyspec.core.reading.records import ReadLine, Row, RowBlock, state_of
from toyspec.logs.documents import DocumentCutter, cutter_of, listed
from toyspec.logs.forms import JsonForm, PatternForm, form_of
from toyspec.logs.mapping import Mapping, Neutral, ReadAs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toyspec.core.findings import DialectUse, Ended, State
    from toyspec.core.format.line_validation import ValidatedLine
    from toyspec.logs.dialects import Define, Dialect, End


_MOST_LEFT_OUT = 20
_MOST_EARLY = 1000
# Fewer are faster one by one.
_FEWEST_ROWS = 4
_MOST_PHASES = 100
_MOST_NAMED = 3
_MOST_REACHED = 10_000
# The phase of records without one, and the number of the restarts before them.
_ONE_PHASE = (None, 0)
_KINDS: dict[type, type] = {int: float, float: float, str: str, bool: bool, dict: dict}


class LeftOutLine(NamedTuple):
    """A line of text with measured values that no pattern of the dialect matches."""

    number: int
    """Number of the line, counted from 1."""
    offset: int
    """Byte offset of its start."""
    data: bytes
    names: tuple[str, ...]
    """The names of these values that no such line before has."""


class StepOrder:
    """Where the steps of records with metrics repeat, go back or start again; each phase counts its own."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        """Line and offset of the first records from which on the steps of the first phase start again."""
        self.attempt = 1
        """Number of the training: one more with each such record."""
        self.returns: list[tuple[int, int, int | float, int | float]] = []
        """Line, offset, step and the step before of the first records of a smaller step."""
        self.unlisted_returns = 0
        """Number of such records after those."""
        self._records, self._steps, self._shared = 0, 0, 0
        self._last: dict[Any, int | float] = {}
        # The last step of each curve of a phase.
        self._reached: dict[Any, dict[str, int | float]] = {}
        self._bases: dict[Any, tuple[int | float, int]] = {}

    def take(self, line: int, offset: int, step: float, phase: Any, names: Collection[str]) -> None:
        """Take in the *step* of the record at *line* and *offset* that has metrics with *names*."""
        self._records += 1
        last = self._last.get(phase)
        if last is None and len(self._last) >= _MOST_PHASES:
            return
        self._last[phase] = step
        reached = self._reached.setdefault(phase, {})
        if last is None or step > last:
            base, grown = self._bases.get(phase, (step, 0))
            self._bases[phase] = base, grown + 1
            self._steps += 1
        elif step == last:
            self._shared += all(reached.get(name) == step for name in names)
        elif all(reached.get(name, -math.inf) >= step for name in names):
            base, grown = self._bases[phase]
            if step <= base and grown > 1 and phase == next(iter(self._last)):
                self.attempt += 1
                self.starts += [(line, offset)] * (len(self.starts) < _MOST_NAMED)
                self.clear()
                self._last[phase], self._bases[phase] = step, (step, 1)
                reached = self._reached[phase] = {}
            elif len(self.returns) < MAX_FINDINGS_PER_RULE:
                self.returns.append((line, offset, step, last))
            else:
                self.unlisted_returns += 1
        if len(reached) < _MOST_REACHED:
            reached.update(dict.fromkeys(names, step))

    def may_start(self, block: RowBlock) -> bool:
        """Return whether the steps of *block* go back anywhere, so that each row may be of another training."""
        steps, last = block.steps, self._last.get(_ONE_PHASE)
        if steps is None or not block.metrics:
            return False
        return (last is not None and steps[0] < last) or not all(map(le, steps, islice(steps, 1, None)))

    def take_block(self, block: RowBlock) -> None:
        """Take in the rows of *block*."""
        steps, phases = block.steps, block.phases
        if steps is None or not block.metrics:
            return
        last = self._last.get(_ONE_PHASE) if phases is None else None
        if last is not None and last < steps[0] and all(map(lt, steps, islice(steps, 1, None))):
            count, (base, grown) = len(steps), self._bases[_ONE_PHASE]
            self._last[_ONE_PHASE], self._bases[_ONE_PHASE] = steps[-1], (base, grown + count)
            self._reached[_ONE_PHASE].update(dict.fromkeys(block.metrics, steps[-1]))
            self._records, self._steps = self._records + count, self._steps + count
            return
        for line, step, phase in zip(block.each_line(), steps, phases or repeat(None), strict=False):
            self.take(line.number, line.offset, step, (phase, 0), block.metrics)

    def clear(self) -> None:
        """Forget the last steps: what was lost may be why the next is smaller."""
        self._last.clear()
        self._reached.clear()
        self._bases.clear()

    @property
    def again(self) -> str:
        """Where the steps start again, as a sentence; empty if they do not."""
        starts = self.attempt - 1
        lines = listed((str(line) for line, _ in self.starts), _MOST_NAMED)
        more = f" and {starts - len(self.starts)} more" if starts > len(self.starts) else ""
        return f"{STARTS_AGAIN} at line{'s' * (starts > 1)} {lines}{more}: several trainings?" if starts else ""

    @property
    def shared(self) -> str:
        """That most records share their step with another, as a sentence; empty if they do not."""
        return (
            f"{self._records} records at {self._steps} steps" if 2 * self._shared >= self._records > _MOST_NAMED else ""
        )


class RowFeed(LogFeed):
    """Makes rows from a file that arrives in pieces of any size; the interface is that of ``RecordFeed``.

    With *target* ``blocks`` it gives a block in place of rows where it can.
    """

    def __init__(
        self,
        read_as: ReadAs,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        target: Literal["rows", "blocks"] = "rows",
    ) -> None:
        self.read_as = read_as
        self._target = target
        dialect = read_as.dialect
        cutter = cutter_of(dialect, max_line_bytes=max_line_bytes)
        lines = LineSplitter(max_line_bytes=max_line_bytes)
        self._splitter = cutter or lines
        # An object in a document is not a line: it has no LF of its own.
        self._end = 0 if cutter is not None else 1
        self._form = form_of(dialect)
        self.mapping = Mapping(read_as)
        """What says which members are metrics."""
        # A record of these says more than its numbers.
        says_more = dialect.config or dialect.values.name or dialect.end or dialect.define or dialect.planned
        self._has_tables = dialect.restart is None and not says_more
        self._restarts = 0
        self.order = StepOrder()
        self.last: Row | None = None
        """The last row so far."""
        self.left_out_lines = 0
        """Number of lines so far with measured values that no pattern matches."""
        self.left_out: list[LeftOutLine] = []
        """The first of these lines for each name of a value."""
        self._left_out_names: set[str] = set()
        self._early_names: set[str] = set()
        self._step: int | float | None = None
        self._planned: int | float | None = None
        # What counts from 0 reaches one less than was planned.
        self._first: int | float | None = None
        # A log may have every tenth step alone.
        self._interval: int | float = 0
        self._has_end = False

    @property
    def use(self) -> DialectUse:
        """How the file is read, with what is known of its end so far."""
        return msgspec.structs.replace(
            self.read_as.use,
            ended=self.ended,
            planned=self.planned,
            notes=(*self.read_as.notes, *getattr(self._splitter, "notes", ()), *self._missing()),
        )

    @property
    def ended(self) -> Ended:
        """Whether the run ended: by its last record, or by the number of steps that were planned."""
        if self._has_end:
            return "yes"
        planned = self.planned
        if planned is None or self._step is None:
            return "unknown"
        last = planned - (self._first == 0)
        if self._step >= last:
            return "yes"
        # The next step that the log would have is beyond the last one.
        return "unknown" if self._step + self._interval > last else "no"

    @property
    def planned(self) -> int | float | None:
        """The last step that was planned, as the log says it; None where it does not."""
        numbers = self._splitter.numbers.values() if isinstance(self._splitter, DocumentCutter) else ()
        return max(numbers, default=self._planned)

    def _missing(self) -> list[str]:
        count = self.left_out_lines
        lines = f"{count} lines with values are" if count > 1 else "a line with values is"
        left_out = [f"{lines} left out, since no pattern matches"] if count else []
        left_out += filter(None, [self.order.again, self.order.shared])
        return left_out + ([f"not ended: step {self._step} of {self.planned} planned"] if self.ended == "no" else [])

    def _observe_end(self, row: Row) -> None:
        """Take in how far *row* is on the way to the last step that was planned."""
        self._has_end = self._has_end or row.end is not None
        numbers = [number_in(member_at(row.value, key)) for key in self.read_as.dialect.planned]
        planned = next((found for found in reversed(numbers) if found is not None), None)
        self._planned = self._planned if planned is None else planned
        # A step that is made of the epoch is not what was planned, and a headline is before what it announces.
        of_epochs = row.step is None or (self.read_as.dialect.form.place is not None and row.epoch is not None)
        place = (row.epoch if of_epochs else row.step) if row.values else None
        if place is not None and self._step is not None and place > self._step:
            self._interval = place - self._step
        if place is not None and self.read_as.dialect.planned:
            self._first = place if self._first is None else self._first
            self._step = place if self._step is None or planned is not None else max(self._step, place)

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the rows that *chunk* commits, and a gap for each unreadable line, in order."""
        found: list[Row | Gap | RowBlock] = []
        for part in self.parts(chunk):
            if isinstance(part, RowBlock):
                self.count(part)
                found += part.rows() if self._target == "rows" else [part]
            elif isinstance(part, ReadLine):
                found.append(self.row(part))
            elif part.data != b"":
                self._take(part, found)
        return found

    def parts(self, chunk: bytes) -> Iterator[Line | ReadLine | RowBlock]:
        """Yield what *chunk* commits, in order: rows, blocks of rows that are alike, and lines that need ``validate``.

        Rows count once they are given to ``row`` or ``count``, before the next part is asked for.
        """
        splitter = self._splitter
        number, offset = splitter.position if isinstance(splitter, LineSplitter) else (0, 0)
        cut = splitter.cut(chunk) if self._has_tables and isinstance(splitter, LineSplitter) else None
        if cut is None:
            for line in splitter.feed(chunk):
                value = self._form.read(line.data, first=line.number == 1) if line.data else None
                yield line if value is None else read_line(line, value)
            return
        # Most of a log is lines with the same members; the first one of a file may be of another kind.
        whole = self._whole(number, offset, cut) if number > 1 and len(cut) >= _FEWEST_ROWS else None
        if whole is not None:
            yield whole
            return
        alike: list[bytes] = []
        objects: list[dict[str, Any]] = []
        kind = None
        for at, data in enumerate(cut, number):
            value = self._form.read(data, first=at == 1) if data else None
            before, kind = kind, None if value is None else (*value, *map(_KINDS.get, map(type, value.values())))
            if alike and kind != before:
                yield from self._together(at - len(alike), offset, alike, objects)
                offset += sum(map(len, alike)) + len(alike)
                alike, objects = [], []
            if value is None:
                yield Line(at, offset, len(data), data, b"")
                offset += len(data) + 1
            else:
                alike.append(data)
                objects.append(value)
        yield from self._together(number + len(cut) - len(alike), offset, alike, objects)

    def _whole(self, number: int, offset: int, lines: list[bytes]) -> RowBlock | None:
        """Return the block of *lines* of JSON; None if one of them has other members, or needs another reader."""
        if not isinstance(self._form, JsonForm):
            return None
        objects = self._form.read_all(lines)
        block = None if objects is None else self.mapping.block(number, offset, lines, objects)
        if block is None or self._form.has_numbers_in_text(block.columns.values()) or self.order.may_start(block):
            return None
        return block._replace(attempt=self.order.attempt)

    def _together(
        self, number: int, offset: int, lines: list[bytes], objects: list[dict[str, Any]]
    ) -> Iterator[ReadLine | RowBlock]:
        """Yield the rows of *lines* as a block, or each by itself if they are few or say more than a block can."""
        block = self.mapping.block(number, offset, lines, objects) if len(lines) >= _FEWEST_ROWS else None
        if block is not None and not self.order.may_start(block):
            yield block._replace(attempt=self.order.attempt)
            return
        for at, (data, value) in enumerate(zip(lines, objects, strict=True), number):
            yield read_line(Line(at, offset, len(data), data, b""), value)
            offset += len(data) + 1

    def count(self, block: RowBlock) -> None:
        """Count the rows of *block*."""
        self.records += len(block.lines) - 1
        self.order.take_block(block)
        data = block.lines[-1]
        offset = block.offset + sum(map(len, block.lines)) + len(block.lines) - len(data) - 1
        line = Line(block.number + len(block.lines) - 1, offset, len(data), data, b"")
        read = read_line(line, block.objects[-1])
        self._row(read, self.mapping.neutral(read.members))

    @property
    def is_by_lines(self) -> bool:
        """True if each line is read by itself: not in a document, and not where what came before counts."""
        is_counted = self.read_as.dialect.restart is not None or self.read_as.is_in_epoch
        return self.read_as.dialect.form.is_by_lines and not is_counted

    def skip(self, size: int) -> None:
        """Pass over *size* bytes of whole lines, which count as none; call it after an LF."""
        if isinstance(self._splitter, LineSplitter):
            self._splitter.skip(0, size)

    def _take(self, line: Line, found: list[Row | Gap | RowBlock]) -> None:
        verdict = self.validate(line)
        if verdict.status == "unreadable":
            finding = next(each for each in verdict.findings if each.rule != rules.DUPLICATE_KEY)
            length = line.length + self._end
            self.gap_bytes += length
            found.append(Gap(line.number, line.offset, length, finding.rule, finding.message))
        if verdict.value is not None:
            found.append(self.row(read_line(line, verdict.value)))

    def validate(self, line: Line) -> ValidatedLine:
        """Return the exact result for a line that is not plainly a record."""
        if line.data is None:
            return validate_line(line, max_line_bytes=self._splitter.max_line_bytes)
        if isinstance(self._form, PatternForm):
            self._observe_left_out(line, self._form.measured(line.data))
        return self._form.validate(line.data, first=line.number == 1)

    def _observe_left_out(self, line: Line, names: tuple[str, ...]) -> None:
        """Take in that a line with the values *names* is passed over."""
        if not self.records or any("#" in name for name in names):
            # Before the first record are headlines and settings, and anywhere prose, but these come once.
            names, early = tuple(name for name in names if name in self._early_names), names
            if len(self._early_names) < _MOST_EARLY:
                self._early_names.update(early)
        if not names or line.data is None:
            return
        self.left_out_lines += 1
        new = tuple(name for name in names if name not in self._left_out_names)
        if new and len(self._left_out_names) < _MOST_LEFT_OUT:
            self._left_out_names.update(new)
            self.left_out.append(LeftOutLine(line.number, line.offset, line.data, new))

    def row(self, read: ReadLine) -> Row:
        """Return the row of *read*, and count it."""
        said = self.mapping.neutral(read.members)
        if said.step is not None and said.values:
            self.order.take(read.line.number, read.line.offset, said.step, (said.phase, self._restarts), said.values)
        return self._row(read, said)

    def _row(self, read: ReadLine, said: Neutral) -> Row:
        line, value = read.line, read.value
        assert line.data is not None
        dialect = self.read_as.dialect
        if dialect.restart is not None and value.get(dialect.restart.key) == dialect.restart.equals:
            self._restarts += 1
        run = member_at(value, dialect.run) if dialect.run else None
        self.last = Row(
            raw=line.data,
            line=line.number,
            offset=line.offset,
            profile=None,
            kind=None,
            _value=value,
            step=said.step,
            time=said.time,
            time_origin=None if said.time is None else self.mapping.time_origin,
            epoch=said.epoch,
            phase=said.phase,
            values=said.values,
            attempt=max(0, self._restarts - 1) + self.order.attempt,
            config=_settings(dialect, value) if dialect.config else None,
            run=run if isinstance(run, str) and run else None,
            end=_end(dialect.end, value),
            goal=_goal(dialect.define, value),
            members=read.members,
            hidden=read.hidden,
        )
        self.records += 1
        if self.last.end is not None or dialect.planned:
            self._observe_end(self.last)
        return self.last

    @property
    def state(self) -> State:
        """The state of the file if it ended now."""
        last = None if self.last is None else (None,)
        return state_of(None, last, has_gap=self.gap_bytes > 0, is_open=self.is_open)

    @property
    def is_open(self) -> bool:
        """True when bytes follow the last LF, and for a document without its end."""
        if isinstance(self._splitter, DocumentCutter):
            return not self._splitter.is_closed
        return self.size > self.committed

    def uncommitted(self) -> dict[str, Any] | None:
        """Return the object in the bytes after the last LF, or None if they are not a whole record."""
        fragment, data = self._splitter.fragment(), self._splitter.pending()
        if fragment is None or data is None:
            return None
        is_first = fragment.number == 1
        return self._form.read(data, first=is_first) or self._form.validate(data, first=is_first).value


def read_line(line: Line, value: dict[str, Any]) -> ReadLine:
    """Return *line*, which is read as *value*, with its members flattened."""
    hidden: list[tuple[str, Any]] = []
    return ReadLine(line, value, flattened(value, hidden=hidden), hidden)


def _settings(dialect: Dialect, value: dict[str, Any]) -> dict[str, Any] | None:
    found = member_at(value, dialect.config)
    if not isinstance(found, dict):
        return None
    return {name: each for name, each in found.items() if name not in dialect.config_except}


def _end(end: End | None, value: dict[str, Any]) -> dict[str, Any] | None:
    if end is None or value.get(end.key) != end.equals:
        return None
    word = member_at(value, end.reason)
    reason = end.reasons.get(word) if isinstance(word, str) else None
    return None if reason is None else {"reason": reason}


def _goal(define: Define | None, value: dict[str, Any]) -> dict[str, str]:
    if define is None or value.get(define.key) != define.equals:
        return {}
    name, word = member_at(value, define.name), member_at(value, define.goal)
    goal = define.goals.get(word) if isinstance(word, str) else None
    return {name: goal} if isinstance(name, str) and goal is not None else {}
