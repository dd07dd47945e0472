"""``toyspec tail``: follow runs while they are written."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import ArgumentTypeError
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core import rooms
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import NamedRun, add_dialect, add_profile, dialect_choice, runs_at, settings
from toyspec.core.command_line.figures import figure, shown
from toyspec.core.command_line.objects import inert
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.core.command_line.tables import cut, cut_apart, padded, some_of, width
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import shortened
from toyspec.core.format.profiles import EVENTS_FILE, tag_of
from toyspec.core.places.addresses import is_address, path_in, public
from toyspec.core.reading.records import Record, Row
from toyspec.core.reading.run_files import rank_file, ranks_beside, run_of
from toyspec.core.runs.rows import distinct_names
from toyspec.core.runs.run_facts import flat
from toyspec.core.system_calls import cause_of, is_locked

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Container, Iterator, Sequence

    from toyspec.core.reading.follower import TailEvent
    from toyspec.core.reading.log_detection import DialectChoice

    _Item = Record | TailEvent | str

    """A text is a line about an incident."""


_DEFAULT_LINES = 10
_NAME_COLUMNS = 20
_MAX_HELD_NOTES = 100
# Notes on the unreadable lines of one place: the others are counted.
_MOST_NOTES = 3
# Each has an open file.
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
    rooms.health_options.add_health(
        parser, "print each incident after its event, as far as the events that are read tell"
    )
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print events as they come and return an exit code."""
    from toyspec.core.reading.stream_files import is_compressed, may_be_there

    _validate(options)
    configuration = settings()
    choice = dialect_choice(options, configuration)
    rules = rooms.health_options.chosen_rules(options, configuration)
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
    terminal = Terminal(color=options.color)
    named = zip(runs, _prefixes(runs, terminal), strict=True)
    tails = [_Tail(each, options, choice, terminal, prefix) for each, prefix in named]
    # The lines that are there are shown run by run.
    for together in [[each] for each in tails] if options.once else [tails]:
        _follow(together)
    return max(each.code for each in tails)


def _follow(tails: Sequence[_Tail]) -> None:
    """Print what comes in any of *tails* until nothing more is to come in all."""
    left = list(tails)
    with contextlib.ExitStack() as stack:
        for each in left:
            stack.callback(each.close)
        while left:
            for each in left:
                each.poll()
            ended = {each.run for each in left if each.is_over and not each.rank}
            for each in left:
                each.has_first_ended |= each.run in ended
            left = [each for each in left if not each.is_over]
            if left:
                time.sleep(min(each.pause for each in left))


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
    ranks: Collection[int] = (0,)
    """The ranks of its run that are followed."""


class _Tail:
    """One stream that is followed: the last records of it are printed, then each new one."""

    def __init__(
        self,
        followed: _Followed,
        options: Namespace,
        choice: DialectChoice,
        terminal: Terminal,
        prefix: tuple[str, int],
    ) -> None:
        """Print on *terminal*, *prefix* before each line, which has a number of columns."""
        # Imported here: start-up time counts.
        from toyspec.core.reading.follower import checked_poll_seconds, follow_last

        self._place = followed.place
        self.run, self.rank = followed.name, followed.rank
        self.is_over = False
        self.code = exit_codes.OK
        self.has_first_ended = False
        """True once rank 0 of the run has ended, where the others are followed too."""
        self.pause = checked_poll_seconds(followed.place, None)
        """Seconds between two polls."""
        self._due = 0.0
        self._lines = None if options.all else options.lines
        idle = 0.0 if options.once else options.idle_timeout
        self._follower = follow_last(followed.place, self._lines, idle_seconds=idle, dialect=choice)
        self._health = None if options.rules is None else rooms.health_checking.RecordHealth(options.rules)
        self._is_said = False
        is_alone = options.rank is None and not (options.once or options.raw) and not is_address(followed.place)
        self._new_ranks = _NewRanks(followed) if not self.rank and is_alone else None
        self._terminal = terminal
        self._prefix, taken = prefix
        self._is_raw = options.raw
        self._limit = columns() - taken if terminal.interactive else None
        # Until the end of the stream is reached, only the last records are kept, and the notes between them.
        self._held: deque[_Item] | None = None if options.all else deque()
        self._records = 0
        self._gaps = 0

    def poll(self) -> None:
        """Print what has come; nothing before the next poll is due."""
        if time.monotonic() < self._due:
            return
        # What was written before the lock was given up is read by this poll.
        is_left = self.has_first_ended and not is_locked(self._place)
        try:
            for item in self._follower.new():
                self._take(item)
        except StreamError as error:
            tell("tail", str(error))
            self.code, self.is_over = exit_codes.USAGE, True
            return
        # Later items are printed at once.
        held, self._held = self._held, None
        for each in held or ():
            self._print(each)
        self._say_rest()
        sys.stdout.flush()
        self._due = time.monotonic() + self.pause
        self.is_over = self._follower.is_over or is_left
        if self.is_over and isinstance(self._follower.trouble, OSError):
            tell("tail", f"{self._place}: {cause_of(self._follower.trouble)}")
            self.code = exit_codes.USAGE
        if self._new_ranks is not None:
            self._new_ranks.report()

    def close(self) -> None:
        """Close the stream."""
        self._follower.close()

    def _take(self, item: Record | TailEvent) -> None:
        """Take in *item*, and the incidents in it."""
        dialect = self._follower.dialect
        if dialect is not None and not self._is_said:
            self._is_said = True
            tell("tail", dialect.sentence)
        self._keep(item)
        if self._health is not None and isinstance(item, Record):
            for alert in self._health.take(item):
                if item.kind != "alert":
                    self._keep(rooms.health_options.alert_line(alert, self._terminal))

    def _keep(self, item: _Item) -> None:
        """Keep or print *item*."""
        if self._held is None or self._lines is None:
            self._print(item)
            sys.stdout.flush()
            return
        self._held.append(item)
        self._records += isinstance(item, Record)
        while self._records > self._lines or len(self._held) > self._lines + _MAX_HELD_NOTES:
            self._records -= isinstance(self._held.popleft(), Record)

    def _say_rest(self) -> None:
        """Say how many more lines were skipped than there are notes on them."""
        if self._gaps > _MOST_NOTES:
            sys.stdout.flush()
            more = self._gaps - _MOST_NOTES
            tell("tail", f"{more} more line{'s were' if more > 1 else ' was'} skipped; see `toyspec check`")
        self._gaps = 0

    def _print(self, item: _Item) -> None:
        if not isinstance(item, Record | str) and item.kind == "gap":
            self._gaps += 1
            if self._gaps <= _MOST_NOTES:
                _note(item)
            return
        self._say_rest()
        if isinstance(item, str):
            self._terminal.line(self._prefix + item)
        elif not isinstance(item, Record):
            _note(item)
        elif not self._is_raw:
            self._terminal.line(self._prefix + event_line(item, self._terminal, self._limit))
        elif self._terminal.interactive or not hasattr(sys.stdout, "buffer"):
            sys.stdout.write(f"{inert(item.raw.decode())}\n")
        else:
            sys.stdout.buffer.write(item.raw + b"\n")


