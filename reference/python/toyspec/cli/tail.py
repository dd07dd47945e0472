"""``toyspec tail``: follow runs while they are written."""

from __future__ import annotations

import os
import sys
import threading
from argparse import ArgumentTypeError
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from toyspec.cli import exit_codes
from toyspec.cli.columns import cut, cut_apart, padded, some_of, width
from toyspec.cli.dialect_options import add_dialect, add_profile, dialect_choice, settings
from toyspec.cli.figures import figure
from toyspec.cli.formats.objects import inert
from toyspec.cli.health_options import add_health, alert_line, chosen_rules
from toyspec.cli.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.cli.paths import shown
from toyspec.cli.run_arguments import NamedRun, runs_at
from toyspec.cli.terminal import Terminal, columns, tell
from toyspec.errors import StreamError
from toyspec.escaping import shortened
from toyspec.format.profiles import EVENTS_FILE, tag_of
from toyspec.format.run_files import rank_file, ranks_beside, run_of
from toyspec.places.addresses import is_address, path_in, public
from toyspec.reading.records import Record
from toyspec.reading.rows import Row
from toyspec.runs.rows import distinct_names
from toyspec.runs.run_facts import flat
from toyspec.system_calls import cause_of, is_locked

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Container, Iterator, Sequence

    from toyspec.health.checking import RecordHealth
    from toyspec.reading.follower import Follower, TailEvent
    from toyspec.reading.log_detection import DialectChoice

    _Item = Record | TailEvent | str
    """A text is a line about an incident."""

