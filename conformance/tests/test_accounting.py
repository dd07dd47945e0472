"""The report of each mode follows from bytes and findings."""

from __future__ import annotations

import pytest

from conformance.accounting import Account, Gap, Mode, account
from conformance.cases import Case, Finding, State

GAPS = (Gap(3, 2, "invalid-json"), Gap(8, 2, "not-an-object"))


def case_of(data: bytes, state: State, *rules: tuple[str, int]) -> Case:
    """Return a case with a stream and findings."""
    return Case(
        name="",
        folder="",
        why="",
        files={"events.jsonl": data},
        stream="events.jsonl",
        profile="toy/v1",
        state=state,
        records=(),
        findings=tuple(Finding(rule=rule, line=line, pointer="") for rule, line in rules),
    )


DAMAGED = case_of(b"{}\n{\n{}\n7\n\n{}\n{", "damaged", ("invalid-json", 2), ("missing-key", 3), ("not-an-object", 4))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("salvage", Account("read", 3, 10, 1, GAPS)),
        ("prefix", Account("read", 1, 3, 0, (GAPS[0], Gap(5, 10, "stopped")))),
        ("tail", Account("fails", 1, 3, 0, (GAPS[0], Gap(5, 10, "stopped")))),
        ("strict", Account("fails", 1, 3, 0, (GAPS[0], Gap(5, 10, "stopped")))),
    ],
)
def test_damaged_stream(mode: Mode, expected: Account) -> None:
    """A mode that stops leaves one gap for the rest; salvage skips each unreadable line."""
    assert expected == account(DAMAGED, mode)


@pytest.mark.parametrize(
    ("mode", "outcome"), [("salvage", "read"), ("prefix", "read"), ("tail", "read"), ("strict", "fails")]
)
def test_torn_stream(mode: Mode, outcome: str) -> None:
    """Only strict fails on a torn stream, and its report is complete."""
    report = account(case_of(b"{}\n{", "torn", ("unterminated-line", 2)), mode)
    assert (outcome, 1, 3, 1, ()) == (report.outcome, report.records, report.committed, report.fragment, report.gaps)


def test_gap_at_the_end_leaves_nothing_unread() -> None:
    """A gap at the end is followed by no second gap."""
    assert (Gap(3, 2, "invalid-json"),) == account(case_of(b"{}\n{\n", "damaged", ("invalid-json", 2)), "prefix").gaps


def test_nul_tail_is_a_fragment() -> None:
    """nul-bytes at the line of the fragment is not a gap."""
    report = account(case_of(b"{}\n\0\0", "torn", ("nul-bytes", 2)), "salvage")
    assert ((), 2) == (report.gaps, report.fragment)


def test_first_rule_of_a_line_is_the_reason() -> None:
    """Of several rules the first that makes the line unreadable counts, not a repeated key."""
    case = case_of(b"x\n", "damaged", ("duplicate-key", 1), ("lone-surrogate", 1), ("non-finite-number", 1))
    assert ["lone-surrogate"] == [gap.reason for gap in account(case, "salvage").gaps]
