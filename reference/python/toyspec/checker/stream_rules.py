"""The rules that relate records, made from ``schemas/<profile>/v1/stream.json``: see spec/stream.md."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.checker.observing import Block, Facts, Observation, StreamFinding
from toyspec.checker.order_rules import First, Last, Monotone, Once, Present, Rule, SequencePerPhase
from toyspec.checker.relation_rules import (
    Counted,
    Differs,
    Filed,
    Inside,
    LessThan,
    Nested,
    NullNumber,
    RankOfFile,
    Requires,
    SameAsLast,
    SameRun,
)
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES: dict[str, Callable[[dict[str, Any], Facts], Rule]] = {
    "first": First,
    "once": Once,
    "last": Last,
    "present": Present,
    "monotone": Monotone,
    "sequence-per-phase": SequencePerPhase,
    "same-as-last": SameAsLast,
    "nested": Nested,
    "requires": Requires,
    "null-number": NullNumber,
    "less-than": LessThan,
    "differs": Differs,
    "inside": Inside,
    "counted": Counted,
    "rank-of-file": RankOfFile,
    "same-run": SameRun,
    "filed": Filed,
}


class _Plan(NamedTuple):
    """The indexes of the rules of a profile, by occasion: the same for each stream."""

    loud: frozenset[str]
    of_kind: dict[str | None, tuple[int, ...]]
    of_others: tuple[int, ...]
    with_quiet: tuple[int, ...]
    with_pass_over: tuple[int, ...]
    with_finish: tuple[int, ...]


class StreamRules:
    """All rules of one profile that relate records, in the order of its ``stream.json``."""

    def __init__(self, profile: str) -> None:
        self._plan = _plan(profile)
        self.facts = Facts(profile)
        self._all = _made(profile, self.facts)
        complete = STREAMS[profile].get("complete", {})
        self._closing: str | None = complete.get("last")
        self._reopening: str | None = complete.get("reopened_by", {}).get("kind")
        self._ended = False
        self.loud = self._plan.loud
        """The kinds of records that must be observed one by one."""

    def observe(self, seen: Observation) -> list[StreamFinding]:
        """Return the findings at a record; ``seen.kind`` is None if the tag is missing or not a string."""
        rules, plan = self._all, self._plan
        if self._ended and seen.kind == self._reopening:
            self._ended = False
            for rule in rules:
                rule.reopen()
        self._ended = self._ended or (seen.kind is not None and seen.kind == self._closing)
        concerned = plan.of_kind.get(seen.kind, plan.of_others)
        findings = [finding for place in concerned for finding in rules[place].observe(seen)]
        self.facts.observe(seen)
        return findings

    def pass_over(self, block: Block) -> bool:
        """Return whether *block*, which has no record of a loud kind, is proven to have no finding; if so, take it in.

        If not, the state does not change.
        """
        rules, plan = self._all, self._plan
        if not all(rules[place].is_quiet(block) for place in plan.with_quiet):
            return False
        for place in plan.with_pass_over:
            rules[place].pass_over(block)
        return True

    def gap(self) -> None:
        """Note an unreadable line."""
        self.facts.gap_seen = True
        for rule in self._all:
            rule.gap()

    def finish(self) -> list[StreamFinding]:
        """Return the findings at the end of a stream that has records and no fragment."""
        return [finding for place in self._plan.with_finish for finding in self._all[place].finish()]


def _made(profile: str, facts: Facts) -> list[Rule]:
    return [_TYPES[rule["type"]](rule, facts) for rule in STREAMS[profile]["rules"]]


def _concerns(kind: str, rule: Rule) -> bool:
    return rule.kinds is None or kind in rule.kinds


@cache
def _plan(profile: str) -> _Plan:
    rules = _made(profile, Facts(profile))
    kinds = {kind for rule in rules for kind in rule.kinds or ()}

    def places(wanted: Callable[[Rule], bool]) -> tuple[int, ...]:
        return tuple(place for place, rule in enumerate(rules) if wanted(rule))

    return _Plan(
        loud=frozenset(kind for rule in rules for kind in rule.loud),
        of_kind={kind: places(partial(_concerns, kind)) for kind in kinds},
        of_others=places(lambda rule: rule.kinds is None),
        with_quiet=places(lambda rule: type(rule).is_quiet is not Rule.is_quiet),
        with_pass_over=places(lambda rule: type(rule).pass_over is not Rule.pass_over),
        with_finish=places(lambda rule: type(rule).finish is not Rule.finish),
    )
