"""The fault runner finds what it is made for, and says what it cannot do."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from conformance.command import main
from conformance.faults import command
from conformance.faults.case import STEP, LeftOutError, MachineError
from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.command import Cell, lines, meet
from conformance.faults.programs import Program, ProgramError, Writer
from conformance.faults.streams import found_in, wrong_in
from conformance.registry import load

HERE = Path(__file__).parent
PYTHON = next(implementation for implementation in load() if implementation.name == "python")
CARELESS = Writer("careless", (sys.executable, str(HERE / "careless_writer.py")), PYTHON)
NEEDS_STRACE = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def fault(text: str) -> Fault:
    """Return the one fault whose title is *text*, or begins with it."""
    (found,) = [fault for fault in FAULTS if fault.title == text] or [
        fault for fault in FAULTS if fault.title.startswith(text)
    ]
    return found


@pytest.mark.parametrize(
    "title",
    [
        "limit of file size",
        "torn: a fragment, NULs",
        "torn: a fragment of 200,000",
        "torn: side files",
        "SIGKILL: records of 100",
        pytest.param("deleted while open: stream", marks=pytest.mark.slow),
        "three replacing starts",
        "a run of several ranks",
        "refused starts",
        "a link to /dev/null",
        "a step after resuming",
        "a forked child writes",
        "the program opens its stream",
        "deleted while open: metrics/v1",
        "renamed or replaced while open: metrics/v1",
        "hostile values",
    ],
)
def test_a_careless_writer_is_not_ok(title: str) -> None:
    """Faults that every naive writer fails are seen."""
    cell = meet(CARELESS, fault(title))
    assert cell.complaints
    assert "**not ok**" == cell.text


@NEEDS_STRACE
@pytest.mark.parametrize(
    "title",
    [
        "a write fails: ENOSPC",
        "fsync fails",
        "another process holds",
        "side file and directory",
        "the stream is replaced",
    ],
)
def test_a_careless_writer_is_not_ok_under_strace(title: str) -> None:
    """So are those that strace makes."""
    assert meet(CARELESS, fault(title)).complaints


def test_a_stream_is_compared_record_by_record(tmp_path: Path) -> None:
    """Broken lines, lost, repeated and swapped records are seen."""
    path = tmp_path / "events.jsonl"
    step = b'{"kind":"step","step":%d}\n'
    path.write_bytes(
        step % 1 + b'{"kind":"note","text":"2 records dropped"}\n' + b'{"kind":"foreign"}\n' + step % 2 + b"x\n{"
    )
    found = found_in(str(path))
    assert (["step 1", "step 2"], ["2 records dropped"], [b"x"], b"{") == found
    assert ["a broken line: b'x'"] == wrong_in(found, ["step 1", "step 2"])
    good = found._replace(broken=[])
    assert [] == wrong_in(good, ["step 1"])
    assert ["1 acknowledged lost, first step 3"] == wrong_in(good, ["step 1", "step 3"])
    assert ["records are out of order"] == wrong_in(good, ["step 2", "step 1"])
    assert ["twice: step 1"] == wrong_in(good._replace(names=["step 1", "step 1"]), ["step 1"])


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('why')", "ended the program with 1: why"),
        ("print('hello')", "was answered with b'hello'"),
        pytest.param("import time; time.sleep(60)", "`x` hangs", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_crashes_or_talks_or_hangs_is_reported(program: str, said: str) -> None:
    """Each is a sentence of its own."""
    running = Program([sys.executable, "-c", program])
    try:
        with pytest.raises(ProgramError, match=said):
            running.hear("x", 2.0)
    finally:
        running.kill()
        running.close()


def test_what_cannot_be_done_is_named_and_not_counted() -> None:
    """A cell that was not tried is not ok, and the reason is printed."""

    def language(_: object) -> None:
        raise LeftOutError("there is no fork")

    def machine(_: object) -> None:
        raise MachineError("strace is not installed")

    cells = [meet(CARELESS, Fault("a", (language,))), meet(CARELESS, Fault("b", (machine,)))]
    assert [("-", False), ("-", True)] == [(cell.text, cell.lacks_machine) for cell in cells]
    text = list(lines([Fault("a", ()), Fault("b", ())], {"x": cells, "y": [Cell(met=1), cells[1]]}))
    assert "| a | - | ok |" in text
    assert "- left out: x: a: there is no fork" in text
    assert "- left out: x, y: b: strace is not installed" in text


def test_only_a_whole_table_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the table never replaces the whole."""
    page = tmp_path / "page.md"
    page.write_text("<!-- generated:writer-faults -->\n<!-- /generated -->\n")
    monkeypatch.setattr(command, "FAULTS", (Fault("a", (lambda case: case.make(STEP),)),))
    monkeypatch.setattr(command, "writers", lambda _: iter([CARELESS]))
    assert 0 == main(["faults", "--no-build", "--page", str(page), "--fault", "a"])
    assert "| a |" not in page.read_text()
    assert 0 == main(["faults", "--no-build", "--page", str(page)])
    assert "| a | ok |" in page.read_text()


def test_a_writer_that_cannot_be_built_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a failure, and the others are met."""
    broken = Writer("broken", (os.path.join("/nowhere", "writer"),), PYTHON)
    monkeypatch.setattr(command, "writers", lambda _: iter([broken]))
    assert 1 == main(["faults"])
