"""Files that grow by lines, among threads, signals, forks, kills and limits of the system."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from files import content, in_subprocess, lines_file
from toyspec.core.errors import StreamClosedError
from toyspec.core.system_calls import SystemCalls, is_locked
from toyspec.core.writing.append_file import AppendFile

resource = pytest.importorskip("resource", reason="the platform has neither forks nor limits")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a file that does not exist."""
    return str(tmp_path / "events.jsonl")


def test_an_interrupted_line_is_settled(path: str) -> None:
    """An exception out of the write leaves either the whole line or nothing, and the count of lines says which."""
    taken: list[int | None] = [None, 2, None, None]

    def interrupted(descriptor: int, data: Any) -> int:
        count = taken.pop(0)
        written = os.write(descriptor, data[:count])
        if len(taken) in (2, 1):
            raise KeyboardInterrupt
        return written

    file = lines_file(path, calls=SystemCalls(write=interrupted))
    file.append(b"one")
    with pytest.raises(KeyboardInterrupt):
        file.append(b"two!")
    file.settle()
    assert (1, b"one\n") == (file.appended, content(path))
    with pytest.raises(KeyboardInterrupt):
        file.append(b"three")
    file.settle()
    file.settle()
    assert 2 == file.appended
    file.append(b"four")
    file.close()
    assert b"one\nthree\nfour\n" == content(path)


def test_a_line_after_an_unsettled_interruption_is_not_glued(path: str) -> None:
    """A caller that never asks what became of an interrupted line still cannot append to its part."""
    cut = iter([True, False])

    def interrupted(descriptor: int, data: Any) -> int:
        if next(cut):
            os.write(descriptor, data[:2])
            raise KeyboardInterrupt
        return os.write(descriptor, data)

    file = lines_file(path, calls=SystemCalls(write=interrupted))
    with pytest.raises(KeyboardInterrupt):
        file.append(b"one")
    file.append(b"two")
    file.close()
    assert b"two\n" == content(path)


def test_a_signal_handler_may_append_very_often(path: str) -> None:
    """More lines than calls can be nested, all within one line of the program."""

    def signalled(descriptor: int, data: Any) -> int:
        if data == b"line\n":
            signal.raise_signal(signal.SIGUSR1)
        return os.write(descriptor, data)

    file = lines_file(path, calls=SystemCalls(write=signalled))
    many = [b"%d" % number for number in range(5000)]

    def handle(*_: object) -> None:
        for line in many:
            file.append(line)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        file.append(b"line")
    finally:
        signal.signal(signal.SIGUSR1, before)
    file.close()
    assert [b"line", *many] == content(path).splitlines()


def test_the_handle_of_a_forked_child_is_dead(path: str) -> None:
    """The child cannot write, holds no lock, and does not wait for one that a thread of the parent holds."""
    file = lines_file(path)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with file.lock:
            held.set()
            release.wait(300)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(300)
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(StreamClosedError):
            file.append(b"child")
            code = 2
        file.close()
        os._exit(code if file.closed_because is None or code == 2 else 7)
    release.set()
    holder.join()
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    file.append(b"parent")
    file.close()
    assert b"parent\n" == content(path)


def test_a_living_child_does_not_hold_the_lock_of_a_dead_parent(path: str) -> None:
    """A fork shares the lock; the child releases its end, so that a restarted job can go on."""
    program = """if True:
        import os, sys, time
        from toyspec.core.writing.append_file import AppendFile
        file = AppendFile.create(sys.argv[1])
        file.append(b"one")
        child = os.fork()
        if child == 0:
            os.close(1); os.close(2)
            time.sleep(30)
            os._exit(0)
        print(child, flush=True)
        os._exit(0)
    """
    child = int(in_subprocess(program, path).stdout)
    try:
        file = AppendFile.reopen(path)
        file.append(b"two")
        file.close()
    finally:
        os.kill(child, signal.SIGKILL)
    assert b"one\ntwo\n" == content(path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell whether a file is locked")
def test_the_lock_ends_when_the_file_is_closed(path: str) -> None:
    """A child that has not executed its program yet has the same opening of the file; the lock ends all the same."""
    file = lines_file(path)
    assert is_locked(path)
    (own,) = [number for number in os.listdir("/proc/self/fd") if _is_at(number, path)]
    copied = os.dup(int(own))
    file.close()
    assert not is_locked(path)
    os.close(copied)


def _is_at(descriptor: str, path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}") == path
    return False


def test_a_file_size_limit_gives_a_short_write(path: str) -> None:
    """Where the system takes a part and then none, the part is removed and earlier lines stay."""
    program = """if True:
        import resource, sys
        from toyspec.core.writing.append_file import AppendFile
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        file = AppendFile.create(sys.argv[1])
        for number in range(4):
            try:
                file.append(b"%d" % number * 40)
                print(number)
            except OSError as error:
                print(error.strerror)
        file.append(b"fits")
    """
    done = in_subprocess(program, path)
    assert ["0", "1", "File too large", "File too large"] == done.stdout.splitlines()
    assert b"0" * 40 + b"\n" + b"1" * 40 + b"\nfits\n" == content(path)


def test_what_waits_for_a_turn_that_fails_is_done(path: str) -> None:
    """A record of a signal handler is in the file, and the caller of the turn gets the error of the turn."""

    def interrupted() -> None:
        file.append(b"of the handler")
        raise ValueError("of the turn")

    with contextlib.closing(lines_file(path)) as file:
        with pytest.raises(ValueError, match="of the turn"):
            file.in_turn(interrupted)
        assert b"of the handler\n" == content(path)
