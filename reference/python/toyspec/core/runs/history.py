"""Every value that a run logged, as one table: see ``history``."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice, repeat
from math import isnan, nan
from operator import lt
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar, get_args

from toyspec.core.errors import check_choice
from toyspec.core.escaping import printable
from toyspec.core.format.record_mapping import mapping_of, others_in
from toyspec.core.places.addresses import public
from toyspec.core.reading.attempts import Attempts, Placing
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import AttemptView, read
from toyspec.core.reading.records import RowBlock, count_missing, nothing_missing
from toyspec.core.reading.step_blocks import StepBlock, latest
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.run_facts import unknown_metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.reading import step_blocks
    from toyspec.core.reading.records import Record

    Place = tuple[int, int | float, int]
    """Number of the attempt, step, and number of the row at this step, from 0."""
    Sort = Literal["place", "number", "text"]

Cell = float | int | str | None

_EXACT = 1 << 53
_TOO_LARGE = 1 << 63
_PLACES = ("time", "epoch")


def history(
    run: str | os.PathLike[str],
    metrics: Sequence[str] | str | None = None,
    *,
    attempts: AttemptView = "latest",
    dialect: DialectChoice | str | None = "auto",
) -> History:
    """Return every value that *run*, a run directory or a stream of any profile or dialect, has logged.

    The first column is ``step``. A column follows for each metric, or for each of *metrics*, named as everywhere:
    ``"loss"``, ``"val/acc"``; texts are columns too. Two names give more than metrics: ``"time"``, in seconds since the
    start of the run, and ``"epoch"``, as records have it. There is one row for each step, in order; a metric
    that was logged more than once at a step has the other values in further rows of that step. What was logged by one
    call is in one row. A value without a step is at the last step of the run before it. Steps of another phase than the
    run's own, which count by themselves, are named after it: ``"decode/loss"``. With *attempts* ``"all"``, what a
    resumption superseded is there as well, and a column ``attempt`` counts from 1.

    A boolean is 1.0 or 0.0. The members of an inner object follow its name and a slash, as do the places of the numbers
    in a list: ``"val/recall/0"``. A list of anything else, or of more than 256 numbers, is a text, as JSON.

    What is in no cell is counted: ``history(…).missing`` has what the notes of the log count as left out,
    ``other_records`` the samples, media and others that are neither numbers nor texts, and ``damaged_bytes`` unreadable
    lines, which are passed over. Raises ExpressionError for a name that the run does
    not have, StreamMissingError, StreamUnreadableError and UnknownFormatError.
    """
    check_choice("attempts", attempts, get_args(AttemptView))
    wanted = [metrics] if isinstance(metrics, str) else metrics
    table, damaged_bytes = _read_table(run, _Rows(wanted, attempts, _Column), dialect)
    return table.finished(damaged_bytes)


def placed_curves(
    run: str | os.PathLike[str],
    *,
    on_record: Callable[[Record, int | float], object] | None = None,
    dialect: DialectChoice | str | None = "auto",
) -> tuple[dict[str, PlacedCurve], int]:
    """Return the curve of each metric of *run*, with the lines of its values, and the number of damaged bytes.

    Names, steps and values are those of ``history`` with the latest attempts, in the order of the log; a text that is
    called as a metric is ``texts/NAME``. *on_record* is called with each record of all attempts, in order, and the step
    that it is at; records in blocks of successive steps are left out. It raises as ``history`` does.
    """
    table, damaged_bytes = _read_table(run, _Table(None, "latest", PlacedCurve), dialect, on_record)
    found: dict[str, PlacedCurve] = {}
    for (sort, name), curve in table.columns.items():
        found[_title(name, sort, found)] = curve
    return found, damaged_bytes


def _read_table(
    run: str | os.PathLike[str],
    table: _T,
    dialect: DialectChoice | str | None,
    on_record: Callable[[Record, int | float], object] | None = None,
) -> tuple[_T, int]:
    """Return *table*, or one like it, with the values of *run*, and the number of damaged bytes."""
    choice = DialectChoice.of(dialect)
    path = locate_stream(public(os.fspath(run)), choice.stream_files)
    is_latest = table.view == "latest"
    with read(path, mode="salvage", dialect=choice) as reading:
        reading.give_blocks(exact=True)
        table.take(reading, on_record)
        report = reading.report
    if table.placing.starts_late or (is_latest and table.attempts):
        table = table.again()
        with read(path, mode="salvage", profile=report.profile, dialect=choice) as reading:
            if report.dialect is None:
                reading.give_blocks(exact=True, attempts=table.attempts)
            table.take(latest(reading, table.attempts) if is_latest else reading)
    return table, report.gap_bytes


class History(Mapping[str, Sequence[Cell]]):
    """Values of a run by name, each column a list with one cell for each row.

    A cell is None where the metric has no value in that row, and NaN or an infinity where the value was not finite.
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[Cell]],
        damaged_bytes: int = 0,
        missing: Mapping[str, Counter[str]] | None = None,
        other_records: Mapping[str, int] | None = None,
    ) -> None:
        self._columns = dict(columns)
        self.damaged_bytes = damaged_bytes
        """Number of bytes in lines that cannot be read."""
        self.missing: Mapping[str, Counter[str]] = nothing_missing() if missing is None else missing
        """What the log lacks by its own notes: values ``left_out`` by name, and records ``dropped`` by kind."""
        self.other_records: Mapping[str, int] = {} if other_records is None else other_records
        """Number of records that are neither numbers nor texts, by kind: samples, media, notes and the like.

        Lists of a measurement, whose numbers have no names, are counted by its kind and their key.
        """

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame: numbers are NaN where a value is missing. Raise ImportError without pandas."""
        return table_library("pandas").DataFrame(self.to_numpy())

    def to_numpy(self) -> dict[str, Any]:
        """Return a NumPy array for each column: NaN where a value is missing or was not finite; texts are objects.

        Raise ImportError without NumPy.
        """
        numpy = table_library("numpy")
        return {name: _array(numpy, cells) for name, cells in self._columns.items()}

    def __getitem__(self, name: str) -> Sequence[Cell]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        title = f"{self.rows} rows of {', '.join(map(printable, self._columns))}"
        title += f"; {self.damaged_bytes} bytes of the log cannot be read" if self.damaged_bytes else ""
        for key, what in (("left_out", "values were left out of the log"), ("dropped", "records were not written")):
            title += f"; {number} {what}" if (number := self.missing[key].total()) else ""
        return title


class _At(NamedTuple):
    """Which record a value is from."""

    record: int
    """Number of the record, among those with values."""
    line: int
    """Number of its line; negative where the line is that one or a later one."""
    phase: str | None


class PlacedCurve:
    """The values of one metric in the order of the log, in little memory, and where each of them is."""

    def __init__(self) -> None:
        self.steps: array[int] | list[int | float] = array("q")
        self.values: array[float] | list[Cell] = array("d")
        """NaN where a value was not finite and the record does not say what it was."""
        self._places: list[tuple[int, _At]] = []
        self._next_line = 0
        self._phase: str | None = None

    def line_of(self, index: int) -> int:
        """Return the number of the line of a value; negative where it is in that line or a later one."""
        first, at = self._place_of(index)
        return at.line if at.line < 0 else at.line + index - first

    def phase_of(self, index: int) -> str | None:
        """Return the phase that the record of a value names; None if it names none."""
        return self._place_of(index)[1].phase

    def _place_of(self, index: int) -> tuple[int, _At]:
        return self._places[bisect_right(self._places, index, key=lambda place: place[0]) - 1]

    def add(self, attempt: int, step: float, value: Cell, at: _At) -> None:
        """Add a value."""
        del attempt
        if at.line != self._next_line or at.phase != self._phase:
            self._begin(at)
        self._next_line = at.line + 1
        # An array is copied once: most curves are whole numbers and floats throughout.
        if (type(step) is not int or abs(step) >= _TOO_LARGE) and type(self.steps) is array:
            self.steps = list(self.steps)
        if type(value) is not float and type(self.values) is array:
            self.values = list(self.values)
        self.steps.append(step)  # type: ignore[arg-type]
        self.values.append(value)  # type: ignore[arg-type]

    def extend(self, attempt: int, found: step_blocks.Column, at: _At) -> None:
        """Add the values of successive records, the first of which is *at*."""
        del attempt
        if at.line != self._next_line or at.phase != self._phase:
            self._begin(at)
        self._next_line = at.line + len(found.steps)
        self.steps.extend(found.steps)
        self.values.extend(found.values)

    def _begin(self, at: _At) -> None:
        self._places.append((len(self.steps), at))
        self._phase = at.phase


_C = TypeVar("_C", "_Column", PlacedCurve)
_T = TypeVar("_T", bound="_Table[Any]")


class _Column:
    """The values of one metric in the order of the log, and where each of them is."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.steps: list[int | float] = []
        self.values: list[Cell] = []
        self.records: list[int] = []
        """Numbers of the records that the values are from."""

    def add(self, attempt: int, step: float, value: Cell, at: _At) -> None:
        """Add a value."""
        self.attempts.append(attempt)
        self.steps.append(step)
        self.values.append(value)
        self.records.append(at.record)

    def extend(self, attempt: int, found: step_blocks.Column, at: _At) -> None:
        """Add the values of successive records, the first of which is *at*."""
        count = len(found.steps)
        self.attempts.extend(repeat(attempt, count))
        self.steps.extend(found.steps)
        self.values.extend(found.values)
        self.records.extend(range(at.record, at.record + count))

    def repeated(self) -> set[tuple[int, int | float]]:
        """Return the attempts and steps that have more than one value."""
        if len(set(self.attempts)) <= 1 and all(map(lt, self.steps, islice(self.steps, 1, None))):
            return set()
        return {at for at, times in Counter(zip(self.attempts, self.steps, strict=True)).items() if times > 1}

    def keys(self, rows: Mapping[int, int]) -> list[Place]:
        """Return the row of each value, which is that of its record: the first of its step unless *rows* has it."""
        if not rows:
            return list(zip(self.attempts, self.steps, repeat(0)))
        return list(zip(self.attempts, self.steps, map(rows.get, self.records, repeat(0)), strict=False))


