"""The rules that hold between lines, made from ``schemas/<profile>/v1/stream.json``: see spec/stream.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.checker.observing import Block, Facts, Hit, Observation
from toyspec.checker.order_rules import First, Last, Monotone, Once, Present, Rule, SequencePerPhase
from toyspec.checker.relation_rules import Nested, NullNumber, Requires, SameAsLast
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
}


class StreamRules:
    """All rules between lines of one profile, in the order of its ``stream.json``."""

    def __init__(self, profile: str) -> None:
        stream = STREAMS[profile]
        self.facts = Facts(stream)
        self._all = [_TYPES[rule["type"]](rule, self.facts) for rule in stream["rules"]]
        self.loud = frozenset(kind for rule in self._all for kind in rule.loud)
        """The kinds whose records have to be observed one by one."""
        self._by_kind: dict[str | None, list[Rule]] = {}

    def observe(self, seen: Observation) -> list[Hit]:
        """Return what is wrong at a record; ``seen.kind`` is None where the tag is missing or no string."""
        rules = self._by_kind.get(seen.kind)
        if rules is None:
            rules = [rule for rule in self._all if rule.kinds is None or seen.kind in rule.kinds]
            if len(self._by_kind) < 64:  # kinds are log content
                self._by_kind[seen.kind] = rules
        hits = [hit for rule in rules for hit in rule.observe(seen)]
        self.facts.observe(seen)
        return hits

    def pass_over(self, block: Block) -> bool:
        """Return whether nothing is wrong in *block*, which has no record of a loud kind, and take it in if so.

        Where it cannot be proven, nothing has changed.
        """
        if not all(rule.is_quiet(block) for rule in self._all):
            return False
        for rule in self._all:
            rule.pass_over(block)
        return True

    def gap(self) -> None:
        """Take note of an unreadable line."""
        self.facts.gap_seen = True
        for rule in self._all:
            rule.gap()

    def finish(self) -> list[Hit]:
        """Return what is wrong at the end of a stream that has records and no fragment."""
        return [hit for rule in self._all for hit in rule.finish()]
