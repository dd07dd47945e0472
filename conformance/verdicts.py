"""The verdict on a question, and the counts of verdicts over all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.probes.question import Question

Verdict = Literal["pass", "fail", "deviation", "xfail", "xpass", "not-applicable", "untestable", "error"]

VERDICTS: tuple[Verdict, ...] = ("pass", "fail", "deviation", "xfail", "xpass", "not-applicable", "untestable", "error")
BAD: frozenset[Verdict] = frozenset({"fail", "xpass", "error"})
"""Verdicts that fail a run."""

MEANINGS: Mapping[str, str] = {
    "required": "questions that the selected cases have for the claimed roles",
    "expected": "required, without those that are not applicable",
    "ran": "questions with an answer, a crash or a missed deadline",
    "pass": "the answer is what the case expects",
    "fail": "the answer is not what the case expects, and a MUST is broken",
    "deviation": "the answer is not what the case expects, and only a SHOULD is broken",
    "xfail": "the baseline names this failure",
    "xpass": "the baseline names this failure, but the question passes: remove the entry",
    "not-applicable": "needs a profile, mode or capability that the hello does not name",
    "untestable": "the adapter answered that its library cannot do it",
    "error": "crash, missed deadline, or an answer outside the protocol",
}
"""What each column of a report counts."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The verdict on one question."""

    question: Question
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why. Text from adapters is escaped where it is shown."""
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

    def repeated(self, later: Result) -> Result:
        """Return the result of a question that was asked again: a failure if the verdict is no longer the same."""
        if later.verdict == self.verdict:
            return self
        worse = self if self.verdict in BAD else later
        verdict: Verdict = "error" if "error" in {self.verdict, later.verdict} else "fail"
        return worse.named(verdict, f"the answer changed: {self.verdict} at first, {later.verdict} when asked again")


@dataclass
class Tally:
    """Counts over results."""

    required: int = 0
    """Questions that the corpus has for the claimed roles."""
    counts: Counter[Verdict] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count one result."""
        self.counts[result.verdict] += 1

    @property
    def ran(self) -> int:
        """Questions that the adapter was asked."""
        return sum(self.counts.values()) - self.counts["not-applicable"]

    @property
    def expected(self) -> int:
        """Questions that apply to what the hello claims: all required ones except not-applicable."""
        return self.required - self.counts["not-applicable"]

    @property
    def is_good(self) -> bool:
        """True when something ran, everything expected ran, and no verdict is bad."""
        return self.ran > 0 and self.ran == self.expected and not any(self.counts[verdict] for verdict in BAD)
