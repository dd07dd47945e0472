"""Mutants without one rule in one profile, one for every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NOT_POSSIBLE: Mapping[tuple[str, str], str] = {
    ("bad-format", "metrics/v1"): "no field of an entry is a string",
    ("unexpected-value", "metrics/v1"): "the fields of an entry have no enumerated values",
    ("unexpected-value", "kaun/v1"): "the tag is the only fixed value, which has the rule unknown-kind",
    ("stream-missing", "metrics/v1"): "a directory without a stream has no profile",
    ("stream-missing", "kaun/v1"): "a directory without a stream has no profile",
}
"""Rules that no stream of a profile can break, with the reason."""


class _Forgetful(Oracle):
    """Checks every rule but one."""

    rule = ""

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer without the findings of the rule."""
        answer = super().check(request)
        findings = [finding for finding in answer["findings"] if finding["rule"] != self.rule]
        suppressed = {rule: count for rule, count in answer["suppressed"].items() if rule != self.rule}
        return {**answer, "findings": findings, "suppressed": suppressed}


def mutants() -> Iterator[Mutant]:
    """Yield a mutant for each rule in each profile that can break it, and for each rule without profile."""
    for rule, entry in tables.RULES.items():
        for profile in entry["profiles"]:
            if (rule, profile) not in NOT_POSSIBLE:
                yield _without(rule, profile)
        if not entry["profiles"]:
            yield _without(rule, None)


def _without(rule: str, profile: str | None) -> Mutant:
    where = f"in {profile}" if profile else "of streams without profile"
    family = ["in", profile.partition("/")[0]] if profile else ["anywhere"]
    words = "".join(part.capitalize() for part in (*rule.split("-"), *family))
    about = f"Never reports {rule} {where}."
    kind = type(f"Without{words}", (_Forgetful,), {"rule": rule, "profile": profile, "__doc__": about})
    return Mutant(make=kind, role="checker", proves=f"rules/{rule}", reason=f"not found: {rule} at")