def _rows_of(columns: Iterable[_Column]) -> dict[int, int]:
    """Return the row, at its step, of each record at a step at which a metric has more than one value.

    A record is after those that have one of its metrics, and its values are in one row.
    """
    columns = list(columns)
    repeated = set().union(*(column.repeated() for column in columns))
    if not repeated:
        return {}
    members: dict[int, tuple[tuple[int, int | float], list[int]]] = {}
    for number, column in enumerate(columns):
        for at, record in zip(zip(column.attempts, column.steps, strict=True), column.records, strict=True):
            if at in repeated:
                members.setdefault(record, (at, []))[1].append(number)
    found: dict[int, int] = {}
    after: Counter[tuple[tuple[int, int | float], int]] = Counter()
    for record, (at, numbers) in sorted(members.items()):
        row = max(after[at, number] for number in numbers)
        after.update({(at, number): row + 1 - after[at, number] for number in numbers})
        found[record] = row
    return found


class _Table(Generic[_C]):
    """Columns that are made from the records of a run in order."""

    def __init__(
        self,
        wanted: Sequence[str] | None,
        view: AttemptView,
        new_column: type[_C],
        attempts: Attempts | None = None,
    ) -> None:
        self._learns = attempts is None
        self.attempts = Attempts() if attempts is None else attempts
        self.placing = Placing(self.attempts)
        self._wanted, self.view = wanted, view
        self._new_column: type[_C] = new_column
        self.columns: dict[tuple[Sort, str], _C] = {}
        self._places = {name: _Column() for name in _PLACES if wanted is not None and name in wanted}
        self._known: set[str] = set()
        self._number = 1
        self._records = 0
        self._first_time: float | None = None
        self._missing = nothing_missing()
        self._others: Counter[str] = Counter()

    def again(self) -> Self:
        """Return an empty table that knows the attempts."""
        return type(self)(self._wanted, self.view, self._new_column, self.attempts)

    def take(self, items: Iterable[Any], on_record: Callable[[Record, int | float], object] | None = None) -> None:
        """Add the values of records and blocks; *on_record* is called with each record that is in none."""
        for item in items:
            if isinstance(item, StepBlock):
                self._take_block(item)
            elif isinstance(item, RowBlock):
                for row in item.rows():
                    self._take_record(row)
            else:
                if on_record is not None:
                    on_record(item, self.placing.step_of(item))
                self._take_record(item)

    def _take_record(self, record: Record) -> None:
        if self._learns:
            self.attempts.learn(record)
        is_resumption = record.profile == "toy/v1" and record.kind == "run_resume"
        self._number = self._number + 1 if is_resumption else max(self._number, record.attempt)
        if record.kind is not None:
            count_missing(self._missing, record)
            for name in others_in(record.value, record.profile, record.kind):
                self._others[name] += 1
        values, texts = self.attempts.named_values(record), record.texts and self.attempts.named_texts(record)
        step = self.placing.take(record)
        time = record.time
        if time is not None and self._first_time is None:
            self._first_time = time if record.time_origin == "unix" else 0.0
        if not values and not texts:
            return
        self._records += 1
        parts: list[tuple[Sort, Mapping[str, Any]]] = [("number", values), ("text", texts)]
        at = _At(self._records, record.line, record.phase)
        is_asked = False
        for sort, found in parts:
            for name, value in found.items():
                column = self.columns.get((sort, name)) or self._column(sort, name)
                if column is not None:
                    is_asked = True
                    cell = value if type(value) in (float, str) else _number(value)
                    column.add(self._number, step, cell, at)
        if is_asked and self._places:
            self._place("time", [step], None if time is None else [time])
            self._place("epoch", [step], None if record.epoch is None else [record.epoch])

    def _place(self, name: str, steps: Iterable[int | float], places: Iterable[float] | None) -> None:
        """Add the times or epochs of records, the next ones."""
        column = self._places.get(name)
        if column is not None and places is not None:
            begin = self._first_time or 0.0 if name == "time" else 0.0
            for at, (step, place) in enumerate(zip(steps, places, strict=True)):
                if not isnan(place):
                    column.add(self._number, step, place - begin, _At(self._records + at, 0, None))

    def _take_block(self, block: StepBlock) -> None:
        numbers, columns = block.numbers, block.columns()
        if numbers.times is not None and self._first_time is None:
            origin = mapping_of(block.profile).origin_of(numbers.times[0])
            self._first_time = numbers.times[0] if origin == "unix" else 0.0
        self.placing.take_block(numbers.kinds, numbers.steps, numbers.phase)
        self._records += 1
        # A record has all metrics of a step, or is one scalar.
        is_each, is_placed = block.profile == "kaun/v1", False
        for name, found in self.attempts.named(columns, numbers.phase).items():
            column = self._column("number", name)
            if column is not None:
                line = -block.line if is_each else block.line
                column.extend(self._number, found, _At(self._records, line, numbers.phase))
                if is_each or not is_placed:
                    self._place("time", found.steps, found.times)
                    self._place("epoch", found.steps, found.epochs)
                    is_placed = True
            self._records += len(found.steps) if is_each else 0
        self._records += block.records

    def _column(self, sort: Sort, name: str) -> _C | None:
        """Return the column of a metric; None for one that was not asked for."""
        column = self.columns.get((sort, name))
        if column is None:
            self._known.add(name)
            if self._wanted is None or name in self._wanted:
                column = self.columns[sort, name] = self._new_column()
        return column


