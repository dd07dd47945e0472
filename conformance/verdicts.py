"""What came of a question, and what came of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from conformance.probes.question import Question

Verdict = Literal["pass", "fail", "xfail", "xpass", "not-applicable", "untestable", "error"]

VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "xfail", "xpass", "not-applicable", "untestable", "error")
BAD: frozenset[Verdict] = frozenset({"fail", "xpass", "error"})
"""Verdicts that fail a run."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The verdict on one question."""

    question: Question
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why; text that adapters chose is escaped where it is shown."""
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        """Return the result as one line of the report in JSON Lines."""
        return {
            "question": self.question.name,
            "case": self.question.case.name,
            "role": self.question.role,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "seconds": round(self.seconds, 4),
        }

    def named(self, verdict: Verdict, *reasons: str) -> Result:
        """Return the result with another verdict and, before the reasons, further ones."""
        return replace(self, verdict=verdict, reasons=(*reasons, *self.reasons))


@dataclass
class Tally:
    """Counts over results."""

    required: int = 0
    """Questions that follow from the corpus and the roles that are claimed."""
    counts: Counter[Verdict] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count one result."""
        self.counts[result.verdict] += 1

    @property
    def ran(self) -> int:
        """Questions that the adapter was asked and that have a verdict."""
        return sum(self.counts.values()) - self.counts["not-applicable"]

    @property
    def expected(self) -> int:
        """Questions that make sense for what the adapter says of itself: all that are required but not-applicable."""
        return self.required - self.counts["not-applicable"]

    @property
    def is_good(self) -> bool:
        """True when something ran, everything expected ran, and no verdict is bad."""
        return self.ran > 0 and self.ran == self.expected and not any(self.counts[verdict] for verdict in BAD)
