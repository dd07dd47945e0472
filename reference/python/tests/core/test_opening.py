"""How a stream is opened: what earlier files become, and what is undone when something fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toyspec.core.errors import StreamRefusedError
from toyspec.core.system_calls import SYSTEM_CALLS
from toyspec.core.writing import opening

EVER = "other writers keep replacing it; stop them, or write to another directory"


def calls(**replaced: Any) -> Any:
    """Return the system calls, some of them replaced."""
    return msgspec.structs.replace(SYSTEM_CALLS, **replaced)


def files(folder: Path) -> dict[str, str]:
    """Return the text of each file."""
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def closed(opened: opening.Opened) -> opening.Opened:
    """Close an opened file."""
    os.close(opened.descriptor)
    return opened


def test_earlier_files_get_free_names(tmp_path: Path) -> None:
    """The last one is .prev, those before have numbers from 1, and nothing is overwritten."""
    path = tmp_path / "a"
    (tmp_path / "a.prev-1").write_text("kept")
    moves = []
    for text in ("1", "2", "3"):
        opened = closed(opening.replace(str(path), SYSTEM_CALLS))
        moves.append([(Path(old).name, Path(new).name) for old, new in opened.moves])
        path.write_text(text)
    assert [[], [("a", "a.prev")], [("a.prev", "a.prev-2"), ("a", "a.prev")]] == moves
    opening.move(str(path), SYSTEM_CALLS)
    assert {"a.prev": "3", "a.prev-1": "kept", "a.prev-2": "1", "a.prev-3": "2"} == files(tmp_path)
    with pytest.raises(FileNotFoundError):
        opening.move(str(path), SYSTEM_CALLS)


def test_empty_file_is_used(tmp_path: Path) -> None:
    """Nothing moves for one, and taking it back leaves it."""
    (tmp_path / "a").write_text("")
    opened = closed(opening.replace(str(tmp_path / "a"), SYSTEM_CALLS))
    assert (False, []) == (opened.is_new, opened.moves)
    opened.take_back()
    assert {"a": ""} == files(tmp_path)


def test_what_opening_changed_is_taken_back(tmp_path: Path) -> None:
    """The new file is gone, and the earlier ones and the seal have their names again."""
    before = {"SHA256SUMS": "seal", "a": "1", "a.prev": "0"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    opened = closed(opening.replace(str(tmp_path / "a"), SYSTEM_CALLS))
    assert {"SHA256SUMS.prev": "seal", "a": "", "a.prev": "1", "a.prev-1": "0"} == files(tmp_path)
    assert opened.is_new
    opened.take_back()
    assert before == files(tmp_path)


@pytest.mark.parametrize("opener", [opening.reopen, opening.replace])
def test_file_that_is_ever_replaced_is_refused(tmp_path: Path, opener: Any) -> None:
    """After a hundred attempts the message says what to do, and no descriptor is left open."""
    path, asked, open_ones = str(tmp_path / "a"), [], set[int]()

    def opened(name: str, flags: int, mode: int) -> int:
        asked.append(flags)
        Path(path).unlink(missing_ok=True)
        Path(path).write_text("other")
        descriptor = os.open(name, flags, mode)
        Path(path).rename(f"{path}.{len(asked)}")
        open_ones.add(descriptor)
        return descriptor

    def close(descriptor: int) -> None:
        os.close(descriptor)
        open_ones.discard(descriptor)

    with pytest.raises(StreamRefusedError) as caught:
        opener(path, calls(open=opened, close=close))
    assert (path, "locked", EVER) == (caught.value.filename, caught.value.reason, caught.value.strerror)
    assert (100, set()) == (len(asked), open_ones)


def test_file_that_another_creates_first_is_opened(tmp_path: Path) -> None:
    """A file that comes and goes between two looks is asked for again, at most a hundred times."""
    path, asked = str(tmp_path / "a"), []

    def missing(name: str, flags: int, mode: int) -> int:
        asked.append(bool(flags & os.O_CREAT))
        if len(asked) < 5:
            raise FileExistsError(errno.EEXIST, "", name) if flags & os.O_CREAT else FileNotFoundError(name)
        return os.open(name, flags, mode)

    assert closed(opening.reopen(path, calls(open=missing))).is_new
    assert [False, True, False, True, False, True] == asked
    with pytest.raises(FileNotFoundError):
        opening.reopen(str(tmp_path / "none"), SYSTEM_CALLS, missing="fail")


@pytest.mark.parametrize("failing", ["lock", "replace"])
def test_failure_of_the_system_leaves_what_was_there(tmp_path: Path, failing: str) -> None:
    """A lock or a name that the system refuses is raised; files have their names, and each descriptor is closed."""
    before = {"SHA256SUMS": "seal", "b": "1"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    open_ones: list[int] = []

    def opened(name: str, flags: int, mode: int) -> int:
        open_ones.append(os.open(name, flags, mode))
        return open_ones[-1]

    def close(descriptor: int) -> None:
        os.close(descriptor)
        open_ones.remove(descriptor)

    def refused(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for opener, name in ((opening.create, "a"), (opening.replace, "b"), (opening.move, "b")):
        with pytest.raises(OSError, match="Input/output error"):
            opener(str(tmp_path / name), calls(**{"open": opened, "close": close, failing: refused}))
        assert (before, []) == (files(tmp_path), open_ones)


def test_creation_that_fails_after_a_move_restores_it(tmp_path: Path) -> None:
    """A disk that takes no new file leaves the earlier log under its name."""
    (tmp_path / "a").write_text("1")

    def full(name: str, flags: int, mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(name, flags, mode)

    with pytest.raises(OSError, match="No space left"):
        opening.replace(str(tmp_path / "a"), calls(open=full))
    assert {"a": "1"} == files(tmp_path)


def test_names_are_restored_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no links, a file is moved; a name that is taken meanwhile stays with its new owner."""
    for name in ("a.prev", "b.prev"):
        (tmp_path / name).write_text(name)
    (tmp_path / "b").write_text("other")

    def link(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, "no links", source, None, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        opening.restore([(str(tmp_path / "a"), str(tmp_path / "a.prev"))])
        with pytest.raises(PermissionError):
            opening.restore([(str(tmp_path / "b"), str(tmp_path / "b.prev"))])
    with pytest.raises(FileExistsError):
        opening.restore([(str(tmp_path / "b"), str(tmp_path / "b.prev"))])
    assert {"a": "a.prev", "b": "other", "b.prev": "b.prev"} == files(tmp_path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A FIFO or a device is refused at once, with what a log must be; one that is held says what to wait for."""
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), os.devnull):
        with pytest.raises(StreamRefusedError) as caught:
            opening.reopen(path, SYSTEM_CALLS)
        assert ("irregular", "not a regular file; a log must be one") == (caught.value.reason, caught.value.strerror)
    with pytest.raises(IsADirectoryError):
        opening.reopen(str(tmp_path), SYSTEM_CALLS)

    def held(_: int) -> None:
        raise BlockingIOError(errno.EAGAIN, "held")

    with pytest.raises(StreamRefusedError) as caught:
        opening.create(str(tmp_path / "a"), calls(lock=held))
    fact = "another writer has it open; wait until it closes the file, or write to another directory"
    assert ("locked", fact) == (caught.value.reason, caught.value.strerror)
    assert (tmp_path / "a").exists()
