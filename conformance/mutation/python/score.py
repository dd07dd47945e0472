"""The score of the Python package: what its tests killed, raw and without what no test can catch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.mutation.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.mutation.score import Findings
    from conformance.mutation.sites import Mutant


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    mutant: Mutant
    reason: str | None
    """What a test says; None where it survived."""
    asked: int
    """Number of tests that it was asked."""


def is_enough(found: Findings, least: float) -> bool:
    """Return whether at least *least* percent of the mutants that are not listed were killed, and the list is right."""
    total = found.score()
    return not found.stale and total.killed * 100 >= least * (total.mutants - total.listed)


def raw(score: Score) -> str:
    """Return the killed mutants of all, in percent."""
    return f"{score.killed * 1000 // score.mutants / 10:.1f} %" if score.mutants else "-"


def rooms(found: Findings) -> dict[str, Score]:
    """Return the score of each room of the package: the first part of the names of its modules."""
    names = sorted({fate.mutant.module.partition("/")[0] for fate in found.fates})
    scores = {}
    for name in names:
        of = [found.score(module) for module in found.modules() if module.partition("/")[0] == name]
        scores[name] = Score(*(sum(getattr(score, key) for score in of) for key in ("mutants", "killed", "listed")))
    return scores


def report(found: Findings) -> Iterator[str]:
    """Yield who survived, what is stale, and the score."""
    for fate in found.survivors:
        mutant = fate.mutant
        yield f"SURVIVED  {mutant.module}: {mutant.function} ({mutant.operator}), asked {fate.asked} tests"
        yield f"          - {mutant.original}"
        yield f"          + {mutant.mutated}"
    for fate in found.stale:
        yield f"STALE     {fate.mutant.module}: {fate.mutant.function}: listed as a survivor, but killed"
        yield f"          + {fate.mutant.mutated}"
        yield f"          {fate.reason}"
    for entry in found.unknown:
        yield f"GONE      {entry.module}: {entry.place[1]}: listed as a survivor, but there is no such mutant"
    for name, score in {**rooms(found), "all": found.score()}.items():
        yield f"{name:14} {score.killed:4} of {score.mutants:4} killed, {score.listed:3} listed, {_both(score)}"


def _both(score: Score) -> str:
    return f"{raw(score)} raw, {score.percent} adjusted"
