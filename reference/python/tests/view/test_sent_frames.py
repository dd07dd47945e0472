"""The frames that a second start sends again."""

from __future__ import annotations

import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from toyspec.view import curve_store
from toyspec.view.curve_store import CurveStore, SentFrames
from toyspec.view.live_runs import LiveRuns
from toyspec.view.requests import Answers
from view_client import END, START, frames, step, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toyspec.view.opened_files import Identity

_IDENTITY: Identity = (1, 2, 3, 4)
_LOSS = ("loss", 64)
_RUNS = ("a", "b", "c")

_opened: list[str] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def _opening() -> Iterator[list[str]]:
    """Note which files are opened until the end of the block."""
    global _opened  # noqa: PLW0603 - a hook of the interpreter cannot be removed
    found: list[str] = []
    _opened = found
    try:
        yield found
    finally:
        _opened = None


@contextmanager
def _answers(root: Path) -> Iterator[Answers]:
    catalog = LiveRuns(str(root / "runs"), store=CurveStore(str(root / "cache")))
    catalog.start()
    answers = Answers(catalog)
    try:
        yield answers
    finally:
        answers.close()
        catalog.close()


def _curves(answers: Answers, *, buckets: str = "64", axis: str = "step") -> bytes:
    """Return the frames in one order: those that were sent before come metric by metric."""
    data = _answer(answers, buckets=buckets, axis=axis)
    sizes = [8 + sum(struct.unpack_from("<II", data, at)) for at in _begins(data)]
    return b"".join(sorted(data[at : at + size] for at, size in zip(_begins(data), sizes, strict=True)))


def _answer(answers: Answers, *, buckets: str = "64", axis: str = "step") -> bytes:
    return b"".join(answers.curves({"metric": ["loss", "lr"], "run": _RUNS, "x": [axis], "buckets": [buckets]}))


def _begins(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        yield at
        at += 8 + sum(struct.unpack_from("<II", data, at))


def _write_runs(root: Path) -> None:
    for number, name in enumerate(_RUNS, 1):
        steps = (step(at, number / at).replace(b"}", b',"lr":0.%d}' % at) for at in range(1, 200))
        write_run(root / "runs" / name, START, *steps, END)


def test_second_start_sends_the_same_from_one_file(tmp_path: Path) -> None:
    """The curves of each run are in a file of its own, and none of those is opened."""
    _write_runs(tmp_path)
    with _answers(tmp_path) as answers:
        first = _curves(answers)
        again = _curves(answers)
    with _answers(tmp_path) as answers, _opening() as opened:
        second = _curves(answers)
    assert len(first) > 3 * 64 * 8
    assert first == again == second
    assert [".frames"] == [path[-7:] for path in set(opened)]


def test_what_was_sent_before_comes_metric_by_metric(tmp_path: Path) -> None:
    """The first chart of a page is whole before the others."""
    _write_runs(tmp_path)
    with _answers(tmp_path) as answers:
        _curves(answers)
    with _answers(tmp_path) as answers:
        sent = [(header["metric"], header["run"]) for header, _ in frames(_answer(answers))]
    assert [(metric, run) for metric in ("loss", "lr") for run in _RUNS] == sent


def test_start_with_another_width_makes_its_frames_and_keeps_both(tmp_path: Path) -> None:
    """A window of another size asks for another number of buckets."""
    _write_runs(tmp_path)
    with _answers(tmp_path) as answers:
        narrow = _curves(answers)
    with _answers(tmp_path) as answers:
        wide = _curves(answers, buckets="150")
    assert narrow != wide
    with _answers(tmp_path) as answers, _opening() as opened:
        assert narrow == _curves(answers)
        assert wide == _curves(answers, buckets="150")
    assert not [path for path in opened if path.endswith(".curves")]


def test_run_that_was_written_since_is_sent_again(tmp_path: Path) -> None:
    """Its stream has another identity."""
    _write_runs(tmp_path)
    with _answers(tmp_path) as answers:
        before = _curves(answers)
    with (tmp_path / "runs/b/events.jsonl").open("ab") as file:
        file.write(step(200, 77.5))
    with _answers(tmp_path) as answers:
        after = _curves(answers)
    assert before != after
    assert b'"points":200' in after


def test_part_of_a_curve_and_other_axes_are_not_kept(tmp_path: Path) -> None:
    """They are asked for while a user looks around, in ranges without number."""
    _write_runs(tmp_path)
    with _answers(tmp_path) as answers:
        assert _curves(answers, axis="time")
        assert b"".join(answers.curves({"metric": ["loss"], "run": _RUNS, "from": ["3"], "to": ["9"]}))
    assert not list((tmp_path / "cache").glob("*.frames"))


def test_frames_are_those_of_the_last_identity(tmp_path: Path) -> None:
    """Those of the stream as it was before are dropped."""
    path = str(tmp_path / "kept")
    frames = SentFrames(path, "form")
    frames.keep("a", _IDENTITY, _LOSS, b"old")
    frames.keep("b", _IDENTITY, _LOSS, b"other")
    frames.close()
    frames = SentFrames(path, "form")
    newer = (1, 2, 3, 5)
    frames.keep("a", newer, _LOSS, b"new")
    frames.close()
    frames = SentFrames(path, "form")
    assert frames.find("a", newer, _LOSS) == b"new"
    assert frames.find("b", _IDENTITY, _LOSS) == b"other"
    assert frames.find("a", _IDENTITY, _LOSS) is None
    assert frames.find("b", _IDENTITY, ("loss", 65)) is None
    frames.close()


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, b"\x80", msgspec.msgpack.encode(["form", {"a": [[1], {}]}])])
def test_file_of_anything_counts_as_none(tmp_path: Path, data: bytes) -> None:
    """It may be cut, or of another version."""
    path = tmp_path / "kept"
    path.write_bytes(data)
    frames = SentFrames(str(path), "form")
    assert frames.find("a", _IDENTITY, _LOSS) is None
    frames.keep("a", _IDENTITY, _LOSS, b"new")
    frames.close()
    for form, expected in (("other form", None), ("form", b"new")):
        frames = SentFrames(str(path), form)
        assert frames.find("a", _IDENTITY, _LOSS) == expected
        frames.close()


def test_file_has_a_largest_size_and_new_frames_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs that were kept first make room."""
    monkeypatch.setattr(curve_store, "_MOST_FRAME_BYTES", 10)
    path = str(tmp_path / "kept")
    for name in ("a", "b", "c"):
        frames = SentFrames(path, "form")
        frames.keep(name, _IDENTITY, _LOSS, b"1234")
        frames.close()
    frames = SentFrames(path, "form")
    assert [None, b"1234", b"1234"] == [frames.find(name, _IDENTITY, _LOSS) for name in ("a", "b", "c")]
    frames.keep("large", _IDENTITY, _LOSS, b"12345678901")
    assert frames.find("large", _IDENTITY, _LOSS) is None
    frames.close()


def test_directory_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    """The frames are made again at the next start."""
    path = str(tmp_path / "missing" / "kept")
    frames = SentFrames(path, "form")
    frames.keep("a", _IDENTITY, _LOSS, b"1234")
    frames.close()
    assert SentFrames(path, "form").find("a", _IDENTITY, _LOSS) is None
