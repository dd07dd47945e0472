"""What every run has, by the names of schemas/runs.json, and what names of metrics say: the loss, and their goals."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from toyspec.core.errors import ExpressionError
from toyspec.core.escaping import shortened
from toyspec.core.findings import DialectUse, Severity, state_text
from toyspec.core.format.numbers import number
from toyspec.core.generated.runs import (
    COLUMNS,
    COUNTER_NAMES,
    LOSS_NAMES,
    MINOR_WORDS,
    PLANNED_STEPS,
    SMALLER_IS_BETTER,
    VALIDATION_WORDS,
    RunColumns,
    RunState,
)
from toyspec.core.reading.run_files import is_of_latest_attempt

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence


_MOST_CHARS = 4096
# As JavaScript writes numbers: outside of these, with an exponent.
_FIXED = (1e-6, 1e21)


class RankState(NamedTuple):
    """The state of the log of one process of a run."""

    rank: int
    state: RunState


class MetricFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a metric of a run comes to."""

    count: int = 0
    """Number of values, those that are not finite included."""
    nan: int = 0
    """Number of values that are not finite."""
    first: float | None = None
    """The first value; None where it was not finite."""
    last: float | None = None
    """The last finite value; None without one."""
    last_step: int | float | None = None
    """Where the last value was, finite or not."""
    last_not_finite: bool = False
    """Whether a value that is not finite came after ``last``."""
    constant: bool = False
    """Whether there are several values, all finite and the same."""
    best: float | None = None
    """The best finite value; None where the metric has no goal."""
    best_step: int | float | None = None
    """Where the best value was."""
    goal: Literal["min", "max"] | None = None
    """Which values are better; None where that is unknown."""
    step_name: str | None = None
    """The metric over which the run wants this one drawn."""


class RunFacts(RunColumns, frozen=True, kw_only=True, omit_defaults=True):
    """What a run comes to: the columns of schemas/runs.json, the settings, and each metric. It is the row of lists.

    Where only the ends of a long log were read, settings and metrics are not known: they are None, and not in the row.
    """

    stream: str
    """Path of the stream."""
    read: Literal["ends", "whole"]
    """How much of the stream was read; of its ends, damage between them is not known."""
    as_of: int | None = None
    """Number of bytes that the facts are about, where a catalog does not read a long run again until it ends."""
    annotated: bool
    """Whether annotations say something about the run."""
    said: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the run itself says where an annotation says otherwise: some of name, group, tags and notes."""
    dialect: DialectUse | None = None
    """How the log of another program was read."""
    earlier_logs: int = 0
    """Number of logs of the run that later starts moved away; none is known of in a store."""
    superseded_steps: int = 0
    """The most steps that a resumption supersedes, where they are more than a tenth; of ends, as far as they tell."""
    loss_not_finite: bool = False
    """Whether the run has a loss at its end that is not finite."""
    world_size: int | None = None
    """Number of processes of the latest attempt."""
    unended_ranks: tuple[RankState, ...] = ()
    """The other ranks whose log is damaged, or torn and of the latest attempt."""
    settings: dict[str, Any] | None = None
    """All settings, flat, as numbers, text, booleans and None; None where they are not known."""
    metrics: dict[str, MetricFacts] | None = None
    """What each metric comes to; None where that is not known."""
    metrics_left_out: int = 0
    """Number of metrics that are not in ``metrics``, since there are too many."""
    findings: dict[Severity, int] | None = None
    """Number of findings by severity; None where nothing has checked the run."""
    alerts: int | None = None
    """Number of incidents that health rules find; None where none has read the run."""
    open_alerts: int | None = None
    """Number of those that have not ended."""

    def __getitem__(self, name: str) -> Any:
        """Return the column *name*."""
        return getattr(self, name)

    @property
    def columns(self) -> dict[str, Any]:
        """Every column by its name."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def state_text(self) -> str:
        """The state for people, with what is known of the end."""
        return state_text(self.state, self.ended, self.profile, self.reason)

    @property
    def warnings(self) -> list[str]:
        """Why the run is not as well as its state says, in words."""
        found = ["loss not finite"] if self.loss_not_finite else []
        if len(self.unended_ranks) == 1:
            return [*found, "rank {} {}".format(*self.unended_ranks[0])]
        return [*found, f"{len(self.unended_ranks)} ranks torn or damaged"] if self.unended_ranks else found


