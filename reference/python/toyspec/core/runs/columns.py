"""Any fact about a run by name: a column to show, to sort by, or to compare with a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.errors import ExpressionError
from toyspec.core.escaping import shortened
from toyspec.core.format.numbers import number
from toyspec.core.generated.runs import ALIASES, COLUMNS, COUNTS, TITLES
from toyspec.core.runs.expressions import UNKNOWN, Question, lowered
from toyspec.core.runs.run_facts import MOST_ALIKE, near_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.core.findings import Severity
    from toyspec.core.runs.expressions import Expression
    from toyspec.core.runs.run_facts import MetricFacts, RunFacts

ALERT_FIELDS = tuple(name for name, by in COUNTS.items() if by == "health")
"""The fields whose values health rules must count: those of the project, or of the catalog."""
FINDING_FIELDS = tuple(name for name, by in COUNTS.items() if by == "check")
"""The fields whose values a check must count."""

_COUNTS: dict[str, tuple[Severity, ...]] = {
    "errors": ("error",),
    "warnings": ("warning",),
    "findings": ("error", "warning", "info"),
}
METRIC_PARTS = ("last", "best", "nan")
"""What a field may ask of a metric, by its prefix."""
OWN_FIELDS = frozenset([*COLUMNS, *ALIASES, *COUNTS])
"""The fields that every run has; others are settings and metrics of some runs."""

# What tables call a field, and another name that is tried.
_MEANT = {title: name for name, title in TITLES.items()} | {"status": "state"}


def needs_whole_streams(columns: Iterable[str]) -> bool:
    """Return whether a column may be a metric, whose last value the end of a stream need not have."""
    return any(name not in OWN_FIELDS and not name.startswith(("config.", "model.")) for name in columns)


def needs_metrics(facts: RunFacts, names: Iterable[str]) -> bool:
    """Return whether one of *names*, which not every run has, may be a metric of the run *facts*."""
    settings = facts.settings or {}
    return any(not name.startswith(("config.", "model.")) and setting_of(settings, name) is UNKNOWN for name in names)


def asks_for_hidden(*filters: Expression) -> bool:
    """Return whether a filter is about hidden runs, which lists leave out and count otherwise."""
    return any("hidden" in each.fields for each in filters)


def requiring(runs: Iterable[RunFacts], names: Iterable[str], filters: Sequence[Expression] = ()) -> Iterator[RunFacts]:
    """Yield *runs*; raise ExpressionError for the first of *names*, and of what *filters* compare, that none has."""
    missing: dict[str, int | None] = dict.fromkeys(names)
    for each in filters:
        missing |= each.fields
    near: dict[str, None] = {}
    is_empty = True
    for facts in runs:
        yield facts
        is_empty = False
        missing = {name: at for name, at in missing.items() if not has_field(facts, name)}
        if missing and len(near) < MOST_ALIKE:
            near.update(dict.fromkeys(_names(facts)))
    for name, at in () if is_empty else missing.items():
        raise unknown_field(name, near, at)


def meets(facts: RunFacts, filters: Iterable[Expression]) -> bool:
    """Return whether a run meets all *filters*."""

    def text() -> str:
        texts = (facts.name, facts.path, facts.group, facts.notes, facts.profile, *_state_words(facts), *facts.tags)
        return lowered("\n".join(text or "" for text in texts))

    question = Question(lambda name: _asked(facts, name), text)
    return all(each.holds(question) for each in filters)


def _asked(facts: RunFacts, name: str) -> Any:
    """Return what a filter asks of a run: ``state`` is every word of it that is shown, and that of its log."""
    return _state_words(facts) if name == "state" else field_of(facts, name)


def _state_words(facts: RunFacts) -> list[str]:
    return [*facts.state_text.split(", "), *facts.warnings, facts.state]


def has_field(facts: RunFacts, name: str) -> bool:
    """Return whether the run has the field, also if it has no value for it."""
    is_metric = name not in COUNTS and _metric(facts.metrics or {}, name) is not None
    return is_metric or field_of(facts, name) is not UNKNOWN


def _names(facts: RunFacts) -> Iterator[str]:
    """Yield the names of settings and metrics, those of nested settings by their ends too."""
    for name in facts.settings or ():
        yield name
        yield name.rpartition(".")[2]
    yield from facts.metrics or ()


def value_of(facts: RunFacts, name: str) -> Any:
    """Return the value of a field, None if the run has none."""
    found = field_of(facts, name)
    return None if found is UNKNOWN else found


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


def field_of(facts: RunFacts, name: str) -> Any:
    """Return the value of a field of a run; UNKNOWN if it has none, and for a metric that has no such value.

    A field is a fact of every run, ``config.NAME``, ``last.NAME``, ``best.NAME``, ``nan.NAME``, and without a prefix
    a setting, the end of the name of a setting, or the last value of a metric.
    """
    known = ALIASES.get(name, name)
    if known in COLUMNS:
        return facts[known]
    if known in ALERT_FIELDS:
        return UNKNOWN if facts[known] is None else facts[known]
    if known in FINDING_FIELDS:
        return UNKNOWN if facts.findings is None else sum(facts.findings[each] for each in _COUNTS[known])
    settings = facts.settings or {}
    found = setting_of(settings, name)
    if found is not UNKNOWN:
        return found
    metric = _metric(facts.metrics or {}, name)
    if metric is None:
        return next((value for key, value in settings.items() if key.endswith(f".{name}")), UNKNOWN)
    value = getattr(*metric)
    return UNKNOWN if value is None else value


def setting_of(config: Mapping[str, Any], name: str) -> Any:
    """Return the setting *name*, with or without ``config.``; UNKNOWN without one."""
    short = name.removeprefix("config.")
    return config[short] if short in config else config.get(name, UNKNOWN)


def _metric(metrics: Mapping[str, MetricFacts], name: str) -> tuple[MetricFacts, str] | None:
    """Return the metric that *name* is about and which part of it; None if it is about none."""
    part, _, rest = name.partition(".")
    if part not in METRIC_PARTS or rest not in metrics:
        part, rest = "last", name
    return (metrics[rest], part) if rest in metrics else None


def metric_of(column: str) -> str:
    """Return the name of the metric that a *column* is about, if it is about one."""
    for prefix in ("config", "model", *METRIC_PARTS):
        column = column.removeprefix(f"{prefix}.")
    return column


ORDERS = {
    "loss": "final_loss",
    "name": "path",
    "state": "state",
    "steps": "last_step",
    "took": "seconds",
    "started": "started_at",
}
"""What lists are sorted by in one word, and the column of each."""
_MOST_FIRST = ("steps", "took")


def places_by(
    runs: Sequence[RunFacts], column: str, *, reverse: bool = False, goal: Literal["min", "max"] | None = None
) -> list[int]:
    """Return the places of *runs* in the order of the field *column*.

    The best value by *goal* is first, else by ``field_goal``, or with *reverse* the other way. Without a goal the
    smallest is best. Text comes after numbers, and runs without a value come last.
    """
    values = [value_of(each, column) for each in runs]
    known = [at for at, value in enumerate(values) if value is not None]
    numbers = [at for at in known if number(values[at]) is not None]
    others = [at for at in known if number(values[at]) is None] if len(numbers) < len(known) else []
    is_larger_better = (goal or field_goal(runs, column)) == "max"
    numbers.sort(key=values.__getitem__, reverse=is_larger_better != reverse)
    others.sort(key=lambda at: str(values[at]), reverse=reverse)
    return [*numbers, *others, *(at for at, value in enumerate(values) if value is None)]


def field_goal(runs: Sequence[RunFacts], column: str) -> Literal["min", "max"] | None:
    """Return which values of *column* are better: as a run defines its metric, else the smallest.

    None for a metric of which neither its name nor a run says it.
    """
    metric = metric_of(column)
    having = [each.metrics[metric] for each in runs if each.metrics and metric in each.metrics]
    goals = {"min"} if column in OWN_FIELDS or not having else {each.goal for each in having}
    return "max" if "max" in goals else "min" if "min" in goals else None


def ordered(runs: Sequence[RunFacts], sort: str, *, reverse: bool = False) -> list[RunFacts]:
    """Return *runs* in the order *sort*, one of ``ORDERS`` or a field; the longest and the most steps are first."""
    places = places_by(runs, ORDERS.get(sort, sort), reverse=reverse != (sort in _MOST_FIRST))
    return [runs[at] for at in places]