class _NewRanks:
    """Ranks of a run that begin to log while it is followed."""

    def __init__(self, followed: _Followed) -> None:
        place = followed.place
        self._run = followed.name
        self._stream = place if place.endswith(EVENTS_FILE) else os.path.join(place, EVENTS_FILE)
        self._known: Container[int] | None = followed.ranks
        self._looked_at = 0

    def report(self) -> None:
        """Report once which other ranks have begun to log; a look without a change costs one ``stat`` call."""
        try:
            looked_at = os.stat(os.path.dirname(self._stream)).st_mtime_ns
        except OSError:
            return
        if looked_at == self._looked_at or self._known is None:
            return
        self._looked_at = looked_at
        new = [str(rank) for rank in ranks_beside(self._stream) if rank not in self._known]
        if new:
            self._known = None
            ranks = some_of(new, _MOST_NAMED_RANKS)
            tell("tail", f"{self._run}: rank {ranks} logs too; start tail again to follow all ranks")


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
    from toyspec.core.runs.summary import latest_ranks

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
    own = own._replace(ranks=(0, *others))
    yield own._replace(rank=0)
    for rank, stream in others.items():
        yield own._replace(stream=stream, place=stream, rank=rank)


def _prefixes(runs: Sequence[_Followed], terminal: Terminal) -> list[tuple[str, int]]:
    """Return what precedes each line, and its columns: a short name if there are several runs."""
    if len(runs) == 1:
        return [("", 0)]
    names = _names(runs)
    room = max(map(width, names))
    return [(terminal.curve(padded(name, room), index) + "  ", room + 2) for index, name in enumerate(names)]


def _names(runs: Sequence[_Followed]) -> list[str]:
    """Return a short name of each of *runs*: that of the run where there are several, and the rank."""
    paths = list(dict.fromkeys(each.name for each in runs))
    places = [run_of(path.rstrip("/")) or path for path in paths]
    names = distinct_names([place.rpartition("/")[2] for place in places], places)
    names = cut_apart([shown(name) for name in names], _NAME_COLUMNS)
    short = dict(zip(paths, names if len(names) > 1 else [""], strict=True))
    ranks = ["" if each.rank is None else f"rank {each.rank}" for each in runs]
    return [" ".join(filter(None, [short[each.name], rank])) for each, rank in zip(runs, ranks, strict=True)]


def _note(event: TailEvent) -> None:
    sys.stdout.flush()
    if event.kind == "gap":
        tell("tail", f"{event.path}:{event.line}: {event.reason}  {event.message}; the line was skipped")
    elif event.kind != "ended":
        tell("tail", f"{event.path}: {_MEANING[event.kind]}")


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
