"""Faults: what is at the path of the stream is not a regular file."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING

from conformance.faults.case import START, LeftOutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.faults.case import Case


def _refused(case: Case, make: Callable[[str], object]) -> None:
    """Every start is refused at once with a message that names the path, and what is there stays."""
    os.makedirs(case.directory)
    make(case.stream)
    before = sorted(os.listdir(case.directory)), stat.S_IFMT(os.lstat(case.stream).st_mode)
    case.run()
    for exist, command in (("replace", "start"), ("resume", "resume 1"), ("fail", "start")):
        opened = case.say(f"open {exist} {case.directory}")
        case.demand(not opened.is_ok or not case.say(command).is_ok, f"{exist} writes to it")
        case.say("close")
    # A writer of toy/v1 alone has shown all that it can.
    with contextlib.suppress(LeftOutError):
        opened = case.say(f"append {case.stream}")
        case.demand(not opened.is_ok or not case.say("entry 1").is_ok, "append writes to it")
    case.demand(all(case.directory in text for text in case.failures), f"no path in a message: {case.failures!r:.120}")
    case.stop()
    after = sorted(os.listdir(case.directory)), stat.S_IFMT(os.lstat(case.stream).st_mode)
    case.demand(after == before, f"files changed: {after[0]}")


def directory(case: Case) -> None:
    """A directory is at the path."""
    _refused(case, os.mkdir)


def fifo(case: Case) -> None:
    """A FIFO is at the path."""
    _refused(case, os.mkfifo)


def fifo_with_reader(case: Case) -> None:
    """A FIFO that another program reads is at the path: that program gets nothing."""
    readers: list[int] = []

    def make(path: str) -> None:
        os.mkfifo(path)
        readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))

    try:
        _refused(case, make)
        case.demand(os.read(readers[0], 1) == b"", "a record went into the FIFO")
    finally:
        for reader in readers:
            os.close(reader)


def null_link(case: Case) -> None:
    """A link to /dev/null is at the path."""
    _refused(case, lambda path: os.symlink("/dev/null", path))


def socket_file(case: Case) -> None:
    """A socket is at the path."""
    with socket.socket(socket.AF_UNIX) as listener:
        # The path of a socket may have 107 bytes only.
        short = os.path.join(case.folder, "s")
        listener.bind(short)
        _refused(case, lambda path: os.rename(short, path))


def file_above(case: Case) -> None:
    """A file is where a directory above the stream has to be."""
    above = os.path.join(case.folder, "file")
    case.make(START, above)
    case.directory = os.path.join(above, "demo")
    case.run()
    opened = case.say(f"open replace {case.directory}")
    if opened.is_ok:
        case.refused("start")
    case.demand(all(above in text for text in case.failures), f"no path in a message: {case.failures!r:.120}")
    case.stop()
