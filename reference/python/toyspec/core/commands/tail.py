"""``toyspec tail``: follow runs while they are written."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice, runs_at
from toyspec.core.command_line.figures import counted, figure, shown
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.core.command_line.tables import cut, cut_apart, padded, width
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import shortened
from toyspec.core.format.profiles import tag_of
from toyspec.core.places.addresses import public
from toyspec.core.reading.records import Record, Row
from toyspec.core.reading.run_files import rank_file, ranks_beside, run_of
from toyspec.core.runs.names import below_all
from toyspec.core.runs.run_facts import flat
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from toyspec.core.command_line.arguments import NamedRun
    from toyspec.core.reading.follower import TailEvent
    from toyspec.core.reading.log_detection import DialectChoice


_DEFAULT_LINES = 10
_NAME_COLUMNS = 20
_MAX_HELD_NOTES = 100
# Notes on the unreadable lines of one place: the others are counted.
_MOST_NOTES = 3
# Each has an open file.
_MOST_RUNS = 200
_MEANING = {
    "rotated": "the file was moved away; the events of the new one follow",
    "replaced": "the stream was replaced; the events of the new one follow",
    "truncated": "the stream was truncated; new events follow",
    "gone": "the stream was deleted; waiting for a new one",
}
DESCRIPTION = (
    "Follow runs while they are written: one readable line for each event, as soon\n"
    "as it is committed; of several runs, each line begins with the name of its run.\n"
    "A directory with runs stands for those that it has at the start.\n"
    "Ends when all runs have ended. Unreadable lines, and a stream that is truncated\n"
    "or replaced, are reported on standard error; tail goes on. Of a long stream only\n"
    "the end is read.\n"
    "\n"
    "Where each process of a run logs, name the file of a rank to follow it."
)
EPILOG = (
    "examples:\n"
    "  toyspec tail runs/llama-001\n"
    "  toyspec tail runs/\n"
    "  toyspec tail --once -n 1 runs/llama-001\n"
    "  toyspec tail runs/llama-001/events.rank-2.jsonl"
)
USAGE = "toyspec tail [OPTION…] RUN…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value(
        "runs", "RUN", "runs, which need not exist yet, or directories with runs, also s3://…", nargs="+", type=public
    )
    parser.value(
        "-n --lines",
        "N",
        f"begin with the last N events; default: {_DEFAULT_LINES}",
        type=number_from(0),
        default=_DEFAULT_LINES,
    )
    parser.flag("--once", "print the events there are and exit")
    parser.value("--idle-timeout", "SECONDS", "end after this long without an event; default: never", type=seconds)
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print events as they come and return an exit code."""
    if "-" in options.runs:
        raise UsageError("standard input cannot be followed; name a file, or check it with `toyspec check -`")
    if options.once and options.idle_timeout is not None:
        raise UsageError("--once does not wait; leave out --idle-timeout")
    choice = dialect_choice(options)
    # A run that is named twice, also by its file, is followed once.
    runs = list({each.place: each for each in runs_at(options.runs, choice)}.values())
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"{len(runs)} runs; name {_MOST_RUNS} at most, or look at them with `toyspec watch`")
    for each in runs:
        _report_start(each, options)
    terminal = Terminal(color=options.color)
    tails = [_Tail(each.place, options, choice, terminal) for each in runs]
    _name(tails, runs)
    with contextlib.ExitStack() as stack:
        for tail in tails:
            stack.callback(tail.close)
        # The lines that are there are shown run by run.
        left = tails
        while left := [tail for tail in left if not tail.poll()]:
            time.sleep(min(tail.pause for tail in left))
    return max(tail.code for tail in tails)


def _report_start(run: NamedRun, options: Namespace) -> None:
    """Report that *run* is not there yet, or which other ranks it has; raise UsageError if it cannot be followed."""
    from toyspec.core.reading.stream_files import is_compressed, may_be_there

    if run.stream is None or not may_be_there(run.stream):
        if options.once:
            raise UsageError(f"{run.place}: no stream here; leave out --once to wait for it")
        tell("tail", f"waiting for {run.place}")
    elif is_compressed(run.stream):
        raise UsageError(f"{run.place}: gzip data cannot be followed; read it with `toyspec show`")
    elif ranks := ranks_beside(run.stream):
        first = rank_file(min(ranks))
        tell("tail", f"{run.path}: {counted(len(ranks), 'further rank')} with a log; name {first} there to follow one")


