"""The score of the Python package: what its tests killed, raw and without what no test can catch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.escaping import markdown
from conformance.mutation.score import Score, reasons
from conformance.mutation.survivors import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.mutation.score import Findings
    from conformance.mutation.survivors import Survivors


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


def page(found: Findings, listed: Survivors, whole: int) -> Iterator[str]:
    """Yield the part of the page; *whole* is the number of all mutants of the package."""
    total = found.score()
    yield f"**{total.killed} of {total.mutants}** mutants are killed: {_both(total)}."
    yield f"The sample has {total.mutants} of {whole:,}."
    yield ""
    yield "| room of the package | mutants | killed | listed | raw score | adjusted score |"
    yield "|---|---|---|---|---|---|"
    for name, score in rooms(found).items():
        yield f"| {name} | {score.mutants} | {score.killed} | {score.listed} | {raw(score)} | {score.percent} |"
    yield ""
    if found.survivors:
        yield "| survived | change |"
        yield "|---|---|"
        for fate in found.survivors:
            change = f"{fate.mutant.original} → {fate.mutant.mutated}"
            yield f"| {markdown(f'{fate.mutant.module}: {fate.mutant.function}')} | {markdown(change)} |"
        yield ""
    yield "Survivors are listed for one of three reasons."
    yield ""
    yield from reasons(listed.entries.values(), VERDICTS, "module")


def _both(score: Score) -> str:
    return f"{raw(score)} raw, {score.percent} adjusted"
