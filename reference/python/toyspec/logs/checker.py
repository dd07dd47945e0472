"""Checks the log of another program: bytes, JSON or cells, states, and steps that go back; it has no schema."""

from __future__ import annotations

import math
import re
from itertools import islice
from operator import le
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.checker.collecting import Collector, Location
from toyspec.core.escaping import shortened
from toyspec.core.findings import FileReport
from toyspec.core.format.flattening import member_at, pointer_to
from toyspec.core.format.numbers import number
from toyspec.core.generated import messages, rules
from toyspec.core.reading.records import ReadLine, RowBlock, state_of
from toyspec.logs.forms import has_repeated_key
from toyspec.logs.recognition import unread_in
from toyspec.logs.row_feed import RowFeed, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.checker.collecting import CheckOptions
    from toyspec.core.format.line_validation import ValidatedLine
    from toyspec.core.format.lines import Line
    from toyspec.core.reading.records import Row
    from toyspec.logs.mapping import Mapping, ReadAs
    from toyspec.logs.row_feed import LeftOutLine

_TORN_HELP = "a writer was killed or is still writing; readers leave these bytes out"
_NUL_HELP = "a power loss leaves NUL bytes where data was not written; readers leave these bytes out"
_CELLS_HELP = "a row was cut off, or two rows share the line; write one cell for each column of the header"
_NUMBER_HELP = "it is left out: two writes were glued, or the program has its own spelling; write a number or NaN"
_STEP_HELP = "the record has no step: its values are where they are without one; write a whole number"
_SPELT_HELP = "no value of it is read: write plain numbers, without units and marks between thousands"
_UNREAD_HELP = "no value of it that is not a number is read, truths and most lists included; write numbers"
_LINE_HELP = "describe the log as a dialect in toyspec.toml, or print these values as the lines that are read"
_NAME_HELP = "the members of an inner object follow its key and a slash; rename one of them"
_HELPS = {rules.BAD_FORMAT: _CELLS_HELP, rules.NUL_BYTES: _NUL_HELP, rules.UNTERMINATED_LINE: _TORN_HELP}
_TIME_HELP = "the clock was set, or two programs write the log; `toyspec import` moves on the times after it"
_METRIC_HELP = "name the keys with --metric-key and --value-key, or describe the log as a dialect in toyspec.toml"
# Threads that write at once are this far apart.
_JUMP_SECONDS = 1.0
_TIME_RULE = rules.WALL_TIME_GOES_BACKWARDS
_JSON_LINES = ("lines", "prefixed")
# A log with more keys is not a table of numbers.
_MOST_KEYS = 10_000
_LIKE_NUMBER = re.compile(r"[-+]?\.?\d", re.ASCII)
# With marks between thousands, a decimal comma, an exponent of Fortran, a unit: no reader takes it for a number.
_SPELT_NUMBER = re.compile(
    r"[-+]?(?:\d{1,3}(?:[.,'\u2019 ]\d{3})+(?:[.,]\d*)?|\d+(?:[.,]\d*)?)(?:[dD][-+]?\d+)?"
    r"\s?(?:%|[A-Za-z\u00b5]{1,3}(?:/[A-Za-z]{1,3})?)?"
)
_LONGEST_NUMBER = 40
_NUMBERS = frozenset([int, float])
_PLAIN = frozenset([int, float, str, type(None)])
_TABLES = ("csv", "pattern")


