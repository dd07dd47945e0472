"""Files that grow by lines: what becomes of a path that changes its meaning, and of a start that comes to nothing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from files import content, lines_file
from toyspec.core.errors import StreamClosedError, StreamRefusedError
from toyspec.core.writing.append_file import AppendFile
from toyspec.testing import FailingCalls

OLD = b'{"old":true}\n'


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a file that does not exist, in a directory that has nothing else."""
    (tmp_path / "run").mkdir()
    return str(tmp_path / "run/events.jsonl")


@pytest.mark.parametrize("way", ["deleted", "moved", "replaced", "deleted with its directory"])
def test_a_file_that_loses_its_name_is_started_again(way: str, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The next look finds it: the path has every line again, what took its place is kept, and it is said once."""
    file = lines_file(path, look_seconds=0)
    file.append(b"one")
    for number in range(2):
        if way == "deleted":
            os.unlink(path)
        elif way == "moved":
            os.rename(path, f"{path}.{number}")
        elif way == "replaced":
            Path(f"{path}.new").write_bytes(OLD)
            os.replace(f"{path}.new", path)
        else:
            shutil.rmtree(os.path.dirname(path))
        file.append(b"two %d" % number)
        if way == "replaced":
            break
    with pytest.raises(StreamRefusedError):
        AppendFile.reopen(path)
    file.close()
    assert (b"one\ntwo 0\n" if way == "replaced" else b"one\ntwo 0\ntwo 1\n") == content(path)
    assert 1 == capfd.readouterr().err.count("written again with all 4 bytes")
    if way == "replaced":
        assert OLD == content(f"{path}.prev")


def test_a_file_that_is_replaced_twice_is_closed_for_good(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Two programs that replace each other's file would fill the disk: this one stops, and says why."""
    file = lines_file(path, look_seconds=0)
    file.append(b"one")
    for number in range(2):
        Path(f"{path}.new").write_bytes(OLD)
        os.replace(f"{path}.new", path)
        if number:
            with pytest.raises(StreamClosedError, match="replaced the file twice"):
                file.append(b"three")
        else:
            file.append(b"two")
    assert (OLD, OLD, b"one\ntwo\n") == (content(path), content(f"{path}.prev"), content(f"{path}.kept-1"))
    assert 1 == capfd.readouterr().err.count("let one program write it")


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_lines_are_kept_beside_a_path_that_is_taken(
    path: str, put: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """What was acknowledged is in the deleted file alone, which ends with the descriptor."""
    Path(f"{path}.kept-1").write_bytes(OLD)
    file = lines_file(path, look_seconds=0)
    file.append(b"one")
    os.unlink(path)
    put(path)
    with pytest.raises(OSError, match=r"Is a directory|not a regular file"):
        file.append(b"two")
    assert (OLD, b"one\n") == (content(f"{path}.kept-1"), content(f"{path}.kept-2"))
    assert f"the 4 bytes until here are in {path}.kept-2\n" in capfd.readouterr().err


def test_a_descriptor_that_the_program_closed_is_not_used(path: str, tmp_path: Path) -> None:
    """Its number may be another file's by now, which gets no line."""
    file = lines_file(path, look_seconds=0)
    file.append(b"one")
    number = file._descriptor
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.dup2(other, number)
    with pytest.raises(StreamClosedError, match="closed the file's descriptor"):
        file.append(b"two")
    assert (b"one\n", b"") == (content(path), (tmp_path / "other").read_bytes())
    os.close(number)
    os.close(other)


def test_a_file_whose_name_another_writer_has_is_closed_for_good(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is written to a file that has no name, nor to one that another writer has."""
    file = lines_file(path, look_seconds=0)
    file.append(b"one")
    os.unlink(path)
    other = lines_file(path)
    other.append(b"other")
    with pytest.raises(StreamRefusedError, match="another writer"):
        file.append(b"two")
    with pytest.raises(StreamClosedError):
        file.append(b"three")
    assert b"other\n" == content(path)
    assert 1 == capfd.readouterr().err.count("closed after an error")


def test_a_full_disk_keeps_a_file_from_starting_again_until_there_is_room(path: str) -> None:
    """A copy that does not fit leaves nothing and acknowledges nothing; a later one has all lines."""
    failing = FailingCalls(at=3, error=errno.ENOSPC, only="write")
    file = lines_file(path, look_seconds=0, calls=failing.calls)
    file.append(b"one")
    file.append(b"two")
    os.unlink(path)
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"three")
    assert path == caught.value.filename
    assert not os.path.exists(path)
    file.append(b"four")
    file.close()
    assert b"one\ntwo\nfour\n" == content(path)


@pytest.mark.skipif(sys.platform != "linux", reason="record locks that belong to an opening are Linux's")
def test_a_record_lock_of_another_process_is_seen_and_ours_is_seen_there(path: str) -> None:
    """Programs that know record locks only, as those on the JVM, take turns with this writer."""
    holder = """if True:
        import fcntl, sys
        with open(sys.argv[1], "ab") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("held", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", holder, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"held\n" == process.stdout.readline()
        with pytest.raises(StreamRefusedError, match="another writer"):
            AppendFile.reopen(path)
        process.communicate()
    file = AppendFile.reopen(path)
    done = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert b"BlockingIOError" in done.stderr
    file.close()
