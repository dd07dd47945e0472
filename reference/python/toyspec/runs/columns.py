"""Any fact about a run by name: a column to show, to sort by, or to compare with a value."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from toyspec.errors import ExpressionError
from toyspec.escaping import shortened
from toyspec.format.numbers import number
from toyspec.generated.runs import ALIASES, COLUMNS, COUNTS, TITLES
from toyspec.runs.expressions import UNKNOWN, Question, lowered
from toyspec.runs.metric_names import MOST_ALIKE, near_names
from toyspec.runs.rows import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.runs.expressions import Expression
    from toyspec.runs.summary import RunSummary

Item = TypeVar("Item")

ALERT_FIELDS = tuple(name for name, by in COUNTS.items() if by == "health")
"""The fields whose values health rules must count: those of the project, or of the catalog."""
FINDING_FIELDS = tuple(name for name, by in COUNTS.items() if by == "check")
"""The fields whose values a check must count."""

_COUNTS = {"errors": ("error",), "warnings": ("warning",), "findings": ("error", "warning", "info")}
# A row has the path under the name of what it identifies.
_IN_ROW = {"path": "id", "run": "name"}
METRIC_PARTS = ("last", "best", "nan")
"""What a field may ask of a metric, by its prefix."""
OWN_FIELDS = frozenset([*COLUMNS, *ALIASES, *COUNTS])
"""The fields that every run has; others are settings and metrics of some runs."""

# What tables call a field, and another name that is tried.
_MEANT = {title: name for name, title in TITLES.items()} | {"status": "state"}


def needs_whole_streams(columns: Iterable[str]) -> bool:
    """Return whether a column may be a metric, whose last value the end of a stream need not have."""
    return any(name not in OWN_FIELDS and not name.startswith(("config.", "model.")) for name in columns)


def asks_for_hidden(*filters: Expression) -> bool:
    """Return whether a filter is about hidden runs, which lists leave out and count otherwise."""
    return any("hidden" in each.fields for each in filters)


class Fields:
    """The fields of a run by name, made once, when the first is asked for."""

    def __init__(self, run: RunSummary, findings: Mapping[str, int] | None = None) -> None:
        """Take the fields of *run*; *findings* are the numbers of its findings by severity, where they are known."""
        self.run = run
        self._findings = findings

    @cached_property
    def _row(self) -> dict[str, Any]:
        row = RunRow(self.run, self.run.directory)
        row["findings"] = getattr(self.run, "findings", None) if self._findings is None else self._findings
        return row

    @cached_property
    def _alerts(self) -> Mapping[str, int | None]:
        return self.run.count_alerts() or {}

    def value(self, name: str) -> Any:
        """Return the value of a field, None if the run has none."""
        found = self._field(name)
        return None if found is UNKNOWN else found

    def has(self, name: str) -> bool:
        """Return whether the run has the field, also if it has no value for it."""
        if name in ALERT_FIELDS:
            return self.run.has_alerts
        if name in OWN_FIELDS:
            return name not in _COUNTS or self._row["findings"] is not None
        part, _, rest = name.partition(".")
        metrics = self._row["metrics"]
        is_metric = name in metrics or (part in METRIC_PARTS and rest in metrics)
        return is_metric or self._field(name) is not UNKNOWN

    def is_setting(self, name: str) -> bool:
        """Return whether a setting of the run has exactly this name, so that no metric can have it."""
        return setting_of(self._row["config"], name) is not UNKNOWN

    @property
    def names(self) -> Iterator[str]:
        """The names of its settings and metrics, those of nested settings by their ends too."""
        for name in self._row["config"]:
            yield name
            yield name.rpartition(".")[2]
        yield from self._row["metrics"]

    @property
    def question(self) -> Question:
        """What a filter may ask of the run."""
        return Question(self._field, lambda: text_of(self._row))

    def _field(self, name: str) -> Any:
        known = ALIASES.get(name, name)
        if known in ALERT_FIELDS:
            return _known(self._alerts.get(known))
        return self.run.facts[known] if known in COLUMNS else field_of(self._row, name)


def require_fields(names: Iterable[str], runs: Sequence[Fields], filters: Sequence[Expression] = ()) -> None:
    """Raise ExpressionError for the first of *names*, and of what *filters* compare, that no run of *runs* has."""
    if not runs:
        return
    places: dict[str, int | None] = {each.field: each.at for filter_ in filters for each in filter_.comparisons}
    for name, at in (dict.fromkeys(names) | places).items():
        if not any(each.has(name) for each in runs):
            known = dict.fromkeys(islice((near for each in runs for near in each.names), MOST_ALIKE))
            raise unknown_field(name, known, at)


def unknown_field(name: str, known: Iterable[str], at: int | None = None) -> ExpressionError:
    """Return the error for a *name* that no run has; *known* are the names of settings and metrics."""
    fact = f"no run has a field {shortened(name)!r}"
    if name in ALERT_FIELDS:
        return ExpressionError(f"{fact}: the catalog has none; build it with --health", at)
    if name in _COUNTS:
        return ExpressionError(f"{fact}: the runs were not checked; a catalog has the number of findings", at)
    near = f"did you mean {_MEANT[name]!r}?" if name in _MEANT else near_names(name, [*OWN_FIELDS, *known])
    forms = "fields are facts such as 'state', settings such as 'config.lr', and metrics such as 'loss' or 'best.loss'"
    return ExpressionError(f"{fact}; {near or forms}", at)


def text_of(row: Mapping[str, Any]) -> str:
    """Return everything that words are looked for in, as ``lowered`` text."""
    members = ("name", "id", "group", "notes", "state", "profile", "dialect")
    return lowered("\n".join([*(row[name] or "" for name in members), *row["tags"]]))


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field of the run with this *row*; UNKNOWN if it has none.

    A field is a fact of every run, ``config.NAME``, ``last.NAME``, ``best.NAME``, ``nan.NAME``, and without a prefix
    a setting, the end of the name of a setting, or the last value of a metric.
    """
    known = ALIASES.get(name, name)
    if known == "profile":
        return row["profile"] or row["dialect"]
    if known in COLUMNS:
        return row[_IN_ROW.get(known, known)]
    if name in ALERT_FIELDS:
        # A row has them once they are counted.
        return _known(row.get(name))
    if name in _COUNTS:
        counts = row["findings"]
        return UNKNOWN if counts is None else sum(counts[severity] for severity in _COUNTS[name])
    found = setting_of(row["config"], name)
    found = _metric(row["metrics"], name) if found is UNKNOWN else found
    return ending_of(row["config"], name) if found is UNKNOWN else found


