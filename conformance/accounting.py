"""The report of reading in each mode, derived only from the bytes, the findings and the gaps of a case."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from conformance.format_facts import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.cases import Case

Mode = Literal["strict", "tail", "prefix", "salvage"]
MODES: tuple[Mode, ...] = ("strict", "tail", "prefix", "salvage")


@dataclass(frozen=True)
class Gap:
    """Bytes that were not read."""

    offset: int
    """Byte offset of the first of them, from 0."""
    length: int
    """Number of bytes, the LF included."""
    reason: str
    """The rule that makes the line unreadable, or ``stopped``."""


@dataclass(frozen=True)
class Account:
    """The bytes that a read took and left out; committed, fragment and gaps add up to the size of the stream."""

    outcome: Literal["read", "fails"]
    records: int
    committed: int
    """Number of bytes of readable and blank lines, each with its LF."""
    fragment: int
    """Number of bytes after the last LF."""
    gaps: tuple[Gap, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the account as in ``modes`` of a case."""
        content = asdict(self)
        content["gaps"] = [asdict(gap) for gap in self.gaps]
        return content


def account(case: Case, mode: Mode) -> Account:
    """Return what reading the stream of *case* in *mode* must report."""
    records = committed = 0
    gaps: list[Gap] = []
    for offset, length, reason in _lines(case):
        if reason is None:
            committed += length
            records += bool(case.data[offset : offset + length].strip(b" \t\r\n"))
            continue
        gaps.append(Gap(offset, length, reason))
        if mode != "salvage":
            rest = len(case.data) - offset - length
            stopped = [Gap(offset + length, rest, "stopped")] if rest else []
            outcome: Literal["read", "fails"] = "read" if mode == "prefix" else "fails"
            return Account(outcome, records, committed, 0, (*gaps, *stopped))
    fragment = len(case.data) - case.data.rfind(b"\n") - 1
    fails = mode == "strict" and case.state != "complete"
    return Account("fails" if fails else "read", records, committed, fragment, tuple(gaps))


def readable_lines(case: Case) -> Iterator[int]:
    """Yield the number of each line of *case* that is a record, from 1."""
    for number, (offset, length, reason) in enumerate(_lines(case), start=1):
        if reason is None and case.data[offset : offset + length].strip(b" \t\r\n"):
            yield number


def _lines(case: Case) -> Iterator[tuple[int, int, str | None]]:
    """Yield offset, length with LF, and the rule that makes it unreadable, of each committed line."""
    reasons: dict[int, str] = {}
    for finding in (*case.gaps, *case.findings):
        if finding.rule in UNREADABLE and finding.sidecar is None:
            reasons.setdefault(finding.line, finding.rule)
    offset = 0
    for number, line in enumerate(case.data.split(b"\n")[:-1], start=1):
        yield offset, len(line) + 1, reasons.get(number)
        offset += len(line) + 1
