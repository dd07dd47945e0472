"""Follows one run and sends its rows, each once: acknowledged ones are counted on disk, doubtful ones asked for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from toyspec.convert.destinations.destination import BATCH, Ending, RunHead, ServiceRefusedError, settle
from toyspec.convert.mirrors.settings import Selecting
from toyspec.convert.reports import DAMAGED, Ledger, RunConversion, lose_ranks, text_of
from toyspec.convert.run_items import Item, ItemRow, items_of, start_items
from toyspec.core.directories import directory_of
from toyspec.core.errors import ToyspecError
from toyspec.core.escaping import encodable
from toyspec.core.files import open_file
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.follower import TailEvent, follow
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, say, try_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.convert.destinations.destination import Lost
    from toyspec.convert.mirrors.settings import Mirror
    from toyspec.core.reading.records import Record

Outcome = Literal["ended", "sent", "replaced", "abandoned"]
"""What became of a run: its end was sent, all that is there was sent, another run took its place, or the service took
nothing more for as long as the patience lasted."""

DIRECTORY = ".mirrors"
_UNCOUNTED = "some rows arrived and the answer did not: they are not counted here"
_REPLACED = frozenset(["rotated", "truncated", "replaced"])


class MirrorBusyError(ToyspecError, BlockingIOError):
    """Another process sends the same run to the same place."""


class Abandoned(Exception):  # noqa: N818 - ends a mirror, and is not an error of its caller
    """The service takes nothing, and nothing more is waited for."""


class Rewound(Exception):  # noqa: N818 - likewise
    """The service has fewer rows than it has acknowledged."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When a mirror looks for records, and when it tries again; all in seconds."""

    poll: float = 1.0
    first_retry: float = 1.0
    longest_retry: float = 300.0
    clock: Callable[[], float] = time.monotonic


class MirrorProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of a state file: how far a mirror has come."""

    account: RunConversion
    """What became of the items that were selected, the run, and where it is."""
    rows: int = 0
    """Number after the last row that the service has acknowledged."""
    counted: int = 0
    """Number after the last row that is in the account: rows that the service has lost are counted once."""
    place: Any = None
    """Where the next row goes, as the destination understands it."""
    ended: bool = False
    """Whether the end of the run was acknowledged too."""
    select: Selecting = Selecting()
    """Which points are sent."""


class StateFile:
    """The state of one run and one destination; while it is open, no other process has it."""

    def __init__(self, path: str, progress: MirrorProgress) -> None:
        """Open the file at *path*, which gets *progress* where it is new; raise MirrorBusyError, or OSError."""
        self.path = path
        place, self._name = os.path.split(path)
        self._held = contextlib.ExitStack()
        above, folder = self._held.enter_context(directory_of(place))
        self._directory = self._held.enter_context(above.folder(folder))
        self._lock = self._directory.existing(f"{self._name}.lock", os.O_CREAT)
        try:
            try_lock(SYSTEM_CALLS, self._lock)
        except BlockingIOError:
            self.close()
            fact = f"another process mirrors this run to {progress.account.format}; wait until it has ended"
            raise MirrorBusyError(f"{path}: {fact}") from None
        self.progress = _read(path) or progress

    def save(self) -> None:
        """Write the progress: the file has the old content or the new one, whatever happens meanwhile."""
        self._directory.replace(self._name, [msgspec.json.encode(self.progress) + b"\n"])

    def close(self) -> None:
        """Let other processes have it."""
        self._held.close()
        with contextlib.suppress(OSError):
            os.close(self._lock)


class Patience:
    """When to try again, and when to give up: what the service takes beyond all that it ever had renews it."""

    def __init__(self, seconds: float, over: threading.Event, timing: Timing) -> None:
        """Give up an ended run, for which *over* is set, after *seconds* in which nothing more was taken."""
        self._seconds = seconds
        self._over = over
        self._timing = timing
        self._deadline: float | None = None
        self._farthest = 0

    def note(self, rows: int) -> None:
        """Take that the service has *rows*: a service that loses them each time takes the same ones once more."""
        if rows > self._farthest:
            self._farthest, self._deadline = rows, None

    def wait(self, failures: int) -> None:
        """Wait before the next attempt; raise Abandoned where the run is over and the patience too."""
        seconds = min(self._timing.first_retry * 2 ** min(failures, 20), self._timing.longest_retry)
        if not self._over.wait(seconds):
            return
        now = self._timing.clock()
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now >= self._deadline:
            raise Abandoned
        time.sleep(min(seconds, self._deadline - now))


class Delivery:
    """The rows of one run on their way to a destination, with how far they are on disk."""

    def __init__(self, run: RunHead, start: ItemRow, mirror: Mirror, state: StateFile, patience: Patience) -> None:
        """Send the rows of *run*, which begins with the row *start*."""
        self.run = run
        self._start = start
        self._destination = mirror.destination()
        self._state = state
        self._ledger = Ledger(max_examples=0, before=state.progress.account)
        self._to = state.progress.account.format
        self._patience = patience
        self._waiting: list[ItemRow] = []
        self._is_open = False
        self._in_doubt = 0

    def offer(self, row: ItemRow) -> None:
        """Take the next *row*, and send what waits once it is much."""
        if row.number >= self._state.progress.rows:
            self._waiting.append(row)
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Send all that waits, however long it takes; raise Abandoned, or Rewound."""
        while self._waiting:
            self._until_done(self._send)

    def finish(self, end: Ending) -> None:
        """Send what waits, and the end of the run."""
        self.flush()
        progress = self._state.progress
        if progress.ended:
            return
        self._until_done(lambda: self._destination.close(end))
        progress.ended = True
        self._state.save()

    def close(self) -> RunConversion:
        """Leave the destination and the state; return what became of the items that were sent."""
        self._leave()
        self._state.close()
        return self._state.progress.account

    def _send(self) -> None:
        batch = self._waiting[:BATCH]
        if not batch:
            # The service turned out to have them.
            return
        doubtful, self._in_doubt = self._in_doubt, BATCH
        missing = [*self._destination.missing(batch[:doubtful]), *batch[doubtful:]] if doubtful else batch
        lost = self._destination.put(missing)
        progress = self._state.progress
        progress.place = self._destination.place
        progress.rows = batch[-1].number + 1
        progress.ended = False
        self._count([row for row in batch if row.number >= progress.counted], lost)
        progress.counted = max(progress.counted, progress.rows)
        self._state.save()
        self._patience.note(progress.rows)
        self._in_doubt = 0
        del self._waiting[: len(batch)]

    def _count(self, rows: Sequence[ItemRow], lost: Sequence[Lost]) -> None:
        settle(self._ledger, rows, lost)
        self._state.progress.account.take(self._ledger)

    def _until_done(self, action: Callable[[], None]) -> None:
        failures = 0
        while True:
            try:
                if not self._is_open:
                    self._open()
                action()
            except (Abandoned, Rewound, ServiceRefusedError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever a service raises, it may pass
                if not failures:
                    what = f"{type(error).__name__}: {cause_of(error)}"
                    say(f"{self._to} failed ({what}); the mirror of run {self.run.run_id} tries again")
                if self._is_open:
                    self._leave()
                self._patience.wait(failures)
                failures += 1
            else:
                if failures:
                    say(f"{self._to} answers again; the mirror of run {self.run.run_id} goes on")
                return

    def _open(self) -> None:
        progress = self._state.progress
        received = self._destination.open(self.run, progress.place)
        self._is_open = True
        lost = self._destination.put([self._start])
        if not self._ledger.items:
            self._count([self._start], lost)
        # The last batch before may have arrived, in whole or in part.
        self._in_doubt = BATCH
        if received is None or received == progress.rows:
            return
        has_less = received < progress.rows
        if not has_less:
            self._ledger.note(_UNCOUNTED)
            progress.account.take(self._ledger)
        progress.rows = received
        self._state.save()
        if has_less:
            raise Rewound
        self._waiting = [row for row in self._waiting if row.number >= received]

    def _leave(self) -> None:
        self._is_open = False
        try:
            self._destination.close(None)
        except Exception as error:  # noqa: BLE001 - the run there is left unchanged
            say(f"{self._to}: {type(error).__name__}: {cause_of(error)}")


def mirror_run(  # noqa: PLR0913 - one call for all that a mirror may be asked
    path: str | os.PathLike[str],
    mirror: Mirror,
    *,
    until: Literal["end", "now"] = "now",
    over: threading.Event | None = None,
    report: Callable[[RunConversion], object] | None = None,
    timing: Timing | None = None,
) -> Outcome:
    """Send what is missing of the run at *path*, a run directory or a stream, and return what became of it.

    With *until* ``"end"``, follow the run until it has ended; once *over* is set nothing more is waited for.
    *report* gets at the end what became of the selected items since the run began, as an export reports it; None writes
    to standard error what is not carried. Raise ImportError where the package of the service is not installed,
    MirrorBusyError where another process sends this run there, ToyspecError for what is not a toy/v1 run, or has
    settings that exceed the budget.
    """
    over = over or threading.Event()
    if until == "now":
        over.set()
    timing = timing or Timing()
    patience = Patience(mirror.patience, over, timing)
    while True:
        reading = _Mirroring(os.fspath(path), mirror, over, timing, patience)
        try:
            outcome = reading.run()
        except Rewound:
            # The service has lost rows that it had acknowledged: they are made again from the start.
            continue
        except Abandoned:
            outcome = "abandoned"
        if reading.account is not None:
            (report or _say_losses)(reading.account)
        return outcome


def _say_losses(account: RunConversion) -> None:
    for line in text_of(account) if account.losses or account.notes else ():
        say(line)


class _Mirroring:
    """One reading of a run from its start."""

    def __init__(self, path: str, mirror: Mirror, over: threading.Event, timing: Timing, patience: Patience) -> None:
        self._path = path
        self._mirror = mirror
        self._over = over
        self._poll_seconds = timing.poll
        self._patience = patience
        self._attempts = Attempts()
        self._delivery: Delivery | None = None
        self._selection: Selection
        self._end: Ending | None = None
        """The end of the run, until it goes on."""
        self._is_caught_up = False
        self._unread = 0
        self._stream = ""
        self.account: RunConversion | None = None
        """What became of the items, once it is over; None where the stream has no record."""

    def run(self) -> Outcome:
        outcome: Outcome = "sent"
        try:
            with follow(
                self._path, poll_seconds=self._poll_seconds, stop=lambda: self._is_caught_up, sleep=self._between_polls
            ) as follower:
                for item in follower:
                    if not isinstance(item, TailEvent):
                        self._take(item)
                    elif item.kind == "gap":
                        self._unread += 1
                    elif item.kind in _REPLACED:
                        outcome = "replaced"
                        break
            if self._delivery is not None:
                self._delivery.flush()
                if self._end is not None and outcome != "replaced":
                    outcome = "ended"
                    self._delivery.finish(self._end)
        finally:
            if self._delivery is not None:
                self.account = self._with_unread(self._delivery.close())
        return outcome

    def _with_unread(self, account: RunConversion) -> RunConversion:
        """Return *account* with what this reading had no items of: damaged lines, and the logs of other ranks."""
        ledger = Ledger(max_examples=0, before=account)
        if self._unread:
            ledger.lose(DAMAGED, "", "", count=self._unread)
        lose_ranks(self._stream, ledger)
        account.take(ledger)
        return account

    def _take(self, record: Record) -> None:
        self._attempts.learn(record)
        self._end = Ending.after(record, self._end)
        if self._delivery is None:
            self._delivery = self._begun(record)
            if record.kind == "run_start":
                return
        was_spent = self._selection.is_spent
        row = self._selection.row(record, self._attempts)
        if row is not None:
            self._delivery.offer(row)
        if self._selection.is_spent and not was_spent:
            run_id = self._delivery.run.run_id
            say(f"{self._mirror.to}: the budget of run {run_id} is used up; no more of its points are sent")

    def _begun(self, record: Record) -> Delivery:
        """Return the delivery of the run that begins with *record*, whose state is opened."""
        if record.profile != "toy/v1":
            raise ToyspecError(
                f"{self._path}: not a toy/v1 run; only these are mirrored. `toyspec import` makes a toy/v1 run of it"
            )
        self._stream = stream = locate_stream(self._path)
        # Another run at the same path has another first line.
        identity = _digest(record.raw)
        value = record.value if record.kind == "run_start" else {}
        run = RunHead.of(stream, value, project=self._mirror.project, identity=identity)
        to, target = self._mirror.to, self._mirror.into or self._mirror.to
        account = RunConversion(format=to, source=encodable(stream), target=encodable(target), run_id=run.run_id)
        state = StateFile(_state_path(stream, self._mirror, identity), MirrorProgress(account=account))
        state.progress.select = self._mirror.select or state.progress.select
        self._selection = Selection(state.progress.select, run.config)
        if self._selection.is_spent:
            state.close()
            raise ToyspecError(f"the settings of run {run.run_id} alone exceed the budget")
        start = ItemRow(record, tuple(start_items(record, value)))
        return Delivery(run, start, self._mirror, state, self._patience)

    def _between_polls(self, seconds: float) -> None:
        """Send what waits; called when all that is in the stream was read."""
        is_over = self._over.is_set()
        if self._delivery is not None:
            self._delivery.flush()
        if is_over:
            self._is_caught_up = True
        else:
            self._over.wait(seconds)


def _state_path(stream: str, mirror: Mirror, identity: str) -> str:
    """Return the path of the state file of the run of this *identity* in the file *stream*."""
    bundle = os.path.dirname(os.path.abspath(stream))
    directory = os.path.join(os.path.dirname(bundle), DIRECTORY)
    is_default = mirror.into is None and mirror.project is None
    place = "" if is_default else f"-{_digest(f'{mirror.project} {mirror.into}'.encode())}"
    return os.path.join(directory, f"{os.path.basename(bundle)}-{identity}.{mirror.to}{place}.json")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _read(path: str) -> MirrorProgress | None:
    try:
        with open_file(path) as file:
            return msgspec.json.decode(file.read(), type=MirrorProgress)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ToyspecError(
            f"{path}: not a state file of a mirror ({error}); delete it to send the whole run again"
        ) from None


_POINTS: Final = frozenset(["measure", "text", "histogram"])
"""What has a name, and a budget."""
_BYTES_PER_MEGABYTE: Final = 1_000_000


class Selection:
    """The rows of one run, as its records come; the row of a record has its number, whatever is selected."""

    def __init__(self, select: Selecting, settings: Any = None) -> None:
        """Select from the run with these *settings*, which are sent too."""
        self._select = select
        self._numbers = count()
        self._bytes_left: float | None = None
        self.is_spent = False
        """Whether the budget is used up."""
        if select.megabytes is not None:
            self._bytes_left = select.megabytes * _BYTES_PER_MEGABYTE
            self._pay(_json_size(settings))

    def row(self, record: Record, attempts: Attempts) -> ItemRow | None:
        """Return what is sent of *record*, one after the first of a run with *attempts*; None without any item."""
        items = [item._replace(name=self._named(item)) for item in items_of(record, attempts)]
        wanted = [item for item in items if item.kind not in _POINTS or self._is_wanted(item)]
        points = [item for item in wanted if item.kind in _POINTS]
        if points and self._bytes_left is not None:
            self._pay(_json_size({item.name: item.value for item in points}))
        if self.is_spent:
            wanted = [item for item in wanted if item.kind not in _POINTS]
        number = next(self._numbers)
        return ItemRow(record, tuple(wanted), number) if wanted else None

    def _pay(self, size: float) -> None:
        assert self._bytes_left is not None
        self.is_spent = size > self._bytes_left
        self._bytes_left -= size

    def _named(self, item: Item) -> str:
        kind = str(item.record.get("kind"))
        prefix = self._select.prefixes.get(kind)
        if prefix is None or item.kind not in _POINTS:
            return item.name
        return prefix + (item.name.removeprefix(f"{item.record.get('name')}/") if kind == "eval" else item.name)

    def _is_wanted(self, item: Item) -> bool:
        every = self._select.every
        is_due = item.record.get("kind") != "step" or (every > 0 and (item.step is None or not item.step % every))
        return is_due and any(fnmatchcase(item.name, each) for each in self._select.metrics)


def _json_size(content: Any) -> int:
    return len(msgspec.json.encode(content, enc_hook=str))