def unended(ranks: Iterable[RankState], world_size: int | None) -> list[RankState]:
    """Return those of *ranks* whose log is damaged, or torn and of the latest attempt, that of *world_size* processes.

    A process that a restart leaves out writes no end.
    """
    return [
        each
        for each in ranks
        if each.state == "damaged" or (each.state == "torn" and is_of_latest_attempt(each.rank, world_size))
    ]


def settings_of(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in the first record of a run: flat, as numbers, text, booleans and None.

    A list is its JSON; of a text that is too long, the end is left out and its digest follows.
    """
    found: dict[str, Any] = {}
    for part in ("config", "model"):
        members = start.get(part)
        if isinstance(members, dict):
            prefix = "" if part == "config" else "model."
            found |= {cut(f"{prefix}{name}"): as_scalar(value) for name, value in flat(members)}
    return found


def planned_of(settings: dict[str, Any]) -> float | None:
    """Return the number of steps that a run will do by its *settings*, more than 0; None where it is not known."""
    short = {name.rpartition(".")[2]: value for name, value in reversed(settings.items())}
    planned = next((found for name in PLANNED_STEPS if (found := number(short.get(name))) is not None), None)
    return planned if planned and planned > 0 else None


def progress_of(last_step: float | None, planned: float | None) -> float | None:
    """Return the share of its *planned* steps that a run has done; None where it is not known."""
    if last_step is None or planned is None:
        return None
    # A quotient may be beyond what a float holds.
    return 1.0 if last_step >= planned else max(0.0, last_step / planned)


def remaining_of(
    seconds: float | None, steps: tuple[float | None, float | None], planned: float | None
) -> float | None:
    """Return the seconds until *planned* steps are done, at the pace of the first and last of *steps* in *seconds*.

    None where it is not known.
    """
    first, last = steps
    if planned is None or first is None or last is None or last < first or not seconds or seconds < 0:
        return None
    try:
        found = seconds / (last - first + 1) * max(0.0, planned - last)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def finite(value: Any) -> Any:
    """Return a number that JSON has; None for another."""
    found = number(value)
    return found if found is not None and isfinite(found) else None


def cut(text: str) -> str:
    """Return *text*, cut where it is too long for a table, with the digest of all: different texts stay different."""
    if len(text) <= _MOST_CHARS:
        return text
    return f"{text[:_MOST_CHARS]}… #{_digest(text.encode('utf-8', 'surrogatepass')):08x}"


def as_scalar(value: Any) -> Any:
    """Return a *value* of JSON as a number, a text, a boolean or None: a list or an object as its JSON."""
    if isinstance(value, str):
        return cut(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return finite(value)
    return cut(_json(value)) if isinstance(value, list | dict) else None


def _json(value: Any) -> str:
    """Return the JSON of *value* as JavaScript writes it: the viewer's own reader shows the same."""
    if isinstance(value, list):
        return f"[{','.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json(key)}:{_json(member)}' for key, member in value.items())}}}"
    if isinstance(value, float | int) and not isinstance(value, bool):
        try:
            return number_text(float(value)) if isfinite(value) else "null"
        except OverflowError:
            return "null"
    return msgspec.json.encode(value).decode()


def number_text(value: float) -> str:
    """Return a number as JavaScript writes it; an integer that is too large for that, with all its digits."""
    if value == 0:
        return "0"
    if _FIXED[0] <= abs(value) < _FIXED[1]:
        from decimal import Decimal

        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}" if exponent else mantissa


