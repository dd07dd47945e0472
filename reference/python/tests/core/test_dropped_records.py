"""How records and values that a log lacks are reported: a line each time, and notes that add up."""

from __future__ import annotations

import pytest

from toyspec.core.writing.dropped_records import DroppedRecords
from toyspec.core.writing.logged_values import LeftOut


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was said since the last call, without the program and the path."""
    return [line.removeprefix("toyspec: p: ") for line in capsys.readouterr().err.splitlines()]


def test_outages_are_said_ten_times(capsys: pytest.CaptureFixture[str]) -> None:
    """A cause is said once while it lasts; a disk that is nearly full takes a record now and then."""
    dropped = DroppedRecords("p")
    for cause in ("No space left on device", "No space left on device", "Input/output error"):
        dropped.add(cause, kind="step")
    assert ("3 records were dropped here: Input/output error", {"step": 3}) == (
        dropped.note()["text"],
        dropped.note()["dropped"],
    )
    dropped.end_outage()
    assert 3 == len(lines(capsys))
    for _ in range(12):
        dropped.add("No space left on device")
        dropped.end_outage()
    assert (16, 15) == (len(lines(capsys)), dropped.count)


def test_record_that_is_wrong_is_said_once_for_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The note has the first five different ones, and counts all; the next note counts what came since."""
    dropped = DroppedRecords("p")
    dropped.leave_out("step is -1", key="step", kind="step")
    dropped.leave_out("step is -2", key="step", kind="step")
    assert ["invalid record not written, nor later ones like it: step is -1"] == lines(capsys)
    dropped.end_note(dropped.note())
    assert not dropped.has_unnoted
    dropped.leave_out("step is -3", key="step", kind="step")
    assert (False, "left out: 1 more like before") == (dropped.has_news, dropped.note()["text"])
    for number in range(7):
        dropped.leave_out(f"fact {number}", kind="eval")
    texts = "; ".join(f"eval (fact {number})" for number in range(5))
    assert (f"left out: {texts}; and 2 more", {"step": 1, "eval": 7}) == (
        dropped.note()["text"],
        dropped.note()["dropped"],
    )


def test_values_are_said_once_by_name_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The total names the five that are left out most often."""
    dropped = DroppedRecords("p")
    for number in range(7):
        dropped.leave_out_values([LeftOut(f"v{number}", "it is a text")] * (7 - number), "step")
    dropped.leave_out_values([LeftOut("given", "it has no names")], "")
    said = lines(capsys)
    assert "v0 of step is left out, and all else is written: it is a text (reported once)" == said[0]
    assert (8, "given is left out: it has no names (reported once)") == (len(said), said[-1])
    note = dropped.note()
    assert {**{f"v{number}": 7 - number for number in range(7)}, "given": 1} == note["left_out"] == dropped.values
    assert note["text"].startswith("left out: v0 (it is a text); v1 (it is a text)")
    dropped.conclude()
    assert ["29 values were left out in total (v0 7, v1 6, v2 5, v3 4, v4 3 and 3 more)"] == lines(capsys)


def test_what_is_left_out_without_end_is_said_a_hundred_times(capsys: pytest.CaptureFixture[str]) -> None:
    """Then one line says that there is more; the notes count each name, and all records."""
    for kind in ("scalars", ""):
        dropped = DroppedRecords("p")
        for number in [*range(250)] * 2:
            if kind:
                dropped.leave_out_values([LeftOut(f"v{number}", "it is a list")], kind)
            else:
                dropped.leave_out(f"fact {number}")
        said = lines(capsys)
        assert (101, "what else is left out is not reported here; the log counts it") == (len(said), said[100])
        assert 500 == dropped.count + dropped.values.total()
