"""What goes along with a run: its settings, what it does from start to end, and how it runs in a process of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from toyspec.core.errors import ToyspecError, let_through
from toyspec.core.places.addresses import is_address, is_nearly_address, parts_of, public
from toyspec.core.programs import PIPE, start_python, status_within
from toyspec.core.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.generated.toy_v1 import Step
    from toyspec.core.writing.run_writer import RunWriter


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

    def started(self, run: RunWriter, /) -> Companionship:
        """Return what goes along with *run*, which has begun, or goes on after its end."""


class Companionship:
    """What goes along with one run. A subclass overrides what it has a use for.

    Whatever fails in it is reported, and does not reach the training.
    """

    should_stop = False
    """True while the training is asked to stop."""
    verdict: dict[str, Any] | None = None
    """Reason and error of a run that has stopped for it."""

    def record(self, line: bytes, kind: str, step: Step | None, /) -> None:
        """Take a record that is in the log now; *step* is the event if it is one."""

    def ending(self) -> None:
        """Write what is to be in the log before it ends."""

    def ended(self) -> None:
        """Take that nothing more is written."""


class Companions:
    """All that goes along with one run, as often as it begins."""

    def __init__(self, chosen: Iterable[Companion]) -> None:
        self._chosen = list(chosen)
        for each in self._chosen:
            if not callable(getattr(each, "started", None)):
                raise TypeError(f"companions has {each!r}; pass such as toyspec.System() or toyspec.Mirror(to='wandb')")
        self._going: list[Companionship] = []
        self._asked: set[str] = set()

    def start(self, run: RunWriter) -> bool:
        """Begin all of them; return whether any of them takes records."""
        self._going.clear()
        self._asked.clear()
        for each in self._chosen:
            try:
                self._going.append(each.started(run))
            except Exception as error:  # noqa: BLE001 - training goes on
                let_through(error)
                say(f"{run.events_path}: {each} could not be started ({cause_of(error)}); the program continues")
        return any(type(each).record is not Companionship.record for each in self._going)

    @property
    def should_stop(self) -> bool:
        """True while the training is asked to stop."""
        return any(each.should_stop for each in self._going)

    @property
    def verdict(self) -> dict[str, Any]:
        """Reason and error of a run that has stopped for one of them; else empty."""
        return next((each.verdict for each in self._going if each.verdict), {})

    def record(self, line: bytes, kind: str, step: Step | None) -> None:
        """Hand on a record that is in the log now."""
        self._tell("record", line, kind, step)

    def ending(self) -> None:
        """Say once that the run is about to end."""
        self._tell_once("ending")

    def ended(self) -> None:
        """Say once that the run has ended."""
        self._tell_once("ended")

    def _tell_once(self, hook: str) -> None:
        if hook not in self._asked:
            self._asked.add(hook)
            self._tell(hook)

    def _tell(self, hook: str, *facts: Any) -> None:
        for each in list(self._going):
            try:
                getattr(each, hook)(*facts)
            except Exception as error:  # noqa: BLE001 - training goes on
                let_through(error)
                self._going.remove(each)
                say(f"{type(each).__name__} fails ({cause_of(error)}) and is left out; the program continues")


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


class CompanionProcess(Companionship):
    """A process that goes along with one run. Its standard input ends when the run does, or this process is gone.

    If it ends before the run, the log gets its reason.
    """

    def __init__(self, order: CompanionOrder, run: RunWriter) -> None:
        """Start the process of *order*; raise OSError where that fails."""
        self._order, self._run = order, run
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
        # The run may end meanwhile; the companion has reported it on standard error, too.
        with contextlib.suppress(ToyspecError):
            if not self._is_over and self._run.active and self._run.has_started:
                fact = reason or f"process {self._process.pid} ended before the run; {self._order.late}"
                self._run.note(fact, topic="mirror")

    def ended(self) -> None:
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


class SyncOrder(msgspec.Struct, frozen=True):
    """What the process of a ``Sync`` is to do."""

    directory: str
    """The run."""
    sync: Sync


class Sync(msgspec.Struct, frozen=True):
    """A place that gets each run while it is written, and what may be waited for. See ``start_run``."""

    to: str
    """The place of the directory that the run is in, for example ``s3://bucket/runs``; or a directory."""
    every: float = 10.0
    """Seconds between two polls for new records."""
    wait: float = 30.0
    """Most seconds that the end of a run waits until the place has all of it; then a process goes on by itself."""
    patience: float = 300.0
    """Seconds for which an ended run is tried again while the place does not answer."""
    files: Literal["logs", "all"] = "logs"
    """Whether weights, artifacts and all other files of the run are sent too."""
    max_delay: float | None = None
    """Most seconds for which new lines wait where a stream is sent whole; None where only its bytes decide.

    Shorter ones cost more: see ``toyspec sync --help``.
    """

    def __post_init__(self) -> None:
        for name, least in (("every", 0.01), ("wait", 0.0), ("patience", 0.0), ("max_delay", 0.01)):
            value = getattr(self, name)
            if name == "max_delay" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
                raise ValueError(f"{name} is {value!r}; it must be a number of seconds ≥ {least:g}")
        if self.files not in ("logs", "all"):
            raise ValueError(f"files is {self.files!r}; it must be 'logs' or 'all'")
        if is_address(self.to) and "@" in parts_of(self.to).host:
            raise ValueError("credentials in an address are not used; give them in the environment")
        if is_nearly_address(self.to):
            raise ValueError(f"to is {self.to!r}; an address has two slashes, and ./ before it is a path")
        to = public(self.to) if is_address(self.to) else os.path.abspath(self.to)
        msgspec.structs.force_setattr(self, "to", to)

    def started(self, run: RunWriter) -> CompanionProcess:
        """Return the process that sends *run* while it is written."""
        return CompanionProcess(self.order(run.events_path), run)

    def order(self, stream: str | os.PathLike[str]) -> CompanionOrder:
        """Return the process that keeps the run of the file *stream* in step."""
        return CompanionOrder(
            "toyspec.stores.companion",
            msgspec.json.encode(SyncOrder(os.path.dirname(os.path.abspath(stream)), self)),
            wait_seconds=self.wait,
            late=f"{self.to}: the rest of the run is still being sent",
        )


def synced(sync: Sync | str) -> Sync:
    """Return *sync*, or the place that it names."""
    return Sync(sync) if isinstance(sync, str) else sync