class _Tail:
    """One stream that is followed: the last records of it are printed, then each new one."""

    def __init__(self, place: str, options: Namespace, choice: DialectChoice, terminal: Terminal) -> None:
        # Imported here: start-up time counts.
        from toyspec.core.reading.follower import checked_poll_seconds, follow_last

        self.code = exit_codes.OK
        self.pause = checked_poll_seconds(place, None)
        """Seconds between two polls."""
        self.prefix = ""
        """What precedes each line."""
        self.limit = columns() if terminal.interactive else None
        """Most columns of a line after that."""
        self._place = place
        self._due = 0.0
        # Until the end of the stream is reached, only the last records are kept, and the notes between them.
        self._last: int | None = options.lines
        idle = 0.0 if options.once else options.idle_timeout
        self._follower = follow_last(place, self._last, idle_seconds=idle, dialect=choice)
        self._is_said = False
        self._gaps = 0
        self.terminal = terminal

    def poll(self) -> bool:
        """Print what has come, if a poll is due; return whether nothing more is to come."""
        if time.monotonic() < self._due:
            return False
        new: Iterable[Record | TailEvent] = self._follower.new()
        try:
            if self._last is not None:
                new, self._last = _last_of(new, self._last), None
            for item in new:
                self._take(item)
            self._say_rest()
        except StreamError as error:
            tell("tail", str(error))
            self.code = exit_codes.USAGE
            return True
        self._due = time.monotonic() + self.pause
        if self._follower.is_over and isinstance(self._follower.trouble, OSError):
            tell("tail", f"{self._place}: {cause_of(self._follower.trouble)}")
            self.code = exit_codes.USAGE
        return self._follower.is_over

    def close(self) -> None:
        """Close the stream."""
        self._follower.close()

    def _take(self, item: Record | TailEvent) -> None:
        """Print *item*; of unreadable lines that follow each other, the first ones."""
        if self._follower.dialect is not None and not self._is_said:
            self._is_said = True
            tell("tail", self._follower.dialect.sentence)
        if isinstance(item, Record):
            self._say_rest()
            self._print(item)
        elif item.kind == "gap":
            self._gaps += 1
            if self._gaps <= _MOST_NOTES:
                tell("tail", f"{item.path}:{item.line}: {item.reason}  {item.message}; the line was skipped")
        elif item.kind != "ended":
            self._say_rest()
            tell("tail", f"{item.path}: {_MEANING[item.kind]}")

    def _say_rest(self) -> None:
        """Report how many more lines were skipped than were reported."""
        if self._gaps > _MOST_NOTES:
            more = self._gaps - _MOST_NOTES
            tell("tail", f"{more} more line{'s were' if more > 1 else ' was'} skipped; see `toyspec check`")
        self._gaps = 0

    def _print(self, record: Record) -> None:
        self.terminal.line(self.prefix + event_line(record, self.terminal, self.limit))
        sys.stdout.flush()


def _last_of(items: Iterable[Record | TailEvent], number: int) -> Iterable[Record | TailEvent]:
    """Return the last *number* records of *items*, and the notes between and after them."""
    kept: deque[Record | TailEvent] = deque()
    records = 0
    for item in items:
        kept.append(item)
        records += isinstance(item, Record)
        while records > number or len(kept) > number + _MAX_HELD_NOTES:
            records -= isinstance(kept.popleft(), Record)
    return kept


def _name(tails: Sequence[_Tail], runs: Sequence[NamedRun]) -> None:
    """Let each line of several runs begin with a short name of its run."""
    if len(runs) == 1:
        return
    places = [run_of(each.path.rstrip("/")) or each.path for each in runs]
    names = cut_apart(list(map(shown, below_all(places))), _NAME_COLUMNS)
    room = max(map(width, names))
    for index, (tail, name) in enumerate(zip(tails, names, strict=True)):
        tail.prefix = tail.terminal.curve(padded(name, room), index) + "  "
        tail.limit = None if tail.limit is None else tail.limit - room - 2


# The members that name what an event is about.
_SUBJECTS = ("run_id", "name", "region", "param", "baseline_run_id")
# Members that the beginning of a line shows already, or that are the same in every record.
_SHOWN = frozenset(["kind", "type", "schema", "t", "step", "phase", "wall_time", "wall_time_ms", "minimize"])
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


def _is_scalar(record: Record) -> bool:
    return record.profile == "kaun/v1" and record.kind == "scalar"


def _is_step(record: Record) -> bool:
    return record.kind in (None, "step") or isinstance(record, Row) or _is_scalar(record)


def _head(record: Record) -> Iterator[str]:
    """Yield what the event is about: its kind and subjects, unless it is a step; its step, and its phase."""
    if not _is_step(record):
        yield figure(record.kind)
        yield from (figure(record[key]) for key in _SUBJECTS if key in record)
    # A profile of the user may name it otherwise: it is then a member like the others.
    step = record.step if isinstance(record, Row) else record.get("step")
    if step is not None:
        yield f"step {figure(step)}"
    if record.phase not in (None, "train", record.kind):
        yield figure(record.phase)


def _members(record: Record) -> Iterator[str]:
    if isinstance(record, Row):
        # A row without metrics says something else.
        found = record.values.items() or flat(record.value)
        members = [(name, member) for name, member in found if name not in _STEPS or member != record.step]
    else:
        # The metric of a scalar is named by its tag.
        members = list(record.values.items()) if _is_scalar(record) else []
        known = {tag_of(record.profile), *_SHOWN, *(_SCALAR if members else () if _is_step(record) else _SUBJECTS)}
        members += [
            (name.removeprefix("extra."), member)
            for name, member in flat(record.value)
            if name not in known and not name.startswith(_LEFT_OUT)
        ]
    yield from (f"{shortened(name, _NAME_CHARS)} {figure(member)}" for name, member in members)


def _time(record: Record) -> str:
    """Return the time since the start of the run; where the record has only the time of day, that."""
    seconds, is_clock = record.time, record.time_origin == "unix"
    if seconds is None or (is_clock and not 0 <= seconds < 1e11):
        return ""
    return time.strftime("%H:%M:%SZ", time.gmtime(seconds)) if is_clock else f"{seconds:.1f} s"
