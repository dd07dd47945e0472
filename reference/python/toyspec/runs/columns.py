"""Any fact about a run by name: a column to show, to sort by, or to compare with a value."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.format.json_numbers import number
from toyspec.reading.sealed_files import has_seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.runs.summary import RunSummary

FACTS: dict[str, Callable[[RunSummary], Any]] = {
    "run": lambda run: run.name,
    "path": lambda run: run.directory,
    "run_id": lambda run: run.start.get("run_id"),
    "profile": lambda run: run.profile or (run.dialect.name if run.dialect else None),
    "state": lambda run: run.state,
    "sealed": lambda run: has_seal(run.directory),
    "reason": lambda run: run.end.get("reason") if run.end else None,
    "last_step": lambda run: run.last_step,
    "final_loss": lambda run: run.final_loss,
    "seconds": lambda run: run.seconds,
    "started_at": lambda run: run.started_at,
    "bytes": lambda run: run.extent.size,
}
"""What every run has, by the name of its column."""

_PREFIXES = ("config.", "model.", "last.", "best.")
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*(.+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*")


class Condition(msgspec.Struct, frozen=True):
    """A comparison of a column with a value."""

    column: str
    sign: str
    value: float | str

    def holds(self, run: RunSummary) -> bool:
        """Return whether *run* has the column and the comparison is true; text and numbers are never in order."""
        found = value_of(run, self.column)
        if isinstance(found, bool):
            found = "true" if found else "false"
        figure = number(found)
        if figure is not None and isinstance(self.value, float):
            return bool(_OPERATORS[self.sign](figure, self.value))
        if isinstance(found, str) and self.sign in ("=", "!="):
            return (found == str(self.value)) == (self.sign == "=")
        return False


def condition(text: str) -> Condition:
    """Return the condition in *text*, for example ``config.lr<1e-3``; raise ValueError for anything else."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a condition; write NAME, one of {' '.join(_OPERATORS)}, and a value")
    column, sign, value = match.groups()
    try:
        return Condition(column, sign, float(value))
    except ValueError:
        return Condition(column, sign, value)


def value_of(run: RunSummary, column: str) -> Any:
    """Return the value of *column* in the row of *run*, None if it has none.

    A name without a prefix is a fact of every run, else a setting, else the last value of a metric.
    """
    row = run.row()
    names = (column, f"config.{column}", f"model.{column}", f"last.{column}")
    return next((row[name] for name in names if name in row), None)


def needs_whole_streams(columns: Iterable[str]) -> bool:
    """Return whether a column may be a metric, whose last value the end of a stream need not have."""
    return any(name not in FACTS and not name.startswith(("config.", "model.")) for name in columns)


def sorted_by(runs: Sequence[RunSummary], column: str) -> list[RunSummary]:
    """Return *runs*, the best value of a metric with a goal first, else the smallest; runs without one come last."""
    metric = column
    for prefix in _PREFIXES:
        metric = metric.removeprefix(prefix)
    keyed = [(value_of(run, column), run) for run in runs]
    numbers = [(value, run) for value, run in keyed if number(value) is not None]
    others = [(str(value), run) for value, run in keyed if number(value) is None and value is not None]
    is_larger_better = any(run.smaller_is_better(metric) is False for run in runs if metric in run.series)
    numbers.sort(key=lambda pair: pair[0], reverse=is_larger_better)
    others.sort(key=lambda pair: pair[0])
    return [run for _, run in (*numbers, *others)] + [run for value, run in keyed if value is None]
