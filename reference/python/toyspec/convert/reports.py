"""The report of a conversion: what was carried, changed and dropped, for programs and for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.convert.losses import Loss
from toyspec.core.escaping import printable
from toyspec.core.findings import PathError
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

REPORT_FILE = "import.json"
"""Name of the report of an import, in the bundle that it made."""
Direction = Literal["import", "export"]
Status = Literal["converted", "done-before"]
"""Whether a run was converted now, or was found converted from the same source."""


class RunConversion(msgspec.Struct, kw_only=True):
    """What became of one run; ``items`` is ``carried`` plus ``changed`` plus ``dropped``."""

    format: str
    """Name of the foreign format."""
    source: str
    """Path of what was read."""
    target: str
    """Path of what was written."""
    run_id: str
    status: Status = "converted"
    identity: str = ""
    """Digest of names, sizes and times of the source's files; a later import compares it."""
    item: str = "items"
    """What is counted, in the plural."""
    items: int = 0
    """Items in the source."""
    carried: int = 0
    """Items that are the same in the target."""
    changed: int = 0
    """Items that differ in the target."""
    dropped: int = 0
    """Items that are not in the target."""
    losses: list[Loss] = []
    """What each cause changed or dropped."""
    notes: list[str] = []
    """Facts about the run as a whole."""

    def take(self, ledger: Ledger) -> None:
        """Take over the counts of *ledger*, which must be settled."""
        assert ledger.is_settled, f"{self.source}: an item is unaccounted for"
        self.items, self.carried = ledger.items, ledger.carried
        self.changed, self.dropped = ledger.changes, ledger.drops
        self.losses, self.notes = ledger.losses, ledger.notes

    @property
    def has_damage(self) -> bool:
        """True if a part of the source could not be read."""
        return any(loss.cause == "damaged" for loss in self.losses)


class Totals(msgspec.Struct):
    """Sums over all runs."""

    runs: int = 0
    items: int = 0
    carried: int = 0
    changed: int = 0
    dropped: int = 0


class ConversionReport(msgspec.Struct, kw_only=True):
    """What a conversion did; ``schemas/conversion/v1/conversion.json`` describes it as JSON."""

    toyspec: str = __version__
    direction: Direction
    runs: list[RunConversion] = []
    errors: list[PathError] = []
    """Sources that could not be converted."""
    summary: Totals = msgspec.field(default_factory=Totals)

    def add(self, run: RunConversion) -> None:
        """Add *run* and its counts."""
        self.runs.append(run)
        total = self.summary
        self.summary = Totals(
            total.runs + 1,
            total.items + run.items,
            total.carried + run.carried,
            total.changed + run.changed,
            total.dropped + run.dropped,
        )

    def extend(self, part: ConversionReport) -> None:
        """Add what *part* reports."""
        self.errors += part.errors
        for run in part.runs:
            self.add(run)


def text_of(run: RunConversion) -> Iterator[str]:
    """Yield lines that report *run* to a person."""
    route = f"{printable(run.target)}  from {printable(run.source)} ({run.format})"
    if run.status == "done-before":
        yield f"{route}: already there, the source has not changed"
        return
    counts = [f"{run.items} {run.item if run.items != 1 else run.item.removesuffix('s')}"]
    counts += [f"{count} {word}" for count, word in _parts(run) if count]
    yield f"{route}: {', '.join(counts)}"
    for loss in run.losses:
        yield f"  {loss.effect} {loss.count} ({loss.cause}): {printable(loss.meaning)}"
        for example in loss.examples:
            became = "" if example.became is None else f" → {printable(example.became)}"
            yield f"      {printable(example.place)}: {printable(example.value)}{became}"
    for note in run.notes:
        yield f"  note: {printable(note)}"


def summary_of(report: ConversionReport) -> Iterator[str]:
    """Yield lines that report all runs of *report* together to a person: each cause and each note once."""
    causes: dict[str, list[tuple[RunConversion, Loss]]] = {}
    notes: Counter[str] = Counter()
    for run in report.runs:
        for loss in run.losses:
            causes.setdefault(loss.cause, []).append((run, loss))
        notes.update(dict.fromkeys(run.notes, 1))
    for cause, found in causes.items():
        first, example = found[0]
        number = sum(loss.count for _, loss in found)
        runs = "1 run" if len(found) == 1 else f"{len(found)} runs"
        yield f"{example.effect} {number} in {runs} ({cause}): {printable(example.meaning)}"
        for each in example.examples[:1]:
            became = "" if each.became is None else f" → {printable(each.became)}"
            yield f"    {printable(first.source)}: {printable(each.place)}: {printable(each.value)}{became}"
    for note, number in notes.items():
        yield f"note on {number} of {len(report.runs)} runs: {printable(note)}"


def _parts(run: RunConversion) -> list[tuple[int, str]]:
    if run.carried == run.items:
        return [(run.items, "carried unchanged")] if run.items else []
    return [(run.carried, "carried"), (run.changed, "changed"), (run.dropped, "dropped")]
