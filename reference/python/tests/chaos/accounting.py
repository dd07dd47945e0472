"""Finds out whether every acknowledged record of a run is accounted for: it is in a file, or the chaos took it away."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from chaos.records import numbers_in
from chaos.states import ACKNOWLEDGED, States

LOG = "events.jsonl"
_TORN = f"{LOG}.torn-"
_MOST_NAMED = 10


class Cut(NamedTuple):
    """What one cut of a log, while its writer was stopped, took away."""

    numbers: frozenset[int]
    """The records that were there and are not any more."""
    last: int
    """The last record that was there."""
    is_in_line: bool
    """Whether the cut left half a line, with which the writer's next record is joined until the writer sees it."""


class RunAccount(NamedTuple):
    """What became of the records of one run."""

    tried: int
    acknowledged: int
    taken: int
    """Acknowledged records that are in no file, since the chaos has cut the log."""
    wrong: list[str]
    """What must not be."""


def cut_of(data: bytes, size: int) -> Cut:
    """Return what a log of *data* loses by a cut to *size* bytes."""
    whole = data[: data.rfind(b"\n") + 1]
    kept = data[: data[:size].rfind(b"\n") + 1]
    before, after = numbers_in(whole)[0], numbers_in(kept)[0]
    is_in_line = size > 0 and not data[:size].endswith(b"\n")
    return Cut(frozenset(before) - frozenset(after), max(before, default=0), is_in_line)


def account(directory: Path, states: States, cuts: list[Cut]) -> RunAccount:
    """Return what became of the records of the run in *directory*."""
    wrong: list[str] = []
    found: list[int] = []
    aside: set[int] = set()
    for path in sorted(path for path in directory.glob(f"{LOG}*") if path.is_file()):
        try:
            numbers, unreadable = numbers_in(path.read_bytes())
        except ValueError as error:
            wrong.append(f"{path}: {error}")
            continue
        if path.name.startswith(_TORN):
            aside.update(numbers)
            continue
        found += numbers
        if numbers != sorted(set(numbers)):
            wrong.append(f"{path}: records are not in order, or twice")
        if unreadable > sum(cut.is_in_line for cut in cuts):
            wrong.append(f"{path}: {unreadable} lines cannot be read after {len(cuts)} cuts")
    if len(found) != len(set(found)):
        wrong.append(f"{directory}: {len(found) - len(set(found))} records are in two logs")
    tried = states.next - 1
    if invented := sorted(number for number in found if number > tried):
        wrong.append(f"{directory}: records that no writer wrote: {_some(invented)}")
    acknowledged = states.having(ACKNOWLEDGED)
    missing = acknowledged - set(found) - aside
    if unexplained := missing - _taken(cuts, acknowledged):
        wrong.append(f"{directory}: acknowledged records are in no file: {_some(sorted(unexplained))}")
    return RunAccount(tried, len(acknowledged), len(missing), wrong)


def _taken(cuts: list[Cut], acknowledged: set[int]) -> set[int]:
    """Return the records that *cuts* explain; after a cut in a line, the next record is joined with half a line."""
    taken = {number for cut in cuts for number in cut.numbers}
    joined = (_next(acknowledged, cut.last) for cut in cuts if cut.is_in_line)
    return taken.union(number for number in joined if number is not None)


def _next(numbers: set[int], after: int) -> int | None:
    return min((number for number in numbers if number > after), default=None)


def _some(numbers: list[int]) -> str:
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"{', '.join(map(str, numbers[:_MOST_NAMED]))}{more}"


def followed(notes: str, data: bytes) -> str:
    """Return what is wrong with the *notes* of a follower that saw a log, *data*, to its end; empty if nothing is."""
    segments: list[list[int]] = [[]]
    for line in notes.splitlines():
        if line.startswith("# "):
            if line.removeprefix("# ") in ("rotated", "replaced", "truncated"):
                segments.append([])
        else:
            segments[-1].append(int(line))
    for segment in segments:
        if segment != sorted(set(segment)):
            return "records were followed twice, or in another order"
    numbers = numbers_in(data)[0]
    if segments[-1] != numbers:
        missed, more = set(numbers) - set(segments[-1]), set(segments[-1]) - set(numbers)
        return f"of {len(numbers)} records, {len(missed)} were not followed, and {len(more)} that are not there were"
    return ""
