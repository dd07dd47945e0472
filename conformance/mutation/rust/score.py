"""The part of the page on the mutants of the Rust crate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.mutation.score import reasons
from conformance.mutation.survivors import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.mutation.rust.findings import Fate
    from conformance.mutation.score import Findings
    from conformance.mutation.survivors import Survivors


def page(fates: Sequence[Fate], found: Findings, listed: Survivors, every: int) -> Iterator[str]:
    """Yield the score of *fates*, a sample of *every* mutant."""
    total = found.score()
    yield (
        f"**{total.killed} of {total.mutants - total.listed}** mutants are killed: {total.percent}. "
        f"The sample has {total.mutants} of {every:,} mutants, without those that do not compile."
    )
    yield ""
    yield "| source file | mutants | killed by the corpus | killed only by the crate's tests | listed | score |"
    yield "|---|---|---|---|---|---|"
    for module in sorted(found.modules()):
        score = found.score(module)
        by = [fate.by for fate in fates if fate.mutant.module == module]
        yield (
            f"| {module}.rs | {score.mutants} | {by.count('corpus')} | {by.count('tests')} "
            f"| {score.listed} | {score.percent} |"
        )
    yield ""
    entries = [listed.entries[fate.mutant.place] for fate in fates if fate.mutant.place in listed.entries]
    yield "Survivors are listed for one of three reasons."
    yield ""
    meanings = {name: meaning.replace("the oracle", "the crate") for name, meaning in VERDICTS.items()}
    yield from reasons(entries, meanings, "source file", ".rs")