class DialectChecker:
    """Checks a log as it is fed."""

    def __init__(self, path: str, read_as: ReadAs, *, options: CheckOptions) -> None:
        self._path = path
        self._read_as = read_as
        self._collector = Collector(options)
        # Rules that need no schema have the severities and the help of metrics/v1, which is the nearest profile.
        self._collector.profile = "metrics/v1"
        self._feed = RowFeed(read_as, max_line_bytes=options.max_line_bytes)
        self._is_json = read_as.dialect.form.type not in {"csv", "pattern"}
        self._odd = OddValues(read_as)
        self._time: float | None = None
        self._has_metric = False
        self._gaps = 0
        self._collector.has_carriage_return = read_as.dialect.form.type not in _JSON_LINES
        self.fact: str | None = None
        """None: the format is known."""

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits."""
        for part in self._feed.parts(data):
            if not isinstance(part, RowBlock):
                self._check(*((part.line, part) if isinstance(part, ReadLine) else (part, None)))
            elif self._is_plain(part):
                self._feed.count(part)
            else:
                for line, value in zip(part.each_line(), part.objects, strict=True):
                    self._check(line, read_line(line, value))

    def _is_plain(self, block: RowBlock) -> bool:
        """Return whether there is nothing to report in *block*; its steps and members are taken in then."""
        text = b"\n".join(block.lines)
        if self._is_json and has_repeated_key(text, block.objects[0], len(block.lines)):
            return False
        if b"\r" in text and not self._collector.has_carriage_return:
            return False
        before = self._time
        if not (self._are_times_plain(block.times) and self._odd.takes(block)):
            # Its lines are checked one by one, after the records that precede the block.
            self._time = before
            return False
        self._has_metric = self._has_metric or bool(block.metrics)
        return True

    def _are_times_plain(self, times: Sequence[float] | None) -> bool:
        """Return whether no time goes back; the last one is taken in then."""
        if not times:
            return True
        if times[0] < (self._time or times[0]) or not all(map(le, times, islice(times, 1, None))):
            return False
        self._time = times[-1]
        return True

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._feed.size

    def finish(self) -> FileReport:
        """Return the report on everything fed; call it once, last."""
        if self._read_as.dialect.rank == "program" and not self._has_metric:
            self._report_left_out(self._feed.left_out)
        self._report_order()
        for doubt in self._read_as.doubts:
            self._collector.add(rules.VALUES_LEFT_OUT, Location(1, 0), doubt, advice=_METRIC_HELP)
        self._collector.findings.sort(key=lambda finding: finding.line)
        add, feed, records, fragment = self._collector.add, self._feed, self._feed.records, self._feed.fragment()
        if fragment is not None:
            self._collector.add_fragment(fragment, _HELPS)
        elif records and feed.is_open:
            place = Location(feed.next_line, feed.committed)
            add(rules.UNTERMINATED_LINE, place, "the document has no end", advice=_TORN_HELP)
        elif not records and not self._gaps:
            add(rules.STREAM_EMPTY, Location(1, 0), messages.stream_empty(size=feed.size))
        elif records and not self._has_metric:
            fact = f"no metric in {records} record{'s' if records != 1 else ''}"
            add(rules.STREAM_EMPTY, Location(1, 0), fact, advice=_METRIC_HELP)
        last = (None,) if records else None
        return FileReport(
            path=self._path,
            profile=None,
            state=state_of(None, last, has_gap=bool(self._gaps), is_open=feed.is_open),
            valid=self._collector.valid,
            records=records,
            bytes=feed.size,
            findings=self._collector.findings,
            suppressed=self._collector.suppressed,
            dialect=feed.use,
        )

    def _check(self, line: Line, read: ReadLine | None) -> None:
        data = line.data or b""
        if line.data == b"":
            return
        if read is None or (self._is_json and has_repeated_key(data, read.value)):
            known = len(self._feed.left_out)
            verdict = self._feed.validate(line)
            self._report(line, verdict)
            # What a program prints besides is known: the notes on its dialect say what is left out.
            if self._read_as.dialect.rank != "program":
                self._report_left_out(self._feed.left_out[known:])
            read = None if verdict.value is None else read_line(line, verdict.value)
        elif b"\r" in data:
            self._collector.add_carriage_return(line)
        if read is not None:
            row = self._feed.row(read)
            self._observe_time(row)
            self._observe_odd(row)
            self._has_metric = self._has_metric or bool(row.values)
            if self._is_json:
                self._observe_names(row)

    def _report(self, line: Line, verdict: ValidatedLine) -> None:
        self._collector.add_validation(line, verdict, _HELPS)
        if verdict.status == "unreadable":
            self._gaps += 1
            self._feed.order.clear()

    def _report_left_out(self, lines: Sequence[LeftOutLine]) -> None:
        """Report values in lines that no pattern matches, each name once: what reads the log leaves them out."""
        for each in lines:
            names = ", ".join(shortened(name) for name in each.names)
            fact = f"`{names}` is left out: no pattern of the dialect matches this line"
            place = Location(each.number, each.offset, 0, each.data)
            self._collector.add(rules.VALUES_LEFT_OUT, place, fact, advice=_LINE_HELP)

    def _report_order(self) -> None:
        """Report where steps start again or go back, and that most records share theirs."""
        order, pointer = self._feed.order, pointer_to([self._read_as.step or ""])
        found = [(*order.starts[0], order.again)] if order.starts else []
        found += [(1, 0, order.shared)] if order.shared else []
        # Lines of a console may be of several writers.
        most = None if self._read_as.dialect.steps == "increase" else 1
        for line, offset, step, before in order.returns[:most]:
            found.append((line, offset, messages.step_goes_backwards(found=step, before=before)))
        if most is None and order.unlisted_returns:
            self._collector.count(rules.STEP_GOES_BACKWARDS, order.unlisted_returns)
        for line, offset, fact in found:
            self._collector.add(rules.STEP_GOES_BACKWARDS, Location(line, offset), fact, pointer=pointer)

    def _observe_time(self, row: Row) -> None:
        """Report a time that is earlier than the one before."""
        if row.time is None:
            return
        last, self._time = self._time, row.time
        if last is not None and last - row.time >= _JUMP_SECONDS and self._collector.wants(_TIME_RULE):
            fact = f"the time is {last - row.time:.6g} s before that of the record before"
            self._collector.add(_TIME_RULE, Location(row.line, row.offset), fact, advice=_TIME_HELP)

    def _observe_names(self, row: Row) -> None:
        """Report each value whose name a later one of the record has: what reads the log leaves it out."""
        for name, _ in row.hidden:
            fact = f"two values are named {shortened(name)} once flattened; the later one is read"
            place = Location(row.line, row.offset)
            self._collector.add(rules.DUPLICATE_KEY, place, fact, pointer=pointer_to([name]), advice=_NAME_HELP)

    def _observe_odd(self, row: Row) -> None:
        """Report each value that is left out since it is not a number, and a step that is not finite."""
        found = self._odd.find(row, self._feed.mapping)
        step = None if self._read_as.step is None else number(row.members.get(self._read_as.step))
        if row.step is None and self._read_as.step is not None and step is not None and not math.isfinite(step):
            key = self._read_as.step
            found.append(OddValue(rules.BAD_FORMAT, key, key, str(step), "a finite number", _STEP_HELP))
        for odd in found:
            start = max(0, row.raw.find(odd.text.encode("utf-8", "surrogatepass")))
            place = Location(row.line, row.offset, start, row.raw if odd.text else b"")
            fact = messages.unexpected(path=shortened(odd.name), found=shortened(odd.found), expected=odd.expected)
            self._collector.add(odd.rule, place, fact, pointer=pointer_to([odd.key]), advice=odd.advice)


class OddValue(NamedTuple):
    """A value that no reader takes for a number."""

    rule: str
    name: str
    key: str
    """The key of its member."""
    found: str
    expected: str
    advice: str
    text: str = ""
    """What the line has there, where that is a text."""


class OddValues:
    """Finds the values that are not numbers: where numbers were each, others once, and not what the notes name."""

    def __init__(self, read_as: ReadAs) -> None:
        self._dialect = read_as.dialect
        self._time = read_as.time.key if read_as.time else None
        # The members of a JSON object may be anything; a column has one type.
        self._is_table = self._dialect.form.type in _TABLES
        self._is_json = not self._is_table and self._dialect.form.type != "lists"
        self._known = set(read_as.unread)
        self._numbers: set[str] = set()

    def takes(self, block: RowBlock) -> bool:
        """Take in the members of *block*; return False, without that, if there is anything to find."""
        if self._dialect.values.name:
            return True
        for name, column in block.columns.items():
            # The members of a block have one type each, or are all numbers.
            kind = type(column[0])
            if kind is str and (name in self._numbers or self._is_spelt(name, column[0])):
                return False
            if kind not in _PLAIN and self._is_json and name not in self._known:
                return False
        self._add(name for name, column in block.columns.items() if type(column[0]) in _NUMBERS)
        return True

    def find(self, row: Row, mapping: Mapping) -> list[OddValue]:
        """Return what is odd in *row*; *mapping* knows which members are metrics."""
        values, members = self._dialect.values, row.members
        if values.name:
            name, value = member_at(row.value, values.name), member_at(row.value, values.value)
            # The pairs of a program may be settings, which are texts.
            is_odd = not row.values and value is not None and self._dialect.rank != "program"
            return self._unread(name, values.value, value) if is_odd and isinstance(name, str) else []
        found: list[OddValue] = []
        for key, text in members.items():
            if type(text) is not str or mapping.is_metric(key, text) or (key == self._time and row.time):
                continue
            if key not in self._numbers:
                if mapping.metric_name(key) is not None and self._is_spelt(key, text):
                    self._known.add(key)
                    odd = OddValue(rules.VALUES_LEFT_OUT, key, key, repr(text), "a number", _SPELT_HELP, text)
                    found.append(odd)
            elif self._is_table or _LIKE_NUMBER.match(text):
                expected = "a number as in earlier records"
                found.append(OddValue(rules.BAD_FORMAT, key, key, repr(text), expected, _NUMBER_HELP, text))
        # A number that is not finite may be a word.
        self._add(key for key, value in members.items() if type(value) in _NUMBERS or mapping.is_metric(key, value))
        unread = unread_in(members, self._dialect) if self._is_json else ()
        return found + [odd for key in unread for odd in self._unread(key, key, members[key])]

    def _unread(self, name: str, key: str, value: Any) -> list[OddValue]:
        """Return the *value* of the metric *name* in the member *key*, if it is the first of it."""
        # Imported here: start-up time counts.
        import json

        if name in self._known or len(self._known) >= _MOST_KEYS:
            return []
        self._known.add(name)
        found = json.dumps(value, ensure_ascii=False)
        return [OddValue(rules.VALUES_LEFT_OUT, name, key, found, "a number", _UNREAD_HELP)]

    def _is_spelt(self, key: str, text: str) -> bool:
        if key in self._known or len(self._known) >= _MOST_KEYS or len(text) > _LONGEST_NUMBER:
            return False
        return _SPELT_NUMBER.fullmatch(text) is not None

    def _add(self, keys: Iterator[str]) -> None:
        if len(self._numbers) < _MOST_KEYS:
            self._numbers.update(keys)