def _digest(data: bytes) -> int:
    """Return the FNV-1a digest of *data*, 32 bits: the viewer's own reader has it too."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every member that is not an object by its name; inner members by the outer name, a dot and their own."""
    for key, member in value.items():
        if isinstance(member, dict) and member:
            yield from flat(member, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", member


def differing(each: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names whose values are not the same in all of *each*, flat members of several runs, that have any.

    A run without members does not make those of the others a difference. Types count: 1, 1.0 and true differ.
    """
    telling = [members for members in each if members]
    names = {name for members in telling for name in members}
    return {name for name in names if len({repr(members.get(name, differing)) for members in telling}) > 1}


Meaning = TypeVar("Meaning")

_MOST_NAMED = 8
MOST_ALIKE = 20_000
"""Number of names among which one that is alike is searched for, which takes a second."""


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the question whether one of *known* was meant by *name*; empty where none is like it."""
    # Imported here: start-up time counts.
    from difflib import get_close_matches

    near = get_close_matches(name, dict.fromkeys(islice(known, MOST_ALIKE)), 3, 0.51)
    return f"did you mean {' or '.join(repr(shortened(each)) for each in near)}?" if near else ""


def unknown_metric(name: str, known: Iterable[str], runs: int = 1) -> ExpressionError:
    """Return the error for a metric *name* that none of a number of *runs* has; their metrics are *known*."""
    return unknown_name("the run has no metric" if runs == 1 else "no run has the metric", name, known)


def unknown_name(fact: str, name: str, known: Iterable[str]) -> ExpressionError:
    """Return the error that says *fact* of *name*, with those of *known* that are alike, or some of them."""
    names = list(dict.fromkeys(islice(known, MOST_ALIKE)))
    some = ", ".join(repr(shortened(each)) for each in by_rank(names)[:_MOST_NAMED])
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    hint = near_names(name, names) or (f"known are {some}{more}" if names else "it has none")
    return ExpressionError(f"{fact} {shortened(name)!r}; {hint}")


def loss_among(metrics: Container[str]) -> str | None:
    """Return the name of the training loss among *metrics*; None if it is not there."""
    return next((name for name in LOSS_NAMES if name in metrics), None)


def metric_rank(name: str) -> int:
    """Return how soon lists show the metric *name*, from 0 on: by what it describes of a training.

    0 is the training loss, 1 a metric whose name has a goal, 2 one of validation, 3 any other, and 4 a place, a
    schedule or a time, which say little. Charts of the viewer also ask for the goal and the values of the metric.
    """
    if name in LOSS_NAMES:
        return 0
    words = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in f"_{name.lower()}_")
    if name.lower().replace(".", "/").rpartition("/")[2] in COUNTER_NAMES or _has_word(words, MINOR_WORDS):
        return 4
    return 1 if default_goal(name) else 2 if _has_word(words, VALIDATION_WORDS) else 3


def _has_word(words: str, known: Iterable[str]) -> bool:
    return any(f"_{word}_" in words for word in known)


def by_rank(metrics: Iterable[str]) -> list[str]:
    """Return the names *metrics* in the order of lists: by ``metric_rank``, the least nested, then by letters."""
    return sorted(metrics, key=lambda name: (metric_rank(name), name.count("/"), name))


@lru_cache(maxsize=1024)
def default_goal(name: str) -> str | None:
    """Return ``min`` for a metric whose name says that smaller values are better, else None."""
    lowered = name.lower()
    return "min" if any(word in lowered for word in SMALLER_IS_BETTER) else None


def goal_of(name: str, goals: Mapping[str, str]) -> str | None:
    """Return the goal of the metric *name* by *goals*, whose names may end in ``*``, else by its name."""
    stated = defined(name, goals)
    return default_goal(name) if stated is None else stated


def defined(name: str, definitions: Mapping[str, Meaning]) -> Meaning | None:
    """Return what *definitions*, whose names may end in ``*``, say of the metric *name*; None for nothing."""
    if name in definitions:
        return definitions[name]
    fitting = [key for key in definitions if key.endswith("*") and name.startswith(key[:-1])]
    return definitions[max(fitting, key=len)] if fitting else None