def _known(value: Any) -> Any:
    return UNKNOWN if value is None else value


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
    if part not in METRIC_PARTS or rest not in metrics:
        part, rest = "last", name
    value = metrics[rest][part] if rest in metrics else None
    return UNKNOWN if value is None else value


def metric_of(column: str) -> str:
    """Return the name of the metric that a *column* is about, if it is about one."""
    for prefix in ("config", "model", *METRIC_PARTS):
        column = column.removeprefix(f"{prefix}.")
    return column


def sorted_by(
    runs: Sequence[Fields], column: str, *, reverse: bool = False, goal: Literal["min", "max"] | None = None
) -> list[Fields]:
    """Return *runs*, the best value first by *goal*, else by that of the metric, or with *reverse* the other way.

    Without a goal the smallest is best. Text comes after numbers, and runs without a value come last.
    """
    metric = metric_of(column)
    is_larger_better = (
        goal == "max"
        if goal
        else column not in OWN_FIELDS
        and any(each.run.smaller_is_better(metric) is False for each in runs if metric in each.run.series)
    )
    values = [each.value(column) for each in runs]
    return [runs[at] for at in places_in_order(values, is_larger_better=is_larger_better, reverse=reverse)]


def in_order(items: Iterable[Item], key: Callable[[Item], Any], *, reverse: bool = False) -> list[Item]:
    """Return *items* by their *key*, those without one last, whichever way round; the order of equal ones stays."""
    keyed = [(key(item), item) for item in items]
    known = sorted((pair for pair in keyed if pair[0] is not None), key=itemgetter(0), reverse=reverse)
    return [item for _, item in (*known, *(pair for pair in keyed if pair[0] is None))]


def places_in_order(values: Sequence[Any], *, is_larger_better: bool, reverse: bool) -> list[int]:
    """Return the places of *values* in the order of ``sorted_by``."""
    known = [at for at, value in enumerate(values) if value is not None]
    numbers = [at for at in known if number(values[at]) is not None]
    others = [at for at in known if number(values[at]) is None] if len(numbers) < len(known) else []
    numbers.sort(key=values.__getitem__, reverse=is_larger_better != reverse)
    others.sort(key=lambda at: str(values[at]), reverse=reverse)
    return [*numbers, *others, *(at for at, value in enumerate(values) if value is None)]
