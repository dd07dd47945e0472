"""A run as text for a terminal."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from conformance.baseline import STALE
from conformance.escaping import printable
from conformance.revisions import FIRST_LISTED, named
from conformance.statements import minimal
from conformance.verdicts import BAD, MEANINGS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from conformance.reports.run import Run
    from conformance.verdicts import Result, Verdict

_SHOWN = 20
_ALIKE = 3
_REASONS = 4
_TOTALS = ("required", "expected", "ran")


def lines(run: Run, shown: Collection[Result] = ()) -> Iterator[str]:
    """Yield the report of *run*: failures, deviations, the counts with their meanings, and the conclusion.

    The failures in *shown* were shown in full before, and are counted alone.
    """
    yield from failures(run, shown)
    yield from deviations(run)
    yield from table(run)
    yield from legend(run)
    yield conclusion(run)


def failures(run: Run, shown: Collection[Result] = ()) -> Iterator[str]:
    """Yield the first failures in full, no more than three for one reason, then counts by reason and by topic.

    Those in *shown* are among the first, and are not repeated.
    """
    there = {(result.question.name, result.reasons) for result in shown}
    bad = [result for result in run.results if result.verdict in BAD]
    bad.sort(key=lambda result: (result.question.name, result.reasons) not in there)
    reasons: Counter[tuple[str, ...]] = Counter()
    different = []
    for result in bad:
        reasons[result.reasons] += 1
        if reasons[result.reasons] <= _ALIKE:
            different.append(result)
    for result in different[:_SHOWN]:
        yield from () if (result.question.name, result.reasons) in there else failure(result)
    for reason, count in reasons.items():
        if count > _ALIKE:
            yield f"and {count - _ALIKE} more for the same reason: {printable(reason[0]) if reason else 'none given'}"
    rest = Counter(result.question.case.name.rpartition("/")[0] for result in different[_SHOWN:])
    for topic, count in rest.most_common(_SHOWN):
        yield f"and {count} more below {printable(topic)}"
    if len(rest) > _SHOWN:
        yield f"and more below {len(rest) - _SHOWN} further folders"
    partly = sum(case.until is not None or case.since != FIRST_LISTED for case in (one.question.case for one in bad))
    if partly and "revisions" not in run.hello:
        yield (
            f"{partly} of these failures are about what differs between revisions, and {run.revision} was asked. The "
            "hello names no `revisions`, so no request says which one it is about: name them, or ask with --revision"
        )
    for entry in run.stale:
        yield f"stale  {printable(entry.question)}\n       {STALE}"


def deviations(run: Run) -> Iterator[str]:
    """Yield the SHOULDs that the implementation does not follow; they do not deny conformance."""
    found = [result for result in run.results if result.verdict == "deviation"]
    for result in found[:_SHOWN]:
        yield from failure(result)
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more deviations"


def failure(result: Result) -> Iterator[str]:
    """Yield one failure or deviation, with its reasons and the folder of its case."""
    yield headline(result)
    for reason in result.reasons[:_REASONS]:
        yield f"       {printable(reason)}"
    if len(result.reasons) > _REASONS:
        yield f"       and {len(result.reasons) - _REASONS} more differences"
    case = result.question.case
    place = min(os.path.relpath(case.folder), case.folder, key=len) if case.folder else "drawn"
    yield f"       {place}: {printable(case.why)}"


def headline(result: Result) -> str:
    """Return the verdict and the name of the question."""
    return f"{result.verdict.upper():<6} {printable(result.question.name)}"


def table(run: Run) -> Iterator[str]:
    """Yield the counts of every role."""
    used = _used(run)
    header = ["role", *_TOTALS, *used]
    rows = [header]
    for role in [*run.roles, None]:
        tally = run.tally(role)
        counts = [tally.counts[verdict] for verdict in used]
        rows.append([role or "all", *map(str, (tally.required, tally.expected, tally.ran, *counts))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  ".join(cells)


def legend(run: Run) -> Iterator[str]:
    """Yield what each column of the table counts."""
    columns = [*_TOTALS, *_used(run)]
    width = max(map(len, columns))
    yield ""
    yield from (f"{column.ljust(width)}  {MEANINGS[column]}" for column in columns)
    yield ""


def _used(run: Run) -> list[Verdict]:
    """Return the verdicts that were given, in the order of the columns."""
    counts = run.tally().counts
    return [verdict for verdict in VERDICTS if counts[verdict]]


def conclusion(run: Run) -> str:
    """Return the claim of conformance, or the reason why it cannot be made."""
    name = printable(f"{run.name} {run.hello['version']} ({run.hello['language']})")
    tally = run.tally()
    if not run.is_good:
        bad = sum(tally.counts[verdict] for verdict in BAD) + len(run.stale)
        fact = f"{bad} of {tally.expected} questions failed" if tally.ran else "nothing ran"
        rest = tally.expected - tally.ran
        return f"{name} does not conform: {fact}" + (f"; {rest} were not asked" if tally.ran and rest else "")
    times = f"; each question asked {run.rounds} times" if run.rounds > 1 else ""
    if run.is_minimal:
        asked = f"{tally.expected} questions about the {len(minimal())} statements of spec/minimal.md"
        limits = "".join(f"; {printable(limit)}" for limit in run.limits())
        return f"{name} conforms as minimal emitter of toy/v1 revision {run.revision}: {asked}{times}{limits}"
    if not run.is_whole:
        return f"{name}: no failure in the selected part of the corpus{times}"
    profiles = ", ".join(f"{profile} revision {named(profile, run.revision)}" for profile in run.hello["profiles"])
    known = f"; known failures: {tally.counts['xfail']}" if tally.counts["xfail"] else ""
    known += f"; deviations from SHOULDs: {tally.counts['deviation']}" if tally.counts["deviation"] else ""
    kept = run.kept_shoulds()
    known += f"; follows every SHOULD that was asked: {kept[0]} of {kept[1]}" if kept and kept[0] else ""
    roles = ", ".join(run.roles)
    limits = "".join(f"; {printable(limit)}" for limit in run.limits())
    drawn = "" if run.seed is None else f" and questions of seed {run.seed}"
    return (
        f"{name} conforms as {roles}; {profiles}; corpus {run.corpus} of {run.cases} cases{drawn}{times}{known}{limits}"
    )
