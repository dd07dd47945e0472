"""Makes toy/v1 events from the tables of MLflow."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from toyspec.convert.databases import DATABASE_ERRORS
from toyspec.convert.losses import DAMAGED, NO_PLACE, NOT_FINITE, Cause, at_step, step_member
from toyspec.convert.scalar_lines import line_of_scalars, lines_of_values
from toyspec.convert.timeline import Timeline, earliest, is_wall
from toyspec.writing.clocks import utc_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from toyspec.convert.losses import Ledger

CLAMPED = Cause("clamped", "changed", "the largest number stands for an infinity, which MLflow cannot keep: null")
TAG = Cause("tag", "changed", "a tag with a value becomes one text, `key=value`")

LARGEST = 1.7976931348623157e308

_REASONS = {"FINISHED": "completed", "FAILED": "errored", "KILLED": "aborted"}
_NAMED_TAGS = {"mlflow.runName": "name", "mlflow.note.content": "notes"}
_COMMIT = "mlflow.source.git.commit"
_BATCH = 4096
# Of name, value, timestamp and step.
_PLAIN_TYPES = [{str}, {float}, {int}, {int}]


class MlflowImport:
    """Reads one run from the tables runs, metrics, params, tags and experiments."""

    def __init__(
        self,
        database: sqlite3.Connection,
        run_id: str,
        ledger: Ledger,
        others: Callable[[float], Iterator[dict[str, Any]]],
        *,
        largest: float = LARGEST,
    ) -> None:
        """*others* yields the artifacts of the run at a time; *largest* is what the store writes for infinity."""
        self._largest = largest
        self._others = others
        self._database = database
        self._run_id = run_id
        self._ledger = ledger
        self._timeline: Timeline

    def events(self) -> Iterator[dict[str, Any] | bytes]:
        """Yield ``run_start``, the metrics in the order of their times, and ``run_end`` if the run has ended."""
        name, status, start, end, group = self._run()
        # One value without a time must not take the times of all others that are before the start.
        query = "SELECT min(timestamp) FROM metrics WHERE run_uuid = ? AND timestamp > 0"
        first = next(self._rows(query), (None,))[0]
        self._timeline = Timeline(self._ledger, earliest(ms / 1000 for ms in (start, first) if isinstance(ms, int)))
        yield self._start(name, group)
        rows = self._rows(
            "SELECT key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step, key"
        )
        while batch := list(islice(rows, _BATCH)):
            lines = self._plain(batch)
            if lines is not None:
                yield lines
                continue
            for row in batch:
                yield self._metric(*row)
        yield from self._others(self._timeline.last)
        if status in _REASONS:
            yield self._end(status, end)

    def _run(self) -> tuple[Any, ...]:
        query = (
            "SELECT runs.name, runs.status, runs.start_time, runs.end_time, experiments.name FROM runs "
            "LEFT JOIN experiments ON runs.experiment_id = experiments.experiment_id WHERE run_uuid = ?"
        )
        return next(self._rows(query), (None,) * 5)

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of *query*; where the database is damaged, end with an entry in the ledger."""
        try:
            yield from self._database.execute(query, (self._run_id,))
        except DATABASE_ERRORS as error:
            self._ledger.lose(DAMAGED, "database", str(error))

    def _start(self, name: Any, group: Any) -> dict[str, Any]:
        ledger = self._ledger
        start = self._timeline.run_start()
        if name:
            start["name"] = str(name)
        if group:
            start["group"] = str(group)
        config = {str(key): value for key, value in self._rows("SELECT key, value FROM params WHERE run_uuid = ?")}
        ledger.carry(len(config))
        if config:
            start["config"] = config
        tags: list[str] = []
        for key, value in self._rows("SELECT key, value FROM tags WHERE run_uuid = ? ORDER BY key"):
            self._tag(str(key), str(value or ""), start, tags)
        if tags:
            start["tags"] = tags
        return start

    def _tag(self, key: str, value: str, start: dict[str, Any], tags: list[str]) -> None:
        ledger = self._ledger
        ledger.items += 1
        if key in _NAMED_TAGS:
            start[_NAMED_TAGS[key]] = value
        elif key == _COMMIT:
            start["git"] = {"sha": value}
        elif key.startswith("mlflow."):
            ledger.drop(NO_PLACE, f"tag {key}", value)
            return
        elif value:
            tags.append(f"{key}={value}")
            ledger.changed(TAG, f"tag {key}", value, tags[-1])
        else:
            tags.append(key)
        ledger.done()

    def _plain(self, rows: list[tuple[Any, ...]]) -> bytes | None:
        """Return the lines of *rows*; None unless each has a finite value and a step, and the times follow."""
        names, values, stamps, steps, nans = zip(*rows, strict=True)
        types = [set(map(type, column)) for column in (names, values, stamps, steps)]
        start = self._timeline.start
        if types != _PLAIN_TYPES or any(nans) or min(steps) < 0 or start is None:
            return None
        # NaN is not less than anything.
        times = [stamp / 1000 - start for stamp in stamps]
        if not all(abs(value) < self._largest for value in values) or not self._timeline.follows(times):
            return None
        self._timeline.take(times[-1])
        self._ledger.carry(len(rows))
        return lines_of_values(times, steps, names, values)

    def _metric(self, key: Any, value: Any, timestamp: Any, step: Any, is_nan: Any) -> bytes:
        ledger = self._ledger
        name = str(key)
        place = at_step(step, name)
        ledger.items += 1
        t = self._timeline.t(timestamp / 1000 if isinstance(timestamp, int) else timestamp, place)
        kept = step_member(step, place, ledger).get("step")
        number: float | None = float(value) if isinstance(value, int | float) else float("nan")
        assert number is not None
        if is_nan or number - number != 0.0:
            shown = "nan" if is_nan else number if isinstance(value, int | float) else value
            ledger.changed(NOT_FINITE, place, shown, "null")
            number = None
        elif abs(number) == self._largest:
            ledger.changed(CLAMPED, place, number, "null")
            number = None
        ledger.done()
        return line_of_scalars(t, kept, {name: number})

    def _end(self, status: str, end: Any) -> dict[str, Any]:
        self._ledger.carry()
        made: dict[str, Any] = {"kind": "run_end", "t": self._timeline.last, "reason": _REASONS[status]}
        if isinstance(end, int) and is_wall(end / 1000):
            made["ended_at"] = utc_text(end / 1000)
            made["t"] = max(self._timeline.last, end / 1000 - (self._timeline.start or end / 1000))
        return made
