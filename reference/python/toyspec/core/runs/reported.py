"""What was reported about a run, alerts and findings alike, grouped: by rule, level and metric, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.core.findings import FileReport

LEVELS: Final = ("info", "warning", "error")
"""From the least serious one."""


class Reported(NamedTuple):
    """One alert, or one finding."""

    rule: str
    level: str
    text: str
    line: int | None = None
    """Line of the record, counted from 1, in ``stream``."""
    stream: str | None = None
    """Name of another stream or file than the log of the run."""
    metric: str | None = None
    step: int | float | None = None
    rank: int | None = None
    event: Literal["begun", "settled", "recovered"] | None = None
    """None for a finding, which has no end."""
    number: int = 1
    """How often it was reported, of which this is one."""


def findings_of(report: FileReport) -> Iterator[Reported]:
    """Yield the findings of *report*; those that it only counts are one of their number, without a line."""
    levels: dict[str, str] = {}
    for each in report.findings:
        levels[each.rule] = each.severity
        yield Reported(each.rule, each.severity, each.message, each.line, each.sidecar)
    for rule, number in report.suppressed.items():
        yield Reported(rule, levels[rule], "", number=number)


class ReportedGroup:
    """What was reported of one rule, level and metric."""

    def __init__(self, first: Reported) -> None:
        self.first = self.last = first
        self.count = 0
        self.settled = 0
        """How often the level of an open incident was accepted."""
        self.open: dict[int | None, Reported] = {}
        """The incidents that have not ended, each by its rank."""


def grouped(reports: Iterable[Reported]) -> list[ReportedGroup]:
    """Return *reports* in groups: errors, then warnings, then infos; in each what is open, other alerts, and findings.

    The newest alert comes first, and the first finding, which later ones may follow from.

    An incident that is settled goes on; its end closes it and is not counted. One without a begin among *reports* is a
    group of its own.
    """
    groups: dict[tuple[str, str, str | None, str | None], ReportedGroup] = {}
    at_incident: dict[tuple[str, str | None, int | None], ReportedGroup] = {}
    order: dict[int, int] = {}
    for at, each in enumerate(reports):
        subject = (each.rule, each.metric, each.rank)
        begun = at_incident.pop(subject, None) if each.event else None
        if begun is not None and each.event == "settled":
            begun.settled += 1
            at_incident[subject] = begun
            continue
        if begun is not None:
            begun.open.pop(each.rank, None)
            if each.event == "recovered":
                continue
        key = (each.rule, each.level, each.metric, each.event)
        group = groups.setdefault(key, ReportedGroup(each))
        group.last = group.last if each.line is None else each
        group.count += each.number
        if each.event == "begun":
            group.open[each.rank] = each
            at_incident[subject] = group
        order[id(group)] = at if each.event is None else -at
    return sorted(
        groups.values(),
        key=lambda group: (-LEVELS.index(group.first.level), not group.open, order[id(group)]),
    )
