"""What a health rule reports, and the rules as data: those of ``toyspec.toml``, and the presets in ``schemas/health/``.

``schemas/meta/health.json`` says what the members of a rule mean.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args

import msgspec

from toyspec.core import rooms
from toyspec.core.errors import ToyspecError, must_be_one_of, nearest
from toyspec.core.escaping import printable, shortened
from toyspec.core.files import read_resource
from toyspec.core.generated.runs import LOSS_NAMES
from toyspec.core.reading.configuration import Configuration, ConfigurationError, find_configuration
from toyspec.core.runs.reported import LEVELS
from toyspec.health import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Level = Literal["info", "warning", "error"]
"""How serious an alert is."""
On = Literal["alert", "stop"]
RulePhase = Literal["train", "eval", "decode", "serve"]
Direction = Literal["up", "down", "both"]
RuleGoal = Literal["min", "max"]
Average = Literal["median", "mean"]

ALL_LOSSES: Final = "@loss"
"""Stands for every loss in the metrics of a rule."""

PACE: Final = "@pace"
"""Stands for the seconds that a step takes, by the times of records."""

_NAME = "^[a-z0-9]+(-[a-z0-9]+)*$"
Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Many = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Result = TypeVar("Result")


class HealthRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """What all rules have; the meta-schema says what the members mean."""

    name: Annotated[str, msgspec.Meta(pattern=_NAME, max_length=64)]
    level: Level = "warning"
    on: On = "alert"
    after_step: Annotated[int, msgspec.Meta(ge=0)] = 0
    description: str = ""


class MetricRule(HealthRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """A rule about each metric with a name."""

    metric: tuple[str, ...] = (ALL_LOSSES,)
    except_: tuple[str, ...] = msgspec.field(name="except", default=())
    phase: RulePhase | None = None

    def covers(self, name: str, phase: str) -> bool:
        """Return whether the rule is about the metric *name* of *phase*."""
        if self.phase not in (None, phase):
            return False
        return is_among(name, self.metric) and not is_among(name, self.except_)


class NonfiniteRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="nonfinite"):
    """NaN or an infinity, *values* times in a row."""

    values: Many = 1


class SpikeRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="spike"):
    """A value far from the running median, in running interquartile ranges, *values* times in a row."""

    beyond: Positive = 8.0
    farthest: Positive | None = None
    share: NotNegative = 0.2
    least: NotNegative = 0.0
    direction: Direction = "up"
    values: Many = 1


class BoundRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="bound"):
    """A value above or below a number, *values* times in a row."""

    above: float | None = None
    below: float | None = None
    values: Many = 1


class PlateauRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="plateau"):
    """No better median for *steps* steps, and for the *share* of all steps."""

    goal: RuleGoal = "min"
    by: Positive = 0.005
    steps: Many = 500
    share: Share = 0.5


class DivergedRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="diverged"):
    """The average of the last *values* is worse than the best one so far by *share*, and by *ranges* of the values."""

    goal: RuleGoal = "min"
    share: NotNegative = 0.5
    ranges: NotNegative = 3.0
    values: Many = 11
    average: Average = "median"


class SlowerRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="slower"):
    """The last values are worse by the share *by* than those before them, or by twice that than the best."""

    metric: tuple[str, ...] = (PACE,)
    goal: RuleGoal = "min"
    by: Share = 0.2


class StallRule(HealthRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="stall"):
    """No step for *times* the median interval, and for *seconds*."""

    level: Level = "error"
    times: Positive = 20.0
    seconds: Positive = 300.0


class ExpectRule(MetricRule, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="expect"):
    """The mean of a window of steps is not where ``toyspec expect write`` found it."""

    metric: tuple[str, ...] = ("*",)
    file: str


AnyRule = NonfiniteRule | SpikeRule | BoundRule | PlateauRule | DivergedRule | SlowerRule | StallRule | ExpectRule
_CHOICES: Final = {
    key: get_args(kind)
    for key, kind in {
        "level": Level,
        "on": On,
        "phase": RulePhase,
        "direction": Direction,
        "goal": RuleGoal,
        "average": Average,
    }.items()
}
_TYPES: Final = {kind.__struct_config__.tag: kind for kind in get_args(AnyRule)}


class HealthRuleError(ValueError):
    """A rule is wrong: *key* is the member that is, or "" for the rule as a whole."""

    def __init__(self, key: str, fact: str) -> None:
        super().__init__(fact)
        self.key = key


@cache
def preset_rules(preset: str) -> tuple[AnyRule, ...]:
    """Return the rules of a preset that toyspec ships; raise ValueError for another name."""
    if preset not in PRESETS:
        hint = meant(preset, PRESETS)
        raise ValueError(f"unknown preset of health rules '{shortened(preset)}'{hint}")
    document = msgspec.json.decode(read_resource("schemas", "health", f"{preset}.json"))
    return tuple(rule_of(each) for each in document["rules"])


@cache
def project_rules() -> tuple[AnyRule, ...]:
    """Return the rules of the project around the working directory, of the first call; raise as ``rules_of`` does."""
    return rules_of(find_configuration())


def rules_of(health: str | Sequence[Mapping[str, Any]] | Configuration) -> tuple[AnyRule, ...]:
    """Return the rules asked for: a preset by name, rules as mappings, or those of settings, else of ``default``.

    Raise ValueError for a wrong one, ConfigurationError, which names file, line and key, for a wrong one of settings.
    """
    if isinstance(health, str):
        return preset_rules(health)
    if isinstance(health, list | tuple):
        return _rules_in(health, None)
    if not isinstance(health, Configuration):
        raise TypeError(f"health is {shortened(repr(health))}; pass the name of a preset, or a list of rules")
    return _rules_in(health.health, health.path) if health.health else preset_rules("default")


def _rules_in(tables: Sequence[Mapping[str, Any]], path: str | None) -> tuple[AnyRule, ...]:
    rules: dict[str, AnyRule] = {}
    own: set[str] = set()
    # A file of the settings is beside them.
    folder = os.path.dirname(path or "")
    tables = [{**each, "file": os.path.join(folder, str(each["file"]))} if "file" in each else each for each in tables]
    read_each(tables, lambda table: _add(rules, table, own), "health", path)
    return tuple(rules.values())


def read_each(
    tables: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Result], name: str, path: str | None
) -> list[Result]:
    """Return what *read* makes of each of the *tables* of the array *name*, from the settings at *path* or a program.

    A wrong one raises ConfigurationError, which names the file, or ValueError; both name the key and the table, from 1.
    """
    found = []
    for at, table in enumerate(tables):
        try:
            found.append(read(table))
        except HealthRuleError as error:
            fact = f"[[{name}]] {at + 1}{error.key and f' key {error.key}'}: {error}"
            raise (ValueError(fact) if path is None else ConfigurationError(path, fact)) from None
    return found


def _add(rules: dict[str, AnyRule], table: Mapping[str, Any], own: set[str]) -> None:
    """Add the rule in *table*, the rules of the preset that it names, or leave out the rule that it turns off.

    *own* has the names of the rules that tables before have written in full.
    """
    if "preset" in table:
        _only(table, ("preset",), "a table with preset has nothing else; put rules into tables of their own")
        if not isinstance(table["preset"], str):
            raise HealthRuleError("preset", f"preset is {shortened(repr(table['preset']))}; {must_be_one_of(PRESETS)}")
        try:
            rules.update((rule.name, rule) for rule in preset_rules(table["preset"]))
        except ValueError as error:
            raise HealthRuleError("preset", str(error)) from None
        return
    if table.get("off") is True:
        _only(table, ("name", "off"), "a rule that is off has only a name")
        name = str(table.get("name", ""))
        if name not in rules:
            known = ", ".join(rules) or "none; put the preset before it"
            raise HealthRuleError("name", f"no rule '{shortened(name)}' to turn off; rules before it: {known}")
        del rules[name]
        return
    known_rule = rules.get(str(table.get("name")))
    # A rule of a preset can be changed in a few members.
    known_members = {} if known_rule is None or "type" in table else msgspec.to_builtins(known_rule)
    rule = rule_of({**known_members, **table})
    if "type" in table and rule.name in own:
        raise HealthRuleError(
            "name", f"a table before has the name {rule.name!r} too; give each rule a name of its own"
        )
    own |= {rule.name} if "type" in table else set()
    rules[rule.name] = rule


def _only(table: Mapping[str, Any], keys: tuple[str, ...], fact: str) -> None:
    for key in table:
        if key not in keys:
            raise HealthRuleError(key, fact)


def rule_of(table: Mapping[str, Any]) -> AnyRule:
    """Return the rule in *table*; raise HealthRuleError, which names the key, for a wrong one."""
    kind = table.get("type")
    if kind is None:
        raise HealthRuleError("", f"a rule needs a type: {', '.join(map(str, _TYPES))}; or name a preset")
    if kind not in _TYPES:
        raise HealthRuleError("type", f"unknown type '{shortened(str(kind))}'{meant(str(kind), map(str, _TYPES))}")
    if "name" not in table:
        raise HealthRuleError("", 'a rule needs a name, for example name = "loss-spike"')
    known = {field.encode_name for field in msgspec.structs.fields(_TYPES[kind])} | {"type"}
    demand_known(table, known, f"a rule of type {kind}")
    given = _given(table)
    try:
        rule: AnyRule = msgspec.convert(given, AnyRule)
    except msgspec.ValidationError as error:
        raise misplaced(error) from None
    if isinstance(rule, BoundRule) and (rule.above is None) == (rule.below is None):
        raise HealthRuleError("", "a rule of type bound needs above or below, and not both")
    if isinstance(rule, ExpectRule):
        try:
            rooms.expect_bands.read_expectation(rule.file)
        except ToyspecError as error:
            raise HealthRuleError("file", str(error)) from None
    return rule


def demand_known(table: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raise HealthRuleError for a key of *table* that is not *known*; *what* has no such key."""
    for key in table:
        if key not in known:
            raise HealthRuleError(str(key), f"{what} has no key '{shortened(str(key))}'{meant(str(key), known)}")


