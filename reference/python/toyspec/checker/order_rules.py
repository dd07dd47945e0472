"""Rules on the order of records: see spec/stream.md.

A rule observes every record in order and yields findings. For a block of regular records it may prove at once
that there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toyspec.checker.observing import Block, Facts, Observation, StreamFinding, phase_of, shown_number
from toyspec.escaping import shortened
from toyspec.generated import messages
from toyspec.generated.streams import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Rule:
    """A rule that relates records. The default has no findings."""

    kinds: frozenset[str] | None = None
    """The kinds that the rule observes; None means every record, of unknown kinds too."""

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield the findings at *seen*, and keep what later records are compared with."""
        raise NotImplementedError

    loud: frozenset[str] = frozenset()
    """The kinds of records that the rule must observe one by one."""

    def is_quiet(self, block: Block) -> bool:
        """Return whether *block*, which has no record of a loud kind, is proven to have no finding.

        The state of the rule does not change.
        """
        return True

    def pass_over(self, block: Block) -> None:
        """Keep what later records are compared with from *block*, which :meth:`is_quiet` has proven."""

    def gap(self) -> None:
        """Note an unreadable line."""

    def reopen(self) -> None:
        """Note that the run goes on after its end."""

    def finish(self) -> Iterator[StreamFinding]:
        """Yield the findings at the end of a stream that has records and no fragment."""
        return iter(())


class First(Rule):
    """The first record is of the kind."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self._facts = facts
        self._done = False

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding at the first record if it is of another kind."""
        if self._done:
            return
        self._done = True
        # The missing record may have been in a gap before it; a missing tag is a finding of its own.
        if seen.kind not in {self._kind, None} and not self._facts.gap_seen:
            message = messages.run_start_missing(found=shortened(str(seen.kind)), kind=self._kind)
            yield StreamFinding(self._rule, "", message)

    def is_quiet(self, block: Block) -> bool:
        """Return whether the first record was observed before."""
        del block
        return self._done


class Once(Rule):
    """No second record of the kind."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self.kinds = self.loud = frozenset({self._kind})
        self._line = 0

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding at every record of the kind after the first."""
        if self._line:
            yield StreamFinding(self._rule, "", messages.run_start_repeated(kind=self._kind, line=self._line))
        else:
            self._line = seen.line


class Last(Rule):
    """No record follows one of the kind, until the run goes on."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self.loud = frozenset({self._kind})
        self._line = 0

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding at every record after the one that ended the run."""
        if self._line:
            yield StreamFinding(self._rule, "", messages.event_after_run_end(kind=self._kind, line=self._line))
        elif seen.kind == self._kind:
            self._line = seen.line

    def is_quiet(self, block: Block) -> bool:
        """Return whether the run has not ended."""
        del block
        return not self._line

    def reopen(self) -> None:
        """Forget the end."""
        self._line = 0


class Present(Rule):
    """A stream that has records and no fragment has a record of the kind, and another one after it went on."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self.kinds = self.loud = frozenset({self._kind})
        self._found = False

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Note the kind."""
        del seen
        self._found = True
        return iter(())

    def reopen(self) -> None:
        """Ask for a further record of the kind."""
        self._found = False

    def finish(self) -> Iterator[StreamFinding]:
        """Yield a finding if the kind was not seen."""
        if not self._found:
            yield StreamFinding(self._rule, "", messages.run_end_missing(kind=self._kind))


def _column_of(field: str) -> Callable[[Iterable[Any]], list[Any]]:
    # The profile of a user may order by any field.
    return COLUMNS.get(field) or (lambda records: [getattr(record, field) for record in records])


class Monotone(Rule):
    """A field does not decrease; with repeats refused it increases."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._field = rule["rule"], rule["field"]
        self._column = _column_of(self._field)
        self._strict = rule["repeats"] == "refused"
        self._cleared = rule["cleared_by_gap"]
        self._last: Any = None

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the field is less than the one before."""
        value = seen.field(self._field)
        if value is UNSET or not seen.known:
            return
        last, self._last = self._last, value
        if last is not None and (value < last or (self._strict and value == last)):
            message = messages.goes_backwards(field=self._field, found=shown_number(value), before=shown_number(last))
            yield StreamFinding(self._rule, f"/{self._field}", message)

    def is_quiet(self, block: Block) -> bool:
        """Return whether the field of the block is in order and goes on from the last."""
        values = self._column(block.records)
        if self._last is not None and (values[0] < self._last or (self._strict and values[0] == self._last)):
            return False
        # Sorting a sorted list compares each value once.
        ordered = sorted(values)
        return bool(ordered == values and not (self._strict and len(set(values)) < len(values)))

    def pass_over(self, block: Block) -> None:
        """Keep the field of the last record."""
        self._last = getattr(block.records[-1], self._field)

    def gap(self) -> None:
        """Drop the last value if the rule is cleared by a gap."""
        if self._cleared:
            self._last = None


class SequencePerPhase(Rule):
    """Within a phase the field counts up by one."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule, self._kind, self._field = rule["rule"], rule["kind"], rule["field"]
        self._skipped, self._unless = rule["skipped"]["rule"], rule["skipped"]["unless"]
        self._restart, self._cleared = rule["restart"], rule["cleared_by_gap"]
        self._facts, self._column = facts, _column_of(self._field)
        self.kinds = frozenset({self._kind, self._restart["kind"]})
        self.loud = frozenset({self._restart["kind"]})
        self._bases: dict[str, int] = {}

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the field is not one more than the one before in its phase."""
        if seen.kind == self._restart["kind"]:
            self._begin_again(seen)
            return
        value = seen.field(self._field)
        if value is UNSET:
            return
        phase = phase_of(seen, self._facts)
        base = self._bases.get(phase)
        self._bases[phase] = value
        if base is None or value == base + 1:
            return
        where, found, before = f"/{self._field}", shown_number(value), shown_number(base)
        if value <= base:
            yield StreamFinding(self._rule, where, messages.step_goes_backwards(found=found, before=before))
        elif not self._is_subsampled():
            missing = shown_number(value - base - 1)
            message = messages.step_skipped(found=found, before=before, missing=missing)
            yield StreamFinding(self._skipped, where, message)

    def is_quiet(self, block: Block) -> bool:
        """Return whether each phase in the block counts on from its base."""
        return all(self._counts_on(phase, records) for phase, records in self._facts.phases(block, self._kind).items())

    def pass_over(self, block: Block) -> None:
        """Keep the last value of each phase as its base."""
        for phase, records in self._facts.phases(block, self._kind).items():
            self._bases[phase] = getattr(records[-1], self._field)

    def gap(self) -> None:
        """Drop the bases if the rule is cleared by a gap."""
        if self._cleared:
            self._bases.clear()

    def _begin_again(self, seen: Observation) -> None:
        self._bases.clear()
        value = seen.field(self._restart["field"])
        if value is not UNSET:
            self._bases[self._restart["phase"]] = value

    def _counts_on(self, phase: str, records: Sequence[Any]) -> bool:
        values = self._column(records)
        first = values[0]
        base = self._bases.get(phase)
        return (base is None or first == base + 1) and values == list(range(first, first + len(values)))

    def _is_subsampled(self) -> bool:
        return self._facts.value(self._unless["kind"], self._unless["pointer"]) not in (UNSET, None)