_DEFAULT_LINES = 10
_NAME_COLUMNS = 20
_MAX_HELD_NOTES = 100
# Notes on the unreadable lines of one place: the others are counted.
_MOST_NOTES = 3
# Each has a thread and an open file.
_MOST_RUNS = 200
_RANK_DIGITS = 9
_MOST_NAMED_RANKS = 8
_MEANING = {
    "rotated": "the file was moved away; the events of the new one follow",
    "replaced": "the stream was replaced; the events of the new one follow",
    "truncated": "the stream was truncated; new events follow",
    "gone": "the stream was deleted; waiting for a new one",
}
_DESCRIPTION = (
    "Follow runs while they are written: one readable line for each event, as soon\n"
    "as it is committed; of several runs, each line begins with the name of its run.\n"
    "A directory with runs stands for those that it has at the start.\n"
    "Where each process of a run logs, all ranks are followed, as torchrun shows the\n"
    "output of all; each line begins with its rank. --rank 0 shows the first alone.\n"
    "Ends when all runs have ended. Unreadable lines, and a stream that is truncated\n"
    "or replaced, are reported on standard error; tail goes on. Of a long stream only\n"
    "the end is read, unless --all asks for all of it."
)
_EXAMPLES = (
    "examples:\n"
    "  toyspec tail runs/llama-001\n"
    "  toyspec tail runs/\n"
    "  toyspec tail --once -n 1 runs/llama-001\n"
    "  toyspec tail --rank 2 runs/llama-001\n"
    "  toyspec tail --raw -n 0 runs/llama-001 | jq .loss"
)
# The members that name what an event is about.
_SUBJECTS = ("run_id", "name", "region", "param", "baseline_run_id")
# Members that the beginning of a line shows already, or that are the same in every record.
_SAID = frozenset(["kind", "type", "schema", "t", "step", "phase", "wall_time", "wall_time_ms", "minimize"])
_SCALAR = frozenset(["tag", "value"])
_STEPS = frozenset(["step", "_step", "global_step", "iteration", "iter"])
# Members that `toyspec show` shows better.
_LEFT_OUT = ("host.", "backend.", "git.")
_NAME_CHARS = 40
_TIME_COLUMNS = 12


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec tail [OPTION…] RUN…"
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=public,
        help="runs, which need not exist yet, or directories with runs, also s3://…",
    )
    parser.add_argument(
        "-n",
        "--lines",
        metavar="N",
        type=number_from(0),
        default=_DEFAULT_LINES,
        help=f"begin with the last N events; default: {_DEFAULT_LINES}",
    )
    parser.add_argument("--all", action="store_true", help="begin with the first event of the stream")
    parser.add_argument("--once", action="store_true", help="print the events there are and exit")
    parser.add_argument(
        "--rank",
        metavar="RANK",
        type=_rank,
        help="follow this rank of each run alone, or all; default: all, and 0 with --raw",
    )
    parser.add_argument(
        "--raw", action="store_true", help="forward the lines byte for byte; a terminal gets the same JSON in ASCII"
    )
    parser.add_argument(
        "--idle-timeout", metavar="SECONDS", type=seconds, help="end after this long without an event; default: never"
    )
    add_health(parser, "print each incident after its event, as far as the events that are read tell")
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print events as they come and return an exit code."""
    from toyspec.reading.stream_files import is_compressed, may_be_there

    _validate(options)
    configuration = settings()
    choice = dialect_choice(options, configuration)
    rules = chosen_rules(options, configuration)
    if rules is not None and options.raw:
        raise UsageError("--raw forwards the lines of the log alone; leave out --health")
    options.rules = rules
    try:
        runs = _followed(options, choice)
    except StreamError as error:
        tell("tail", str(error))
        return exit_codes.USAGE
    for each in runs:
        if each.stream is None or not may_be_there(each.stream):
            if options.once:
                raise UsageError(f"{each.place}: no stream here; leave out --once to wait for it")
            tell("tail", f"waiting for {each.place}")
        elif is_compressed(each.stream):
            raise UsageError(f"{each.place}: gzip data cannot be followed; read it with `toyspec show`")
    stopped = threading.Event()
    ranks = {each.name: {other.rank for other in runs if other.name == each.name} for each in runs}
    firsts = {each.name: threading.Event() for each in runs if each.rank == 0}
    follow = [
        partial(_follow_rank, each, options, shown, _Ends(stopped, firsts.get(each.name), ranks[each.name]))
        for each, shown in _each_shown(runs, options)
    ]
    if len(follow) == 1 or options.once:
        return max(each(choice) for each in follow)
    return _follow_all([partial(each, choice) for each in follow], stopped)


def _rank(text: str) -> int | None:
    """Return the rank in *text*, None for all; raise ArgumentTypeError."""
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _RANK_DIGITS:
        raise ArgumentTypeError(f"{text!r} must be an integer ≥ 0, or all")
    return int(text)


class _Followed(NamedTuple):
    """A stream that is followed, or the path where one may appear."""

    name: str
    """The path by which its run was named, or found."""
    stream: str | None
    """The path of the stream; None without one."""
    place: str
    """The stream, or the path where it may appear."""
    rank: int | None = None
    """Which rank of its run it is, where each of several is followed."""


class _Ends(NamedTuple):
    """When to stop."""

    stopped: threading.Event
    """Set where another run could not be followed any more, or the user has ended all."""
    first: threading.Event | None
    """Set once rank 0 of the run has ended, where the others are followed too."""
    known: Container[int | None]
    """The ranks of the run that are followed."""


class _LeftError(Exception):
    """The run has ended, and no writer holds the log of this rank of it."""


class _Pause:
    """What happens whenever all that a stream has was read."""

    def __init__(self, each: _Followed, shown: _Shown, ends: _Ends, known: Container[int | None] | None) -> None:
        """Report ranks that are not *known* and appear beside the stream; none where it is None."""
        self._each, self._shown, self._ends = each, shown, ends
        self._known = known
        self._looked_at = 0
        self._may_end = False

    def __call__(self, seconds: float) -> None:
        """Print what is kept, and wait for *seconds*; raise where nothing more is to come."""
        self._shown.catch_up()
        first = self._ends.first
        if self._each.rank and first is not None and first.is_set():
            # What was written before the lock was given up is read by the poll between.
            if self._may_end:
                raise _LeftError
            self._may_end = not is_locked(self._each.place)
        if self._known is not None:
            self._report_ranks(self._known)
        if self._ends.stopped.wait(seconds):
            raise _StoppedError

    def _report_ranks(self, known: Container[int | None]) -> None:
        """Report once which other ranks have begun to log."""
        place = self._each.place
        stream = place if place.endswith(EVENTS_FILE) else os.path.join(place, EVENTS_FILE)
        try:
            looked_at = os.stat(os.path.dirname(stream)).st_mtime_ns
        except OSError:
            return
        if looked_at == self._looked_at:
            return
        self._looked_at = looked_at
        new = [str(rank) for rank in ranks_beside(stream) if rank not in known]
        if new:
            self._known = None
            ranks = some_of(new, _MOST_NAMED_RANKS)
            tell("tail", f"{self._each.name}: rank {ranks} logs too; start tail again to follow all ranks")


def _follow(each: _Followed, options: Namespace, shown: _Shown, pause: _Pause, choice: DialectChoice) -> int:
    """Follow one stream to its end, or until it has no more to come, and return an exit code."""
    from toyspec.reading.follower import follow_last

    idle = 0.0 if options.once else options.idle_timeout
    try:
        last = None if options.all else options.lines
        with follow_last(each.place, last, idle_seconds=idle, sleep=pause, dialect=choice) as follower:
            _show_all(follower, options, shown)
        shown.catch_up()
    except _LeftError:
        return exit_codes.OK
    except StreamError as error:
        tell("tail", str(error))
        return exit_codes.USAGE
    if isinstance(follower.trouble, OSError):
        tell("tail", f"{each.place}: {cause_of(follower.trouble)}")
        return exit_codes.USAGE
    return exit_codes.OK


def _show_all(follower: Follower, options: Namespace, shown: _Shown) -> None:
    """Show what *follower* yields, and the incidents in it."""
    health = _health(options)
    is_said = False
    for item in follower:
        if follower.dialect is not None and not is_said:
            is_said = True
            tell("tail", follower.dialect.sentence)
        shown.take(item)
        if health is not None and isinstance(item, Record):
            for alert in health.take(item):
                if item.kind != "alert":
                    shown.take(alert_line(alert, Terminal(color=options.color)))


def _follow_rank(each: _Followed, options: Namespace, shown: _Shown, ends: _Ends, choice: DialectChoice) -> int:
    """Do what ``_follow`` does; where *each* is rank 0, its end is that of the run."""
    is_first = each.rank in (0, None)
    reports = is_first and options.rank is None and not (options.once or options.raw) and not is_address(each.place)
    try:
        return _follow(each, options, shown, _Pause(each, shown, ends, ends.known if reports else None), choice)
    finally:
        if is_first and ends.first is not None:
            ends.first.set()


def _health(options: Namespace) -> RecordHealth | None:
    """Return what compares the records of one run with the rules that the options ask for."""
    if options.rules is None:
        return None
    # Imported here: start-up time counts.
    from toyspec.health.checking import RecordHealth

    return RecordHealth(options.rules)


class _StoppedError(Exception):
    """Another run could not be followed any more, or the user has ended all."""


def _follow_all(each: Sequence[Callable[[], int]], stopped: threading.Event) -> int:
    """Follow several runs at once; return the highest of their exit codes, or raise the first exception."""
    done: SimpleQueue[int | BaseException] = SimpleQueue()

    def follow(one: Callable[[], int]) -> None:
        try:
            done.put(one())
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            done.put(error)

    threads = [threading.Thread(target=follow, args=(one,), daemon=True) for one in each]
    codes = []
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            codes.append(outcome)
    finally:
        # A thread that prints while the interpreter ends would abort it.
        stopped.set()
        for thread in threads:
            thread.join()
    return max(codes)


def _validate(options: Namespace) -> None:
    if "-" in options.runs:
        raise UsageError("standard input cannot be followed; name a file, or use `toyspec check --follow -`")
    if options.once and options.idle_timeout is not None:
        raise UsageError("--once does not wait; leave out --idle-timeout")


def _followed(options: Namespace, choice: DialectChoice) -> list[_Followed]:
    """Return each stream to follow once; raise StreamError, and UsageError where they are too many."""
    runs = list(dict.fromkeys(runs_at(options.runs, choice)))
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"{len(runs)} runs; name {_MOST_RUNS} at most, or look at them with `toyspec watch`")
    found = [each for run in runs for each in _ranks(run, options)]
    if len(found) > _MOST_RUNS:
        raise UsageError(f"{len(found)} logs of ranks; name fewer runs, or leave out all ranks but one with --rank 0")
    return found


def _ranks(run: NamedRun, options: Namespace) -> Iterator[_Followed]:
    """Yield the streams of the ranks of *run* that the options ask for."""
    from toyspec.runs.rank_states import latest_ranks

    own = _Followed(run.path, run.stream, run.place)
    if options.rank is not None and options.rank > 0:
        directory, name = os.path.split(run.place) if run.stream is not None else (run.path, EVENTS_FILE)
        if name != EVENTS_FILE:
            raise UsageError(f"{run.path}: not the {EVENTS_FILE} of a run, which alone has other ranks")
        stream = path_in(directory, rank_file(options.rank))
        yield own._replace(stream=stream, place=stream)
        return
    others = {} if run.stream is None else latest_ranks(run.stream)
    if others and options.rank is None and options.raw:
        # No line of JSON names its rank.
        further = "1 further rank logs" if len(others) == 1 else f"{len(others)} further ranks log"
        tell("tail", f"{run.path}: {further}; --rank {min(others)} forwards the lines of one")
    if not others or options.rank == 0 or options.raw:
        yield own
        return
    yield own._replace(rank=0)
    for rank, stream in others.items():
        yield own._replace(stream=stream, place=stream, rank=rank)


def _each_shown(runs: Sequence[_Followed], options: Namespace) -> Iterator[tuple[_Followed, _Shown]]:
    """Yield each stream, with what prints it: with a short name before each line if there are several."""
    terminal = Terminal(color=options.color)
    if len(runs) == 1:
        yield runs[0], _Shown(options, terminal)
        return
    names = _names(runs)
    room = max(map(width, names))
    lock = threading.Lock()
    for index, (each, name) in enumerate(zip(runs, names, strict=True)):
        prefix = terminal.curve(padded(name, room), index) + "  "
        yield each, _Shown(options, terminal, prefix=(prefix, room + 2), lock=lock)


def _names(runs: Sequence[_Followed]) -> list[str]:
    """Return a short name of each of *runs*: that of the run where there are several, and the rank."""
    paths = list(dict.fromkeys(each.name for each in runs))
    places = [run_of(path.rstrip("/")) or path for path in paths]
    names = distinct_names([place.rpartition("/")[2] for place in places], places)
    names = cut_apart([shown(name) for name in names], _NAME_COLUMNS)
    short = dict(zip(paths, names if len(names) > 1 else [""], strict=True))
    ranks = ["" if each.rank is None else f"rank {each.rank}" for each in runs]
    return [" ".join(filter(None, [short[each.name], rank])) for each, rank in zip(runs, ranks, strict=True)]


class _Shown:
    """Prints the last records of the stream, then each new one."""

    def __init__(
        self,
        options: Namespace,
        terminal: Terminal,
        *,
        prefix: tuple[str, int] = ("", 0),
        lock: threading.Lock | None = None,
    ) -> None:
        """Print on *terminal*, *prefix* before each line, which has a number of columns; *lock* guards the output."""
        self._terminal = terminal
        self._prefix, taken = prefix
        self._lock = lock or threading.Lock()
        self._form = "raw" if options.raw else "line"
        self._limit = columns() - taken if terminal.interactive else None
        # Until the end of the stream is reached, only the last records are kept, and the notes between them.
        self._lines = options.lines
        self._held: deque[_Item] | None = None if options.all else deque()
        self._records = 0
        self._gaps = 0

    def take(self, item: _Item) -> None:
        """Keep or print *item*."""
        if self._held is not None:
            self._keep(item, self._held)
            return
        with self._lock:
            self._print(item)
            sys.stdout.flush()

    def _keep(self, item: _Item, held: deque[_Item]) -> None:
        held.append(item)
        self._records += isinstance(item, Record)
        while self._records > self._lines or len(held) > self._lines + _MAX_HELD_NOTES:
            self._records -= isinstance(held.popleft(), Record)

    def catch_up(self) -> None:
        """Print what is kept, at each end of the stream; later items are printed at once."""
        held, self._held = self._held, None
        with self._lock:
            for item in held or ():
                self._print(item)
            self._say_rest()
            sys.stdout.flush()

    def _say_rest(self) -> None:
        """Say how many more lines were skipped than there are notes on them."""
        if self._gaps > _MOST_NOTES:
            sys.stdout.flush()
            more = self._gaps - _MOST_NOTES
            tell("tail", f"{more} more line{'s were' if more > 1 else ' was'} skipped; see `toyspec check`")
        self._gaps = 0

    def _print(self, item: _Item) -> None:
        if isinstance(item, str):
            self._say_rest()
            self._terminal.line(self._prefix + item)
            return
        if not isinstance(item, Record) and item.kind == "gap":
            self._gaps += 1
            if self._gaps <= _MOST_NOTES:
                _note(item)
            return
        self._say_rest()
        if not isinstance(item, Record):
            _note(item)
        elif self._form == "line":
            self._terminal.line(self._prefix + event_line(item, self._terminal, self._limit))
        elif self._terminal.interactive or not hasattr(sys.stdout, "buffer"):
            sys.stdout.write(f"{inert(item.raw.decode())}\n")
        else:
            sys.stdout.buffer.write(item.raw + b"\n")


def _note(event: TailEvent) -> None:
    sys.stdout.flush()
    if event.kind == "gap":
        tell("tail", f"{event.path}:{event.line}: {event.reason}  {event.message}; the line was skipped")
    elif event.kind != "ended":
        tell("tail", f"{event.path}: {_MEANING[event.kind]}")


def event_line(record: Record, terminal: Terminal, limit: int | None) -> str:
    """Return *record* as one line: time, what it is about, then its members; cut to *limit* columns."""
    time = _time(record).rjust(_TIME_COLUMNS)
    text = "  ".join([time, *_head(record), *_members(record)])
    if limit:
        text = cut(text, limit)
    return terminal.styled(text[: len(time)], "dim") + text[len(time) :]


def _head(record: Record) -> Iterator[str]:
    """Yield what the event is about: its kind and subject, or its step or tag where these are enough."""
    if isinstance(record, Row):
        step = "" if record.step is None else f"step {figure(record.step)}"
        yield from filter(None, [step, record.phase and figure(record.phase)])
        return
    value = record.value
    step = f"step {figure(value['step'])}" if "step" in value else ""
    if _is_scalar(record):
        yield step
        yield f"{figure(value.get('tag'))} {figure(value.get('value'))}"
        return
    if _is_step(record):
        yield step or "step"
    else:
        yield figure(record.kind)
        yield from (figure(value[key]) for key in _SUBJECTS if key in value)
        if step:
            yield step
    if record.kind == "step" and value.get("phase") not in (None, "train"):
        yield figure(value["phase"])


def _members(record: Record) -> Iterator[str]:
    if isinstance(record, Row):
        # A row without metrics says something else; its step was shown.
        others = (each for each in flat(record.value) if each[0] not in _STEPS or each[1] != record.step)
        members = record.values.items() or others
        yield from (f"{shortened(name, _NAME_CHARS)} {figure(member)}" for name, member in members)
        return
    said = _SAID | (_SCALAR if _is_scalar(record) else frozenset() if _is_step(record) else frozenset(_SUBJECTS))
    for name, member in flat(record.value):
        if name not in said and name != tag_of(record.profile) and not name.startswith(_LEFT_OUT):
            yield f"{shortened(name.removeprefix('extra.'), _NAME_CHARS)} {figure(member)}"


def _is_scalar(record: Record) -> bool:
    return record.profile == "kaun/v1" and record.kind == "scalar"


def _is_step(record: Record) -> bool:
    return record.profile == "metrics/v1" or record.kind == "step"


def _time(record: Record) -> str:
    """Return the time since the start of the run; where the record has only the time of day, that."""
    if record.time_origin == "unix":
        return _clock(record.time)
    return "" if record.time is None else f"{record.time:.1f} s"


def _clock(seconds: float | None) -> str:
    from time import gmtime, strftime

    if seconds is None or not 0 <= seconds < 1e11:
        return ""
    return strftime("%H:%M:%SZ", gmtime(seconds))