class _Rows(_Table[_Column]):
    """Columns that become a table with a row for each step."""

    def finished(self, damaged_bytes: int) -> History:
        """Return the table of what was added."""
        for name in self._wanted or ():
            if name not in self._known and name not in ("step", *_PLACES):
                raise unknown_metric(name, self._known)
        row_of, ordered = _rows_of(self.columns.values()), self._ordered()
        keys = [column.keys(row_of) for _, column in ordered]
        rows = sorted(set().union(*keys))
        index = {key: at for at, key in enumerate(rows)}
        found: dict[str, Sequence[Cell]] = {"step": [step for _, step, _ in rows]}
        if self.view == "all":
            found["attempt"] = [attempt for attempt, _, _ in rows]
        for ((sort, name), column), places in zip(ordered, keys, strict=True):
            cells: list[Cell] = [None] * len(rows)
            # Of several records in a row, the first one has its place.
            for key, value in zip(reversed(places), reversed(column.values), strict=True):
                cells[index[key]] = value
            found[_title(name, sort, found)] = cells
        return History(found, damaged_bytes, self._missing, self._others)

    def _ordered(self) -> list[tuple[tuple[Sort, str], _Column]]:
        """Return the columns, those that were asked for in that order; a place is a metric where only that is known."""
        items = list(self.columns.items())
        if self._wanted is None:
            return items
        order = {name: at for at, name in enumerate(self._wanted)}
        places: list[tuple[tuple[Sort, str], _Column]] = [
            (("place", name), column)
            for name, column in self._places.items()
            if column.values or name not in self._known
        ]
        return sorted([*places, *items], key=lambda item: order[item[0][1]])


def _title(name: str, sort: str, taken: Mapping[str, object]) -> str:
    """Return what to call a column: a metric may be called as the first column is, and a text as a metric is."""
    while name in taken:
        name = f"{'texts' if sort == 'text' else 'values'}/{name}"
    return name


def _number(value: float | None) -> float | int:
    """Return a number as a float where that is exact; NaN for null."""
    if value is None:
        return nan
    return value if isinstance(value, int) and abs(value) > _EXACT else float(value)


def _array(numpy: Any, cells: Sequence[Cell]) -> Any:
    if all(type(cell) is int for cell in cells):
        return numpy.array(cells)
    if all(cell is None or isinstance(cell, float | int) for cell in cells):
        return numpy.array([nan if cell is None else cell for cell in cells])
    return numpy.array(cells, dtype=object)


def table_library(name: str) -> Any:
    """Return the module *name*, which has tables; raise ImportError that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this table needs {name}: python -m pip install {name}") from error
