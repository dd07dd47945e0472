"""``toyspec tail``: follow runs while they are written."""

from __future__ import annotations

import sys
import threading
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from toyspec.cli import exit_codes
from toyspec.cli.columns import cut, cut_apart, padded, width
from toyspec.cli.dialect_options import add_dialect, add_profile, dialect_choice, settings
from toyspec.cli.figures import figure
from toyspec.cli.formats.objects import inert
from toyspec.cli.health_options import add_health, alert_line, chosen_rules
from toyspec.cli.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.cli.paths import shown
from toyspec.cli.run_arguments import NamedRun, runs_at
from toyspec.cli.terminal import Terminal, columns, without_ci_commands
from toyspec.errors import StreamError
from toyspec.escaping import printable, shortened
from toyspec.format.profiles import EVENTS_FILE, tag_of
from toyspec.places.addresses import public
from toyspec.reading.records import Record
from toyspec.reading.rows import Row
from toyspec.runs.run_facts import flat
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from toyspec.health.checking import RecordHealth
    from toyspec.reading.follower import TailEvent
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
    "Ends when all runs have ended. Unreadable lines, and a stream that is truncated\n"
    "or replaced, are reported on standard error; tail goes on. Of a long stream only\n"
    "the end is read, unless --all asks for all of it."
)
_EXAMPLES = (
    "examples:\n"
    "  toyspec tail runs/llama-001\n"
    "  toyspec tail runs/\n"
    "  toyspec tail --once -n 1 runs/llama-001\n"
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
        runs = _runs(options.runs, choice)
    except StreamError as error:
        _say(str(error))
        return exit_codes.USAGE
    for each in runs:
        if each.stream is None or not may_be_there(each.stream):
            if options.once:
                raise UsageError(f"{each.path}: no stream here; leave out --once to wait for it")
            _say(f"waiting for {printable(each.path)}")
        elif is_compressed(each.stream):
            raise UsageError(f"{each.path}: gzip data cannot be followed; read it with `toyspec show`")
    stopped = threading.Event()
    follow = [partial(_follow, each.place, options, shown, stopped) for each, shown in _each_shown(runs, options)]
    if len(follow) == 1 or options.once:
        return max(each(choice) for each in follow)
    return _follow_all([partial(each, choice) for each in follow], stopped)


def _follow(path: str, options: Namespace, shown: _Shown, stopped: threading.Event, choice: DialectChoice) -> int:
    """Follow one run to its end, or until *stopped*, and return an exit code."""
    from toyspec.reading.follower import follow_last

    def caught_up(seconds: float) -> None:
        shown.catch_up()
        if stopped.wait(seconds):
            raise _StoppedError

    idle = 0.0 if options.once else options.idle_timeout
    health = _health(options)
    try:
        last = None if options.all else options.lines
        with follow_last(path, last, idle_seconds=idle, sleep=caught_up, dialect=choice) as follower:
            is_said = False
            for item in follower:
                if follower.dialect is not None and not is_said:
                    is_said = True
                    _say(follower.dialect.sentence)
                shown.take(item)
                if health is not None and isinstance(item, Record):
                    for alert in health.take(item):
                        if item.kind != "alert":
                            shown.take(alert_line(alert, Terminal(color=options.color)))
        shown.catch_up()
    except StreamError as error:
        _say(str(error))
        return exit_codes.USAGE
    if isinstance(follower.trouble, OSError):
        _say(f"{printable(path)}: {cause_of(follower.trouble)}")
        return exit_codes.USAGE
    return exit_codes.OK


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


def _runs(paths: Sequence[str], choice: DialectChoice) -> list[NamedRun]:
    """Return each run once; raise StreamError, and UsageError where they are too many to follow."""
    runs = list(dict.fromkeys(runs_at(paths, choice)))
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"{len(runs)} runs; name {_MOST_RUNS} at most, or look at them with `toyspec watch`")
    return runs


def _each_shown(runs: Sequence[NamedRun], options: Namespace) -> Iterator[tuple[NamedRun, _Shown]]:
    """Yield each run, with what prints it: with a short name before each line if there are several."""
    terminal = Terminal(color=options.color)
    if len(runs) == 1:
        yield runs[0], _Shown(options, terminal)
        return
    places = [path.rstrip("/").removesuffix(f"/{EVENTS_FILE}") or path for path in [each.path for each in runs]]
    names = [place.rpartition("/")[2] for place in places]
    names = cut_apart([shown(name) for name in (names if len(set(names)) == len(names) else places)], _NAME_COLUMNS)
    room = max(map(width, names))
    lock = threading.Lock()
    for index, (each, name) in enumerate(zip(runs, names, strict=True)):
        prefix = terminal.curve(padded(name, room), index) + "  "
        yield each, _Shown(options, terminal, prefix=(prefix, room + 2), lock=lock)


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
            _say(f"{more} more line{'s were' if more > 1 else ' was'} skipped; see `toyspec check`")
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
        _say(f"{printable(event.path)}:{event.line}: {event.reason}  {event.message}; the line was skipped")
    elif event.kind != "ended":
        _say(f"{printable(event.path)}: {_MEANING[event.kind]}")


def _say(text: str) -> None:
    sys.stderr.write(f"toyspec tail: {without_ci_commands(text)}\n")
    sys.stderr.flush()


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
