"""What a sweep found: who survived, which entries of the list are stale, and the score of each module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.escaping import markdown
from conformance.mutation.survivors import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from conformance.mutation.changes import Fate
    from conformance.mutation.survivors import Listed, Survivors


@dataclass(frozen=True)
class Score:
    """Counts of some mutants."""

    mutants: int
    killed: int
    listed: int
    """Survivors that are on the list."""

    @property
    def survived(self) -> int:
        """Survivors that are not on the list."""
        return self.mutants - self.killed - self.listed

    @property
    def percent(self) -> str:
        """Killed mutants of those that are not on the list, cut to one digit so that only all are 100."""
        of = self.mutants - self.listed
        return f"{self.killed * 1000 // of / 10:.1f} %" if of else "-"


class Findings:
    """What a sweep found, compared with the list."""

    def __init__(self, fates: Sequence[Fate], listed: Survivors, unknown: Sequence[Listed]) -> None:
        self.fates, self._listed = fates, listed
        self.unknown = unknown
        """Entries of the list that name no mutant."""

    @property
    def survivors(self) -> list[Fate]:
        """Mutants that survived and are not on the list."""
        return [fate for fate in self.fates if fate.reason is None and self._listed.reason(fate.mutant) is None]

    @property
    def stale(self) -> list[Fate]:
        """Mutants on the list that were killed."""
        return [fate for fate in self.fates if fate.reason is not None and self._listed.reason(fate.mutant) is not None]

    @property
    def is_good(self) -> bool:
        """True when the list holds exactly the survivors."""
        return not (self.survivors or self.stale or self.unknown)

    def score(self, module: str | None = None) -> Score:
        """Return the counts of *module*, by default of all."""
        fates = [fate for fate in self.fates if module in {None, fate.mutant.module}]
        killed = sum(fate.reason is not None for fate in fates)
        listed = sum(fate.reason is None and self._listed.reason(fate.mutant) is not None for fate in fates)
        return Score(len(fates), killed, listed)

    def modules(self) -> list[str]:
        """Return the names of the modules in the order in which they were asked."""
        return list(dict.fromkeys(fate.mutant.module for fate in self.fates))


def report(found: Findings) -> Iterator[str]:
    """Yield who survived, what is stale, and the score."""
    for fate in found.survivors:
        mutant = fate.mutant
        yield f"SURVIVED  {mutant.module}: {mutant.function} ({mutant.operator}), {fate.asked} questions execute it"
        yield f"          - {mutant.original}"
        yield f"          + {mutant.mutated}"
    for fate in found.stale:
        yield f"STALE     {fate.mutant.module}: {fate.mutant.function}: listed as a survivor, but killed"
        yield f"          - {fate.mutant.original}"
        yield f"          + {fate.mutant.mutated}"
        yield f"          {fate.reason}"
    for entry in found.unknown:
        yield f"STALE     {entry.module}: {entry.place[1]}: listed as a survivor, but there is no such mutant"
        yield f"          + {entry.place[3]}"
    for module in found.modules():
        score = found.score(module)
        yield f"{module:14} {score.killed:5} of {score.mutants:5} killed, {score.listed:4} listed, {score.percent:>8}"
    total = found.score()
    yield f"{'all':14} {total.killed:5} of {total.mutants:5} killed, {total.listed:4} listed, {total.percent:>8}"


def page(found: Findings, listed: Survivors) -> Iterator[str]:
    """Yield the part of the page on what is proven."""
    total = found.score()
    yield f"**{total.killed} of {total.mutants - total.listed}** mutants are killed: {total.percent}."
    yield ""
    yield "| module of the oracle | mutants | killed | listed | score |"
    yield "|---|---|---|---|---|"
    for module in found.modules():
        score = found.score(module)
        yield f"| {module} | {score.mutants} | {score.killed} | {score.listed} | {score.percent} |"
    yield ""
    yield "Survivors are listed for one of three reasons."
    yield ""
    yield from reasons(listed.entries.values(), VERDICTS, "module")


def reasons(entries: Iterable[Listed], verdicts: Mapping[str, str], column: str, suffix: str = "") -> Iterator[str]:
    """Yield how many *entries* have each of *verdicts*, with its meaning, and a table of their reasons.

    *column* is the title of the column of modules; *suffix* follows the name of each.
    """
    counts = Counter((entry.verdict, entry.module, entry.reason) for entry in entries)
    for verdict, meaning in verdicts.items():
        number = sum(count for key, count in counts.items() if key[0] == verdict)
        yield f"- *{verdict}*: {number}. The mutant {meaning}."
    yield ""
    yield f"| verdict | {column} | mutants | why no question can catch them |"
    yield "|---|---|---|---|"
    for (verdict, module, reason), count in sorted(counts.items()):
        yield f"| {verdict} | {module}{suffix} | {count} | {markdown(reason)} |"
