"""Files that grow by lines: acknowledged lines stay, whatever call fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from files import content, lines_file
from toyspec.core.errors import StreamClosedError, StreamRefusedError
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.append_file import AppendFile, Options, copy_bytes
from toyspec.testing import FailingCalls

OLD = b'{"old":true}\n'


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a file that does not exist."""
    return str(tmp_path / "events.jsonl")


def test_a_short_write_is_completed(path: str) -> None:
    """A system that takes one byte at a time still gets every line whole."""
    calls = SystemCalls(write=lambda descriptor, data: os.write(descriptor, data[:1]))
    file = lines_file(path, calls=calls)
    file.append(b"one")
    file.append(b"two")
    assert 8 == file.committed
    file.close()
    assert b"one\ntwo\n" == content(path)


def test_a_write_of_nothing_is_an_error(path: str) -> None:
    """A system that takes no byte and reports no error does not hang the writer."""
    taken = iter([2, 0])
    calls = SystemCalls(write=lambda descriptor, data: os.write(descriptor, data[: next(taken)]))
    file = lines_file(path, calls=calls)
    with pytest.raises(OSError, match="accepted 0 bytes"):
        file.append(b"one")
    file.close()
    assert b"" == content(path)


def test_a_copy_of_which_nothing_is_taken_is_an_error(tmp_path: Path) -> None:
    """A file whose lines are moved elsewhere does not wait forever for a system that takes no byte."""
    with (tmp_path / "lines").open("w+b") as file:
        file.write(b"one")
        file.flush()
        with pytest.raises(OSError, match="accepted 0 bytes"):
            copy_bytes(file.fileno(), file.fileno(), 3, SystemCalls(write=lambda *_: 0))


def test_a_part_that_cannot_be_removed_closes_the_file_for_good(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """When neither writing on nor cutting works, nothing may follow the part, and standard error reports it once."""
    failing = FailingCalls(at=2, error=errno.EIO, effect="short-write", lasting="for-ever", only="write")
    failing.calls = SystemCalls(
        write=failing.calls.write, ftruncate=FailingCalls(at=1, error=errno.EROFS).calls.ftruncate
    )
    file = lines_file(path, calls=failing.calls)
    file.append(b"one")
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"two!")
    for _ in range(2):
        with pytest.raises(StreamClosedError, match="closed after an error"):
            file.append(b"three")
    file.close()
    assert b"one\ntw" == content(path)
    said = capfd.readouterr().err.splitlines()
    why = "a line could be neither written (Input/output error) nor removed (Read-only file system)"
    assert [f"toyspec: {path}: closed after an error: {why}"] == said


def test_a_file_system_without_fsync_is_not_failure(path: str) -> None:
    """Where fsync does not exist, lines are written all the same."""
    failing = FailingCalls(at=1, error=errno.EINVAL, lasting="for-ever", only="fsync")
    file = lines_file(path, durability="fsync", calls=failing.calls)
    file.append(b"one")
    file.append(b"two", sync="now")
    file.close()
    assert b"one\ntwo\n" == content(path)


def test_sync_now_covers_the_directory(path: str) -> None:
    """A line that must survive the machine forces its file and the name of the file."""
    counting = FailingCalls(at=0, error=0)
    file = lines_file(path, calls=counting.calls)
    file.append(b"one", sync="now")
    file.append(b"two")
    file.close()
    assert [
        "open",
        "lock",
        "lock_record",
        "write",
        "fsync",
        "open",
        "fsync",
        "close",
        "write",
        "close",
    ] == counting.made


def test_a_forgotten_file_gives_its_lock_back(path: str) -> None:
    """A handle without references does not block the next writer in this process."""
    lines_file(path).append(b"one")
    AppendFile.reopen(path).close()


def test_reopen_appends_and_can_demand_a_file(path: str) -> None:
    """Reopening goes on behind what is there, or creates the file unless told not to."""
    with pytest.raises(FileNotFoundError):
        AppendFile.reopen(path, missing="fail")
    for line in (b"one", b"two"):
        file = AppendFile.reopen(path)
        file.append(line)
        file.close()
    assert b"one\ntwo\n" == content(path)


@pytest.mark.parametrize("missing", ["lock", "lock_record"])
def test_a_file_system_with_one_kind_of_lock_still_has_that(path: str, missing: str) -> None:
    """A kind of lock that is not there is left out, and the other still keeps a second writer out."""
    failing = FailingCalls(at=1, error=errno.ENOLCK, lasting="for-ever", only=missing)
    options = Options(calls=failing.calls)
    file = AppendFile.create(path, options=options)
    with pytest.raises(StreamRefusedError, match="another writer"):
        AppendFile.reopen(path, options=options)
    file.append(b"one")
    file.close()
    assert b"one\n" == content(path)


def test_a_file_that_is_replaced_while_it_is_opened_is_opened_again(path: str) -> None:
    """The lock is on the file that the path names, not on one that was moved away in between."""
    Path(path).write_bytes(OLD)
    moved: list[int] = []

    def open_late(name: str, flags: int, mode: int) -> int:
        descriptor = os.open(name, flags, mode)
        if not moved:
            moved.append(1)
            os.rename(path, f"{path}.gone")
            Path(path).write_bytes(b"new\n")
        return descriptor

    file = AppendFile.reopen(path, options=Options(calls=SystemCalls(open=open_late)))
    file.append(b"line")
    file.close()
    assert (OLD, b"new\nline\n") == (content(f"{path}.gone"), content(path))


def test_a_file_emptied_by_someone_else_gets_no_hole(path: str) -> None:
    """After a truncation from outside, a failed line is taken back without filling the file up with NUL."""
    failing = FailingCalls(at=3, error=errno.ENOSPC, effect="short-write", only="write")
    file = lines_file(path, calls=failing.calls)
    file.append(b"a long first line")
    os.truncate(path, 0)
    file.append(b"two")
    with pytest.raises(OSError, match="No space"):
        file.append(b"three")
    file.append(b"four")
    file.close()
    assert b"two\nfour\n" == content(path)


def test_lines_of_another_process_are_not_cut_off(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A writer that finds lines of another behind its own does not remove them with its own part."""
    failing = FailingCalls(at=2, error=errno.ENOSPC, effect="short-write", only="write")
    file = lines_file(path, calls=failing.calls)
    file.append(b"one")
    with open(path, "ab") as other:
        other.write(b"foreign line\n")
    with pytest.raises(OSError, match="No space"):
        file.append(b"two!")
    file.append(b"three")
    file.close()
    assert b"one\nforeign line\nthree\n" == content(path)
    assert "" == capfd.readouterr().err


def test_a_part_that_another_process_has_written_behind_stays(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A part of a line that is no longer at the end cannot go: the file is closed for good, and reports it."""

    def write(descriptor: int, data: bytes | memoryview) -> int:
        if len(data) > 4:
            return os.write(descriptor, data[:2])
        with open(path, "ab") as other:
            other.write(b"foreign line\n")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = lines_file(path, calls=SystemCalls(write=write))
    with pytest.raises(OSError, match="No space"):
        file.append(b"line")
    assert b"liforeign line\n" == content(path)
    assert "another process is writing the file" in capfd.readouterr().err
    assert file.closed_because is not None
