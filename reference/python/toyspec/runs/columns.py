"""Any fact about a run by name: a column to show, to sort by, or to compare with a value."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.runs.expressions import UNKNOWN, Question
from toyspec.runs.rows import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toyspec.runs.expressions import Expression
    from toyspec.runs.summary import RunSummary

FACTS: dict[str, Callable[[RunSummary], Any]] = {
    "run": lambda run: run.name,
    "path": lambda run: run.directory,
    "run_id": lambda run: run.start.get("run_id"),
    "profile": lambda run: run.profile or (run.dialect.name if run.dialect else None),
    "state": lambda run: run.state,
    "sealed": lambda run: bool(run.sealed),
    "reason": lambda run: run.reason,
    "last_step": lambda run: run.last_step,
    "final_loss": lambda run: run.final_loss,
    "seconds": lambda run: run.seconds,
    "started_at": lambda run: run.started_at,
    "bytes": lambda run: run.extent.size,
}
"""What every run has, by the name of its column."""

FINDING_FIELDS = ("errors", "warnings", "findings")
"""The fields whose values a check must count."""

_MEMBERS = {
    "name": "name", "id": "id", "group": "group", "tag": "tags", "tags": "tags", "state": "state",
    "run": "name", "run_id": "run_id", "path": "id", "reason": "reason", "last_step": "steps", "sealed": "sealed",
    "final_loss": "final_loss", "started_at": "started", "started": "started", "took": "seconds", "seconds": "seconds",
    "duration": "seconds", "steps": "steps",
    "progress": "progress", "bytes": "bytes", "size": "bytes",
}  # fmt: skip
_COUNTS = {"errors": ("error",), "warnings": ("warning",), "findings": ("error", "warning", "info")}
_PREFIXES = ("config.", "model.", "last.", "best.", "nan.")


def needs_whole_streams(columns: Iterable[str]) -> bool:
    """Return whether a column may be a metric, whose last value the end of a stream need not have."""
    own = {*FACTS, *_MEMBERS, *_COUNTS}
    return any(name not in own and not name.startswith(("config.", "model.")) for name in columns)


class Fields:
    """The fields of a run by name, made once, when the first is asked for."""

    def __init__(self, run: RunSummary, findings: Mapping[str, int] | None = None) -> None:
        """Take the fields of *run*; *findings* are the numbers of its findings by severity, where they are known."""
        self.run = run
        self._findings = findings

    @cached_property
    def _row(self) -> dict[str, Any]:
        row = RunRow(self.run, self.run.directory)
        row["findings"] = self._findings
        return row

    def value(self, name: str) -> Any:
        """Return the value of a field, None if the run has none."""
        found = self._field(name)
        return None if found is UNKNOWN else found

    @property
    def question(self) -> Question:
        """What a filter may ask of the run."""
        return Question(self._field, lambda: text_of(self._row))

    def _field(self, name: str) -> Any:
        fact = FACTS.get(name)
        return field_of(self._row, name) if fact is None else fact(self.run)


def text_of(row: Mapping[str, Any]) -> str:
    """Return everything that words are looked for in, in lower case."""
    members = ("name", "id", "group", "state", "profile", "dialect")
    return "\n".join([*(row[name] or "" for name in members), *row["tags"]]).lower()


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field of the run with this *row*; UNKNOWN if it has none.

    A field is a fact of every run, ``config.NAME``, ``last.NAME``, ``best.NAME``, ``nan.NAME``, and without a prefix
    a setting, the end of the name of a setting, or the last value of a metric.
    """
    if name in _MEMBERS:
        return row[_MEMBERS[name]]
    if name == "profile":
        return row["profile"] or row["dialect"]
    if name in _COUNTS:
        counts = row["findings"]
        return UNKNOWN if counts is None else sum(counts[severity] for severity in _COUNTS[name])
    found = setting_of(row["config"], name)
    found = _metric(row["metrics"], name) if found is UNKNOWN else found
    return ending_of(row["config"], name) if found is UNKNOWN else found


def ending_of(config: Mapping[str, Any], name: str) -> Any:
    """Return the first setting whose name ends in *name*; UNKNOWN without one."""
    ending = f".{name}"
    return next((value for key, value in config.items() if key.endswith(ending)), UNKNOWN)


def setting_of(config: Mapping[str, Any], name: str) -> Any:
    """Return the setting *name*, with or without ``config.``; UNKNOWN without one."""
    short = name.removeprefix("config.")
    return config[short] if short in config else config.get(name, UNKNOWN)


def _metric(metrics: Mapping[str, Any], name: str) -> Any:
    part, _, rest = name.partition(".")
    if part not in ("last", "best", "nan") or rest not in metrics:
        part, rest = "last", name
    value = metrics[rest][part] if rest in metrics else None
    return UNKNOWN if value is None else value


def sorted_by(runs: Sequence[Fields], column: str, *, reverse: bool = False) -> list[Fields]:
    """Return *runs*, the best value of a metric with a goal first, else the smallest, or with *reverse* the other way.

    Text comes after numbers, and runs without a value come last.
    """
    metric = column
    for prefix in _PREFIXES:
        metric = metric.removeprefix(prefix)
    is_larger_better = any(each.run.smaller_is_better(metric) is False for each in runs if metric in each.run.series)
    values = [each.value(column) for each in runs]
    return [runs[at] for at in places_in_order(values, is_larger_better=is_larger_better, reverse=reverse)]


def places_in_order(values: Sequence[Any], *, is_larger_better: bool, reverse: bool) -> list[int]:
    """Return the places of *values* in the order of ``sorted_by``."""
    known = [at for at, value in enumerate(values) if value is not None]
    numbers = [at for at in known if number(values[at]) is not None]
    others = [at for at in known if number(values[at]) is None] if len(numbers) < len(known) else []
    numbers.sort(key=values.__getitem__, reverse=is_larger_better != reverse)
    others.sort(key=lambda at: str(values[at]), reverse=reverse)
    return [*numbers, *others, *(at for at, value in enumerate(values) if value is None)]


def meeting(values: Mapping[str, Sequence[Any]], filters: Sequence[Expression]) -> list[int]:
    """Return the places of the runs whose *values*, by field, meet all *filters*, which have no words."""
    names = dict.fromkeys(name for each in filters for name in each.fields)
    found = []
    for at, row in enumerate(zip(*map(values.__getitem__, names), strict=True)):
        question = Question(dict(zip(names, row, strict=True)).__getitem__, str)
        if all(each.holds(question) for each in filters):
            found.append(at)
    return found
