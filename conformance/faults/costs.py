"""What reading costs: ``conform costs`` counts the bytes that a follower reads, its descriptors, and seconds."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from conformance.adapters import Adapter, AdapterError
from conformance.escaping import printable
from conformance.faults.case import START, LeftOutError, MachineError
from conformance.faults.tracing import traced
from conformance.messages import ProtocolError
from conformance.probes.question import Stage, UntestableError, new_number
from conformance.runner import registered
from conformance.running import Channel

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

GOOD, BAD = 0, 1
_READS = "read,pread64,readv,preadv,preadv2"
_BYTES_READ = re.compile(r"(?:read|readv|pread64|preadv2?)(?:\(| resumed>).* = ([0-9]+)$")
_NOTE = b'{"kind":"note","t":1.0,"text":"%s"}\n'
_TEXT = b"x" * 20_000
_NOTES, _POLLS, _PIECES, _FILES = 200, 20, 40, 30
_MOST_OPEN = 3
"""Descriptors of a follower that has one file at a time, and perhaps opens the next one before it closes that."""
_STEPS, _TIMES = 4_000, 4
_MOST_TIMES, _LEAST_SECONDS = 10.0, 1.0
"""Four times as many records take four times as long, and sixteen times where each looks at all before it."""


class _Costs:
    """Asks one adapter, in a folder of its own; collects complaints."""

    def __init__(self, adapter: Adapter, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "events.jsonl")
        self._adapter = adapter

    def stage(self, channel: Channel) -> Stage:
        """Return where questions are asked, about the newest revision that the adapter names."""
        hello = self._adapter.hello
        revision = {"revision": hello["revisions"][-1]} if "revisions" in hello else {}
        return Stage(channel.ask, lambda: self.folder, hello, **revision)

    def needs(self, *roles: str) -> list[str]:
        """Return those of *roles* that the adapter has; raise LeftOutError without any."""
        found = [role for role in roles if role in self._adapter.hello["roles"]]
        if not found:
            raise LeftOutError(f"the adapter lacks the role {' or '.join(roles)}")
        return found

    def bytes_read(self, pieces: Iterator[bytes]) -> int:
        """Return how many bytes of the stream a follower reads that polls after each of *pieces* is appended."""
        log = os.path.join(self.folder, "calls")
        words = [*traced(_READS, self.path, log=log), *self._adapter.command]
        adapter = Adapter(words, directory=self._adapter.directory, deadline=self._adapter.deadline)
        adapter.hello = self._adapter.hello
        with closing(Channel(adapter)) as channel:
            follow = self._follower(self.stage(channel))
            for piece in pieces:
                with open(self.path, "ab") as file:
                    file.write(piece)
                follow()
        with open(log, encoding="utf-8", errors="replace") as file:
            found = sum(int(match[1]) for line in file if (match := _BYTES_READ.search(line.rstrip("\n"))))
        if found < os.path.getsize(self.path) // 2:
            raise MachineError(f"{found} bytes were read by calls that are seen here")
        return found

    def grown(self) -> Iterator[str]:
        """Yield what is wrong with the bytes that are read of a stream, and of a line, that grows."""
        self.needs("follower")
        whole = [START + _NOTE % _TEXT * _NOTES, *(_NOTE % b"a" for _ in range(_POLLS))]
        line = [START, *(_NOTE % (_TEXT * _NOTES))[:-1].partition(b"x")[:1]]
        line += [_TEXT * (_NOTES // _PIECES)] * _PIECES
        for what, pieces in (("stream", whole), ("line", [*line, b'"}\n'])):
            found = self.bytes_read(iter(pieces))
            size = os.path.getsize(self.path)
            if found > 2 * size:
                yield f"a {what} that grew to {size} bytes was polled {len(pieces)} times, and {found} bytes were read"
            os.remove(self.path)

    def descriptors(self) -> Iterator[str]:
        """Yield what is wrong with the files that a follower has open after others have taken their place."""
        self.needs("follower")
        if not os.path.isdir("/proc/self/fd"):
            raise MachineError("this system does not list descriptors in /proc")
        with closing(Channel(self._adapter)) as channel:
            follow = self._follower(self.stage(channel))
            for _ in range(_FILES):
                with open(f"{self.path}.next", "wb") as file:
                    file.write(START)
                os.replace(f"{self.path}.next", self.path)
                follow()
            found = self._open_files()
            if found > _MOST_OPEN:
                yield f"{_FILES} files followed one another at the path, and {found} descriptors are open"
            follow(stop=True)
            found = self._open_files()
            if found:
                yield f"{found} of its descriptors are open after the follower was stopped"

    def seconds(self) -> Iterator[str]:
        """Yield which roles take longer for each record, the more records there are."""
        step = b'{"kind":"step","t":%d.0,"step":%d,"loss":0.5}\n'
        with closing(Channel(self._adapter)) as channel:
            for role in self.needs("reader", "checker", "summarizer"):
                mode = {"mode": "salvage"} if role == "reader" else {}
                few, many = (
                    self._shortest(
                        channel,
                        {"role": role, "stream": START + b"".join(step % (n, n) for n in range(1, count)), **mode},
                    )
                    for count in (_STEPS, _STEPS * _TIMES)
                )
                if many > max(_LEAST_SECONDS, _MOST_TIMES * few):
                    yield f"{role}: {_STEPS} records took {few:.2f} seconds, and {_TIMES} times as many {many:.2f}"

    def _shortest(self, channel: Channel, request: dict[str, Any]) -> float:
        found = []
        for _ in range(3):
            start = time.monotonic()
            self.stage(channel).answer(request)
            found.append(time.monotonic() - start)
        return min(found)

    def _follower(self, stage: Stage) -> Callable[..., Any]:
        request = {"role": "follower", "follower": new_number()}
        return lambda **members: stage.answer({**request, **(members or {"path": self.path})})

    def _open_files(self) -> int:
        """Return how many descriptors of other processes are of files in the folder."""
        count = 0
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                links = [os.readlink(f"/proc/{process}/fd/{number}") for number in os.listdir(f"/proc/{process}/fd")]
            except OSError:
                continue  # it ended, or belongs to another user
            count += sum(link.startswith(f"{self.folder}{os.sep}") for link in links)
        return count


_COSTS: dict[str, Callable[[_Costs], Iterator[str]]] = {
    "bytes read of what grows": _Costs.grown,
    "descriptors after files were replaced": _Costs.descriptors,
    "seconds for four times as many records": _Costs.seconds,
}


def run(options: Namespace) -> int:
    """Count what each adapter costs and print it; return 0 if every one is ok."""
    is_good, asked = True, 0
    for name, adapter in _adapters(options):
        if not isinstance(adapter, Adapter):
            sys.stdout.write(f"{name}: {adapter}\n")
            is_good = is_good and not adapter.is_failure
            continue
        asked += 1
        for title, cost in _COSTS.items():
            found = list(_met(adapter, cost))
            is_good = is_good and all(line.startswith("left out") for line in found)
            sys.stdout.write(f"{printable(name)}: {title}: {printable('; '.join(found) or 'ok')}\n")
    return GOOD if is_good and asked else BAD


def _adapters(options: Namespace) -> Iterator[tuple[str, Any]]:
    if not options.adapter:
        yield from ((implementation.name, adapter) for implementation, adapter in registered(options.only, options))
        return
    adapter = Adapter(options.adapter, deadline=options.deadline, mode=options.mode)
    yield str(adapter.ask_hello()["name"]), adapter


def _met(adapter: Adapter, cost: Callable[[_Costs], Iterator[str]]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="costs-") as folder:
        try:
            yield from cost(_Costs(adapter, os.path.realpath(folder)))
        except (LeftOutError, UntestableError) as error:
            yield f"left out: {error}"
        except (AdapterError, ProtocolError) as error:
            yield str(error)