def _given(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of *table*, names as lists; raise HealthRuleError for a value that no rule has."""
    given = dict(table)
    for key in ("metric", "except"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
        if not isinstance(given.get(key, []), list | tuple):
            raise HealthRuleError(key, f"{key} is {given[key]!r}; it must be a name, or a list of names")
    for key, value in given.items():
        if isinstance(value, float) and not isfinite(value):
            raise HealthRuleError(key, f"{key} is {value!r}; it must be a finite number")
    return given


def misplaced(error: msgspec.ValidationError) -> HealthRuleError:
    """Return *error* with the key that it is about."""
    fact, _, path = str(error).partition(" - at `$.")
    key = re.split(r"[`\[.]", path)[0] if path else ""
    if key in _CHOICES and fact.startswith("Invalid enum"):
        fact = f"{fact}; known are {', '.join(_CHOICES[key])}"
    return HealthRuleError(key, f"{key}: {fact}" if key else fact)


def meant(word: str, known: Iterable[str]) -> str:
    """Return what ends a sentence on an unknown *word*: the one of *known* that is near, else all of them."""
    names = sorted(known)
    near = nearest(word, names)
    return f"; did you mean {near!r}?" if near else f"; known are {', '.join(map(printable, names))}"


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.lower().split("*"))), re.DOTALL)


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Return whether the metric *name* is one of *patterns*: names in any case, in which ``*`` is any text.

    ``@loss`` is the training loss by the names in ``schemas/runs.json``, and every name that ends in ``loss``.
    """
    for pattern in patterns:
        if pattern == ALL_LOSSES:
            if name in LOSS_NAMES or re.search(r"(?i)(^|[^a-z])loss$", name):
                return True
        elif _matcher(pattern).fullmatch(name.lower()):
            return True
    return False


RECOVERED = "recovered: "
"""What the text of the end of an incident begins with, for people."""

SETTLED = "settled: "
"""What the text about a level that is accepted begins with."""


class HealthAlert(msgspec.Struct, frozen=True, kw_only=True):
    """The begin or the end of one incident: a rule that a metric, a process or the run breaks.

    It is ``settled`` where the incident goes on, and a later value is compared with the level that stayed.
    """

    rule: str
    """Name of the rule."""
    level: Level
    """How serious it is; the end of an incident is an info."""
    text: str
    """What happened, with the numbers; names from the log are in it unchanged."""
    event: Literal["begun", "settled", "recovered"] = "begun"
    metric: str | None = None
    """Name of the metric concerned."""
    value: float | None = None
    """Its value; None where it was not finite."""
    threshold: float | None = None
    """The bound that the value was compared with."""
    step: int | float | None = None
    """Step at which it happened; None in a log without steps."""
    time: float | None = None
    """Seconds, as the record has them."""
    rank: int | None = None
    """Number of the process concerned, from 0; None for a run of one process."""
    line: int | None = None
    """Line of the record, counted from 1; None where no record says it, as for a stall that goes on."""
    offset: int | None = None
    """Byte offset of that line."""
    stop: bool = False
    """Whether the rule asks the training to stop."""

    @property
    def subject(self) -> tuple[str, str | None, int]:
        """What an incident is about, the same at its begin and at its end: rule, metric and rank.

        The rank is 0 too where none was known: others may join while the incident goes on.
        """
        return self.rule, self.metric, self.rank or 0

    @property
    def fact(self) -> str:
        """What happened, without the word that says whether an incident ends or is settled."""
        return self.text if self.event == "begun" else self.text.removeprefix(f"{self.event}: ")

    def is_at_least(self, level: Level) -> bool:
        """Return whether this is as serious as *level*, or more."""
        return LEVELS.index(self.level) >= LEVELS.index(level)

    @property
    def event_members(self) -> dict[str, Any]:
        """The members of an ``alert`` event that says the same; without ``t``."""
        members: dict[str, Any] = {"rule": self.rule, "level": self.level, "text": self.text}
        if self.event != "begun":
            members |= {"event": "recovered"} if self.event == "recovered" else {"settled": True}
        named = {key: getattr(self, key) for key in ("metric", "threshold", "rank")}
        members |= {key: value for key, value in named.items() if value is not None}
        if self.metric is not None:
            members["value"] = self.value
        if type(self.step) is int and self.step >= 0:
            members["step"] = self.step
        return members


class Incidents:
    """The incidents of one run, as they begin and end."""

    def __init__(self) -> None:
        self.by_rule: Counter[str] = Counter()
        """Number of incidents by the name of their rule."""
        self._open: set[tuple[str, str | None, int]] = set()

    def take(self, alert: HealthAlert) -> None:
        """Add the begin or the end of an incident; one that is settled is open."""
        if alert.event == "settled":
            return
        if alert.event == "begun":
            self.by_rule[alert.rule] += 1
            self._open.add(alert.subject)
        else:
            self._open.discard(alert.subject)

    @property
    def counts(self) -> dict[str, int]:
        """The fields ``alerts`` and ``open_alerts`` of the run."""
        return {"alerts": self.by_rule.total(), "open_alerts": len(self._open)}
