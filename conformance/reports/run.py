"""One run of one implementation, as every report sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.probes.question import ROLES
from conformance.revisions import CURRENT
from conformance.statements import musts_of, shoulds_of
from conformance.verdicts import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.baseline import Entry
    from conformance.verdicts import Result

_CAPABILITY = "needs capability "
_MODE = "needs mode "
_LOCK = "needs lock "
_HELD = "needs --lines mode"
_NOT_SHOWN = (
    "it was not shown that a record is in the file when its call returns, how a run ends, resumes or is replaced, "
    "and that a stream has one writer"
)
"""What only sessions show about a writer."""
_SLOWEST = 3


@dataclass(frozen=True, kw_only=True)
class Run:
    """The results of asking one implementation."""

    hello: Mapping[str, Any]
    results: Sequence[Result]
    required: int
    """Questions that the selected cases have for the claimed roles."""
    stale: Sequence[Entry] = ()
    """Entries of the baseline that match no question."""
    revision: str = CURRENT
    """The revision that was asked about."""
    corpus: str = ""
    """Digest of the corpus."""
    cases: int = 0
    is_whole: bool = True
    """False when only a part of the corpus or of the roles was asked for."""
    seed: int | None = None
    """What the fresh questions were drawn with; None without them."""
    rounds: int = 1
    """How often each question was asked."""
    is_minimal: bool = False
    """True when all that every emitter needs was asked, and nothing else."""

    @property
    def name(self) -> str:
        """Name of the implementation."""
        return str(self.hello["name"])

    @property
    def roles(self) -> list[str]:
        """The roles that were asked about, in the order in which all reports have them."""
        asked = {result.question.role for result in self.results}
        return [role for role in ROLES if role in asked]

    def tally(self, role: str | None = None) -> Tally:
        """Return the counts of one role, or of all."""
        results = [result for result in self.results if role in {None, result.question.role}]
        found = Tally(required=self.required if role is None else len(results))
        for result in results:
            found.add(result)
        return found

    def lacking(self) -> list[str]:
        """Return the capabilities that the hello does not name, and for which questions were left out."""
        return sorted(found.removeprefix(_CAPABILITY) for found in self._left_out() if found.startswith(_CAPABILITY))

    def slowest(self) -> list[Result]:
        """Return the results that took longest, the slowest first."""
        return sorted(self.results, key=lambda result: -result.seconds)[:_SLOWEST]

    def _left_out(self) -> set[str]:
        return {reason for result in self.results if result.verdict == "not-applicable" for reason in result.reasons}

    def limits(self) -> list[str]:
        """Return what the claim of this run does not cover, in words: modes, capabilities, what was not asked."""
        left_out = self._left_out()
        capabilities = self.lacking()
        unasked = 0 if self.is_minimal else len(musts_of(self.roles, self.revision) - self._asked())
        found = (
            [f"modes {', '.join(self.hello['modes'])} only"]
            if any(reason.startswith(_MODE) for reason in left_out)
            else []
        )
        found += [f"without {', '.join(capabilities)}"] if capabilities else []
        found += [_NOT_SHOWN] if "session" in capabilities and "writer" in self.roles else []
        locks = sorted(reason.removeprefix(_LOCK) for reason in left_out if reason.startswith(_LOCK))
        found += [f"takes no {' and no '.join(locks)} lock"] if locks else []
        found += ["no stream was held open"] if _HELD in left_out else []
        untestable = sum(result.verdict == "untestable" for result in self.results)
        found += [f"{untestable} of {len(self.results)} questions were untestable"] if untestable else []
        found += (
            [f"without the SHOULDs {', '.join(self.departs_from())}, as its hello says"] if self.departs_from() else []
        )
        return found + ([f"{unasked} MUSTs of these roles were not asked"] if unasked else [])

    def departs_from(self) -> list[str]:
        """Return the SHOULDs that the implementation does not keep, as its hello names them."""
        return list(self.hello.get("departs_from", []))

    def kept_shoulds(self) -> tuple[int, int] | None:
        """Return how many SHOULDs of these roles were asked, and how many there are; None where one is not kept."""
        if self.departs_from() or self.tally().counts["deviation"]:
            return None
        every = shoulds_of(self.roles, self.revision)
        return len(every & self._asked()), len(every)

    def _asked(self) -> set[str]:
        """Return the statements that a question with an answer was about."""
        return {
            statement
            for result in self.results
            if result.verdict not in {"not-applicable", "untestable"}
            for statement in (*result.question.case.accepts, *result.question.case.rejects)
        }

    @property
    def is_good(self) -> bool:
        """True when nothing expected is missing, no verdict is bad, and the baseline has no stale entry."""
        return self.tally().is_good and not self.stale
