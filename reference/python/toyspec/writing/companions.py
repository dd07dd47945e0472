"""What goes along with a run in a process of its own: it takes no time of the training, and outlives its death."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from toyspec.programs import PIPE, start_python, status_within
from toyspec.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Order = TypeVar("_Order")


class CompanionOrder(NamedTuple):
    """Which process goes along with a run, and what it is given."""

    module: str
    """The program, as ``python -m`` runs it."""
    line: bytes
    """What it reads first, without an LF; then its standard input stays open until the run ends."""
    wait_seconds: float
    """How long the end of the run waits for it; then it goes on by itself."""
    late: str
    """What is reported if it does."""


class Companion(Protocol):
    """Settings of what goes along with a run, for example of a mirror."""

    def order(self, stream: str, /) -> CompanionOrder:
        """Return what is started for the file *stream*, which may be empty still."""


def give_up(fact: str) -> None:
    """Report, in a companion that ends before its run, why: on standard error, and to the run."""
    say(fact)
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{' '.join(fact.split())}\n")
        sys.stdout.flush()


def order_of_training(type_: type[_Order]) -> _Order | None:
    """Return the order that a companion reads first, None where the training was gone before it had said it."""
    line = sys.stdin.buffer.readline()
    return msgspec.json.decode(line, type=type_) if line.endswith(b"\n") else None


def end_of_training() -> threading.Event:
    """Return, to a companion that has read its order, an event that is set when the run or its process has ended."""
    over = threading.Event()

    def wait() -> None:
        # Not through sys.stdin: its lock, held here while the companion ends first, makes the interpreter abort.
        while os.read(0, 1):
            continue
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    return over


def begin_all(
    companions: Iterable[Companion], stream: str, on_giving_up: Callable[[str], None]
) -> list[CompanionProcess]:
    """Start every one of *companions*; a failure of the system is reported on standard error.

    *on_giving_up* gets the reason of each that ends before the run does, in a thread of its own.
    """
    begun = []
    for companion in companions:
        try:
            begun.append(CompanionProcess(companion.order(stream), on_giving_up))
        except OSError as error:
            say(f"{stream}: {companion} could not be started ({cause_of(error)}); the program continues")
    return begun


class CompanionProcess:
    """A process that goes along with one run. Its standard input ends when the run does, or this process is gone."""

    def __init__(self, order: CompanionOrder, on_giving_up: Callable[[str], None]) -> None:
        """Start the process of *order*; raise OSError where that fails."""
        self._order, self._on_giving_up = order, on_giving_up
        self._is_over = False
        self._owner = os.getpid()
        # In a session of its own, Ctrl-C reaches the training alone, whose end the companion still sends.
        self._process = start_python("-m", order.module, stdin=PIPE, stdout=PIPE, start_new_session=True)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(order.line + b"\n")
            self._process.stdin.flush()
        threading.Thread(target=self._wait_for_reason, name="toyspec-companion", daemon=True).start()

    def _wait_for_reason(self) -> None:
        assert self._process.stdout is not None
        reason = ""
        with self._process.stdout as output:
            for line in output:  # until it ends
                reason = line.decode(errors="replace").strip()
        if not self._is_over:
            self._on_giving_up(reason or f"process {self._process.pid} ended before the run; {self._order.late}")

    def finish(self) -> None:
        """Say that nothing more is written, and wait for a bounded time; then the process goes on by itself."""
        if os.getpid() != self._owner or self._process.stdin is None:
            return
        self._is_over = True
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if status_within(self._process, self._order.wait_seconds) is None:
            say(f"{self._order.late}, by process {self._process.pid}")
            # Without a parent it is not a zombie, and must not be reported as a child that was left.
            self._process.returncode = 0
