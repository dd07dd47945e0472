"""The published samples: `samples.json`, from which the part of the page on them is made."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from conformance import page as pages
from conformance.escaping import markdown
from conformance.mutation import survivors
from conformance.mutation.python.score import raw
from conformance.mutation.score import Score, reasons
from conformance.mutation.subjects import HERE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.mutation.python.score import Fate
    from conformance.mutation.survivors import Survivors

PATH = os.path.join(HERE, "python", "samples.json")
PAGE = os.path.join(ROOT, "docs", "reference", "conformance.md")
PART = "mutants-python"
VERDICTS = {
    "equivalent": "behaves as the package does for every input",
    "not-observable": "differs only in what no caller and no user sees",
    "permitted": "differs in what is promised nowhere",
}


@dataclass(frozen=True)
class Sample:
    """What became of one sample."""

    about: str
    """One sentence: what it is a score of."""
    seed: str
    """What decided which mutants it has."""
    whole: int
    """Number of all mutants of the package."""
    mutants: Mapping[str, int]
    """How many mutants of each room were asked."""
    survived: Sequence[Mapping[str, Any]]
    """Who survived, as lists of survivors have it, and whether each was listed then; names are those of that time."""

    @classmethod
    def of(cls, seed: str, fates: Sequence[Fate], whole: int, about: str, listed: Survivors) -> Sample:
        """Return the sample whose mutants had *fates*; survivors in *listed* do not count as gaps."""
        mutants = Counter(_room(fate.mutant.module) for fate in fates)
        survived = []
        for fate in fates:
            if fate.reason is None:
                entry = survivors.as_json(fate.mutant)
                del entry["verdict"], entry["reason"]
                survived.append({**entry, "listed": fate.mutant.place in listed.entries})
        return cls(about, seed, whole, dict(sorted(mutants.items())), survived)

    def score(self, room: str | None = None) -> Score:
        """Return the counts of *room*, by default of all."""
        mutants = sum(number for name, number in self.mutants.items() if room in {None, name})
        survived = [entry for entry in self.survived if room in {None, _room(entry["file"])}]
        return Score(mutants, mutants - len(survived), sum(entry["listed"] for entry in survived))


def published() -> list[Sample]:
    """Return the samples of the file, in the order in which they were asked."""
    if not os.path.exists(PATH):
        return []
    with open(PATH, encoding="utf-8") as file:
        return [Sample(**entry) for entry in json.load(file)["samples"]]


def publish(sample: Sample) -> None:
    """Put *sample* into the file, in the place of one that is about the same."""
    every = [each for each in published() if each.about != sample.about]
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump({"samples": [asdict(each) for each in [*every, sample]]}, file, indent=2, ensure_ascii=False)
        file.write("\n")


def write_page(listed: Survivors) -> None:
    """Write the part of the page."""
    pages.put(PAGE, PART, part(published(), listed))


def part(samples: Sequence[Sample], listed: Survivors) -> Iterator[str]:
    """Yield the part of the page on *samples*: scores, gaps, and why each other survivor cannot be caught."""
    for sample in samples:
        total = sample.score()
        yield f"{sample.about} {total.killed} of {total.mutants} mutants are killed: **{raw(total)}** raw,"
        yield f"**{total.percent}** adjusted. The package has {sample.whole:,} mutants; the seed is `{sample.seed}`."
        yield "Modules are named as they were when it was asked."
        yield ""
        yield "| room of the package | mutants | killed | listed | raw score | adjusted score |"
        yield "|---|---|---|---|---|---|"
        for room in sample.mutants:
            score = sample.score(room)
            yield f"| {room} | {score.mutants} | {score.killed} | {score.listed} | {raw(score)} | {score.percent} |"
        yield ""
        gaps = [entry for entry in sample.survived if not entry["listed"]]
        if gaps:
            yield "| survived | change |"
            yield "|---|---|"
            for gap in gaps:
                place, change = f"{gap['file']}: {gap['function']}", f"{gap['original']} → {gap['mutated']}"
                yield f"| {markdown(place)} | {markdown(change)} |"
            yield ""
    if not samples:
        return
    yield "No test can catch a listed survivor, for one of three reasons."
    yield ""
    yield from reasons(listed.entries.values(), VERDICTS, "module")


def _room(module: str) -> str:
    """Return the room of *module*: the first part of its name."""
    return module.partition("/")[0]
