"""Fragments are moved to a side file whole, whatever call fails."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from pathlib import Path
from typing import Literal

import pytest

from files import content
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import move_fragment
from toyspec.testing import FailingCalls


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a file that does not exist."""
    return str(tmp_path / "events.jsonl")


def test_a_fragment_is_moved_to_a_side_file(path: str) -> None:
    """The bytes behind the last line move into a file beside, and lines go on behind the cut."""
    Path(path).write_bytes(b"one\ntwo\npart")
    file = AppendFile.reopen(path)
    aside = move_fragment(file, 8)
    assert f"{path}.torn-8" == aside
    assert None is move_fragment(file, 8)
    file.append(b"three")
    file.close()
    assert (b"one\ntwo\nthree\n", b"part") == (content(path), content(f"{path}.torn-8"))


def test_fragments_of_the_same_place_do_not_cover_one_another(path: str) -> None:
    """Every fragment at the same offset gets a name of its own."""
    for part in (b"part", b"other", b"part"):
        Path(path).write_bytes(b"one\n" + part)
        file = AppendFile.reopen(path)
        move_fragment(file, 4)
        file.close()
    names = sorted(os.listdir(os.path.dirname(path)))
    assert ["events.jsonl", "events.jsonl.torn-4", "events.jsonl.torn-4-2", "events.jsonl.torn-4-3"] == names
    assert [b"part", b"other", b"part"] == [content(f"{path}.torn-4{end}") for end in ("", "-2", "-3")]


def test_error_of_a_cut_is_the_one_that_is_raised(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that cannot be removed afterwards hides nothing, and the fragment is where it was."""
    Path(path).write_bytes(b"one\npart")
    file = AppendFile.reopen(path)

    def refuse(*_: object) -> None:
        raise OSError("no cut")

    def keep(*_: object, **__: object) -> None:
        raise OSError("no removal")

    monkeypatch.setattr(file, "truncate", refuse)
    monkeypatch.setattr(os, "unlink", keep)
    with pytest.raises(OSError, match="no cut"):
        move_fragment(file, 4)
    file.close()
    assert (b"one\npart", b"part") == (content(path), content(f"{path}.torn-4"))


def test_a_long_fragment_is_kept_whole(path: str) -> None:
    """The length of a fragment does not matter."""
    Path(path).write_bytes(b"one\n" + b"x" * 3_200_000)
    file = AppendFile.reopen(path)
    move_fragment(file, 4)
    file.close()
    assert (b"one\n", b"x" * 3_200_000) == (content(path), content(f"{path}.torn-4"))


@pytest.mark.parametrize("effect", ["error", "short-write"])
@pytest.mark.parametrize("lasting", ["once", "for-ever"])
def test_no_failing_call_loses_a_fragment(
    tmp_path: Path, lasting: Literal["once", "for-ever"], effect: Literal["error", "short-write"]
) -> None:
    """Whichever call fails, one of the two files has the fragment whole, and a retry completes it."""
    for at in itertools.count(1):
        directory = tmp_path / str(at)
        directory.mkdir()
        path = str(directory / "events.jsonl")
        Path(path).write_bytes(b"one\npart of a line")
        failing = FailingCalls(at=at, error=errno.EIO, lasting=lasting, effect=effect)
        with contextlib.suppress(OSError):
            file = AppendFile.reopen(path, options=Options(calls=failing.calls))
            with contextlib.suppress(OSError):
                move_fragment(file, 4)
            file.close()
        kept = content(path) == b"one\npart of a line"
        assert kept or (b"one\n", b"part of a line") == (content(path), content(f"{path}.torn-4"))
        file = AppendFile.reopen(path)
        move_fragment(file, 4)
        file.close()
        assert ["events.jsonl", "events.jsonl.torn-4"] == sorted(os.listdir(directory))
        assert (b"one\n", b"part of a line") == (content(path), content(f"{path}.torn-4"))
        if not failing.was_hit:
            break
    assert at > 7
