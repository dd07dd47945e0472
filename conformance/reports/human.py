"""A run as text for a terminal."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from conformance.corpus import revisions
from conformance.escaping import printable
from conformance.verdicts import BAD, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.reports.run import Run
    from conformance.verdicts import Result

_SHOWN = 20
_REASONS = 4


def lines(run: Run) -> Iterator[str]:
    """Yield the report of *run*: what is bad, the counts, and the claim or what keeps it from being made."""
    yield from failures(run)
    yield from table(run)
    yield conclusion(run)


def failures(run: Run) -> Iterator[str]:
    """Yield what is bad, the first results in full, then counts by topic."""
    bad = [result for result in run.results if result.verdict in BAD]
    for result in bad[:_SHOWN]:
        yield from failure(result)
    rest = Counter(result.question.case.name.rpartition("/")[0] for result in bad[_SHOWN:])
    for topic, count in rest.most_common(_SHOWN):
        yield f"and {count} more below {printable(topic)}"
    if len(rest) > _SHOWN:
        yield f"and more below {len(rest) - _SHOWN} further folders"
    for entry in run.stale:
        yield f"stale  {printable(entry.question)}\n       the baseline names it, and no question has this name"


def failure(result: Result) -> Iterator[str]:
    """Yield one result that is bad, with its reasons and where its case is."""
    yield f"{result.verdict.upper():<6} {printable(result.question.name)}"
    for reason in result.reasons[:_REASONS]:
        yield f"       {printable(reason)}"
    if len(result.reasons) > _REASONS:
        yield f"       and {len(result.reasons) - _REASONS} more differences"
    case = result.question.case
    yield f"       {os.path.relpath(case.folder)}: {printable(case.why)}"


def table(run: Run) -> Iterator[str]:
    """Yield the counts of every role."""
    used = [verdict for verdict in VERDICTS if run.tally().counts[verdict]]
    header = ["role", "required", "expected", "ran", *used]
    rows = [header]
    for role in [*run.roles, None]:
        tally = run.tally(role)
        counts = [tally.counts[verdict] for verdict in used]
        rows.append([role or "all", *map(str, (tally.required, tally.expected, tally.ran, *counts))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells)


def conclusion(run: Run) -> str:
    """Return the claim of conformance where it can be made, else what is missing."""
    name = printable(f"{run.name} {run.hello['version']} ({run.hello['language']})")
    tally = run.tally()
    if not run.is_good:
        bad = sum(tally.counts[verdict] for verdict in BAD) + len(run.stale)
        return f"{name} does not conform: {'nothing ran' if not tally.ran else f'{bad} to look at'}"
    if not run.is_whole:
        return f"{name}: nothing wrong in the part of the corpus that was asked for"
    profiles = ", ".join(f"{profile} revision {revisions()[profile]}" for profile in run.hello["profiles"])
    known = f", {tally.counts['xfail']} known failures aside" if tally.counts["xfail"] else ""
    roles = ", ".join(run.roles)
    return f"{name} conforms as {roles}; {profiles}; corpus {run.corpus} of {run.cases} cases{known}"
