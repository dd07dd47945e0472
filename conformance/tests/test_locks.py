"""The lock matrix: which party respects the lock of which other one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.adapters import Adapter
from conformance.locks.matrix import fill, lines
from conformance.locks.parties import AdapterParty, Party, RepairParty, foreign
from conformance.registry import ROOT

pytestmark = pytest.mark.slow

PROGRAM = """
import fcntl, sys
from conformance import locking
from conformance.oracle.adapter import Oracle, run
{}
sys.exit(run(Oracle(), sys.argv[1:]))
"""
NO_LOCK = "locking.take = lambda descriptor: None"
FLOCK_ALONE = "locking.take = locking.flock"


def party(name: str, folder: Path, change: str = "") -> AdapterParty:
    """Return the oracle with one line of Python before it starts."""
    program = folder / f"{name}.py"
    program.write_text(PROGRAM.format(change))
    adapter = Adapter(["env", f"PYTHONPATH={ROOT}", sys.executable, str(program)])
    adapter.ask_hello()
    return AdapterParty(name, adapter)


@pytest.fixture
def parties() -> Iterator[list[Party]]:
    """Return a list of parties whose programs end with the test."""
    found: list[Party] = []
    yield found
    for one in found:
        one.close()


def test_two_writers_see_each_other(tmp_path: Path, parties: list[Party]) -> None:
    """Until a stream is released, another writer refuses it for every action."""
    parties += [party("one", tmp_path), party("two", tmp_path)]
    matrix = fill(parties)
    assert {"refused"} == {cell.text for cell in matrix.cells.values()}
    assert {3} == {cell.tried for cell in matrix.cells.values()}
    assert matrix.is_good


def test_writer_without_a_lock_is_shown(tmp_path: Path, parties: list[Party]) -> None:
    """The matrix shows a writer that takes no lock in its row and its column."""
    parties += [party("right", tmp_path), party("wrong", tmp_path, NO_LOCK)]
    matrix = fill(parties)
    assert "refused" == matrix.cells["right", "right"].text
    assert "resume: written; replace: written; append: written" == matrix.cells["right", "wrong"].text
    assert "resume: written; replace: written; append: written" == matrix.cells["wrong", "right"].text
    assert not matrix.is_good


def test_one_kind_of_lock_is_not_enough(tmp_path: Path, parties: list[Party]) -> None:
    """Java ignores a writer with only a flock lock; a shell script respects every writer."""
    others = dict(foreign())
    if isinstance(others["java"], str) or isinstance(others["flock"], str):
        pytest.skip(f"java: {others['java']}, flock: {others['flock']}")
    parties += [party("both", tmp_path), party("flock-alone", tmp_path, FLOCK_ALONE), others["java"], others["flock"]]
    matrix = fill(parties)
    assert "refused" == matrix.cells["both", "java"].text
    assert "refused" == matrix.cells["java", "both"].text
    assert "append: written" == matrix.cells["flock-alone", "java"].text
    assert "refused" == matrix.cells["flock-alone", "flock"].text
    assert ("java", "flock") not in matrix.cells


def test_repair_that_cuts_what_is_held_is_shown(tmp_path: Path, parties: list[Party]) -> None:
    """A repair that takes no lock cuts the fragment of a live writer, and the matrix shows one that does nothing."""
    cuts = "import os, sys; p = sys.argv[1]; d = open(p, 'rb').read(); os.truncate(p, d.rfind(b'\\n') + 1)"
    parties += [
        party("writer", tmp_path),
        RepairParty("cuts", [sys.executable, "-c", cuts]),
        RepairParty("never", [sys.executable, "-c", "import sys; sys.exit(1)"]),
    ]
    matrix = fill(parties)
    assert ["writer"] == matrix.holders
    assert "repair: written" == matrix.cells["writer", "cuts"].text
    assert "repair: refused after the release" == matrix.cells["writer", "never"].text


def test_writer_that_says_it_has_no_lock_gives_its_reason(tmp_path: Path, parties: list[Party]) -> None:
    """A platform without locks is not a failure, and its reason is in the table."""
    says = (
        "take = Oracle.write\n"
        "Oracle.write = lambda self, request: {'untestable': 'no locks here'} "
        "if request.get('end') == 'held' else take(self, request)\n" + NO_LOCK
    )
    parties += [party("right", tmp_path), party("lockless", tmp_path, says)]
    matrix = fill(parties)
    assert {"lockless": "no locks here"} == matrix.without_lock
    assert "resume: written; replace: written; append: written" == matrix.cells["right", "lockless"].text
    assert matrix.is_good
    assert "lockless takes no lock: no locks here." in list(lines(matrix))
