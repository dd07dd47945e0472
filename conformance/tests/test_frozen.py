"""What an implementation of a released revision answers conforms to that revision for ever."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import session_cases
from conformance.adapters import Adapter
from conformance.command import GOOD, main
from conformance.corpus import cases, questions_of
from conformance.frozen import kept_program, kept_programs
from conformance.inside import Inside, reasons_of
from conformance.oracle import tables
from conformance.oracle.adapter import Message, Oracle
from conformance.oracle.writing import RefusedError, Writing
from conformance.probes import writers
from conformance.probes.question import Question, Stage
from conformance.revisions import CURRENT, is_draft, listed
from conformance.runner import _revision_of

SELECTED = ("toy-v1/resumption", "toy-v1/wrong-type", "kaun-v1/canonical", "kaun-v1/fields")
LATER = {
    "count of the latest attempt": "count is",
    "a clock that stands still": "/wall_time does not change",
    "records left out in silence": "answered written, and wrote",
    "half a second too much": "/t of the last record",
}
"""What revision 1.2 left open, with what the runner has said since 1.3."""


class Writing12(Writing):
    """Leaves out the records that it cannot write, has one time for all, and counts half a second too much."""

    def stream(self, records: Iterable[Any]) -> bytes:
        """Return the stream of *records* without those that are wrong; raise RefusedError if it is not valid then."""
        found = []
        for record in records:
            try:
                found.append(self.record(record))
            except RefusedError:
                continue
        stream = b"".join(found)
        if not found or not Oracle().check({"stream": stream, "profile": self.profile})["valid"]:
            raise RefusedError("what is left is not a valid stream")
        return stream

    def with_always_written(self, members: dict[str, Any]) -> dict[str, Any]:
        """Return the members of a record, a scalar with the time when the half minute began."""
        if self.profile == "kaun/v1" and members.get("type") == "scalar":
            return {"wall_time": {"float": repr(time.time() // 30 * 30)}, **members}
        return super().with_always_written(members)

    def open(self) -> None:
        """Start the clock half a second early."""
        super().open()
        assert self.start is not None
        self.start -= 0.5


class Oracle12(Oracle):
    """Answers as an implementation of revision 1.2 may: what its pages left open, it does otherwise."""

    writing_type = Writing12

    def hello(self) -> Message:
        """Return a hello without revisions, which 1.2 did not know."""
        return {key: value for key, value in super().hello().items() if key != "revisions"}

    def answer(self, request: Message) -> Message:
        """Return the answer of revision 1.2; `count` is of the records that are given."""
        answer = super().answer({**request, "revision": "1.2"})
        return answer | {"count": len(answer["records"])} if request.get("view") == "latest" else answer


@pytest.fixture(autouse=True)
def followed() -> Iterator[None]:
    """Follow revision 1.2, and the newest one after the test."""
    tables.follow("1.2")
    yield
    tables.follow(CURRENT)


def reasons(asked: Iterable[Question], folder: Path, revision: str) -> list[str]:
    """Return what is said about the implementation of 1.2 when it is asked about *revision*."""
    oracle = Oracle12()
    stage = Stage(Inside(oracle), lambda: tempfile.mkdtemp(dir=folder), oracle.hello(), revision)
    return [f"{question.name}: {reason}" for question in asked for reason in reasons_of(question, stage)]


def test_what_a_later_revision_compares_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What 1.2 left open is right with ``--revision 1.2``, and each part of it is wrong in 1.3."""
    # Its clock stands still for seconds, as each of several questions finds out.
    monkeypatch.setattr(writers, "_MOST_TICKS", 5)
    timed = [session for session in session_cases.load(revision="1.2") if session.is_timed_by_writer]
    asked = list(questions_of((*cases(SELECTED, "1.2"), *timed), ["reader", "writer"]))
    assert [] == reasons(asked, tmp_path, "1.2")
    later = reasons(asked, tmp_path, "1.3")
    assert [] == [what for what, words in LATER.items() if not any(words in reason for reason in later)]


@pytest.mark.parametrize("revision", kept_programs())
def test_program_that_conformed_to_a_revision_does_for_ever(
    tmp_path: Path, revision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The oracle of a released revision, kept as it was, answers what `--revision` asks; `nox -s conform` asks all."""
    adapter = " ".join(kept_program(revision, tmp_path))
    assert GOOD == main(["--adapter", adapter, "--revision", revision, "--level", "quick", "--jobs", "2"])
    assert "no failure" in capsys.readouterr().out


def test_every_released_revision_has_its_program() -> None:
    """A revision that cannot change keeps the program that shows it."""
    assert [revision for revision in listed() if not is_draft(revision)] == kept_programs()


def test_draft_is_asked_of_who_names_it() -> None:
    """An adapter that names no revision is asked about the newest that cannot change, unless it is asked for."""
    silent, naming = (Adapter(["x"], deadline=1.0), Adapter(["x"], deadline=1.0))
    silent.hello, naming.hello = {}, {"revisions": [CURRENT]}
    released = [revision for revision in listed() if not is_draft(revision)][-1]
    asked = Namespace(revision=None)
    assert (released, CURRENT) == (_revision_of(silent, asked), _revision_of(naming, asked))
    assert CURRENT == _revision_of(silent, Namespace(revision=CURRENT))
