"""``toyspec tail``: follow a run while it is written."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from toyspec.cli import exit_codes
from toyspec.cli.dialect_options import add_dialect, add_profile, dialect_choice
from toyspec.cli.event_lines import event_line
from toyspec.cli.formats.inert_json import inert
from toyspec.cli.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.cli.terminal import Terminal, columns, without_ci_commands
from toyspec.escaping import printable
from toyspec.places.addresses import public
from toyspec.reading.records import Record

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.reading.follower import TailEvent
    from toyspec.reading.log_detection import DialectChoice

_DEFAULT_LINES = 10
_MAX_HELD_NOTES = 100
_MEANING = {
    "rotated": "the file was moved away; the events of the new one follow",
    "replaced": "the stream was replaced; the events of the new one follow",
    "truncated": "the stream was truncated; new events follow",
    "gone": "the stream was deleted; waiting for a new one",
}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec tail [OPTION…] RUN"
    parser.description = (
        "Follow a run while it is written: one readable line for each event, as soon\n"
        "as it is committed. Ends when the run ends. Unreadable lines, and a stream that\n"
        "is truncated or replaced, are reported on standard error; tail goes on.\n"
        "Of a long stream only the end is read, unless --all asks for all of it."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec tail runs/llama-001\n"
        "  toyspec tail --once -n 1 runs/llama-001\n"
        "  toyspec tail --raw -n 0 runs/llama-001 | jq .loss"
    )
    parser.add_argument(
        "run", metavar="RUN", type=public, help="a run directory or a stream, also s3://…; it need not exist yet"
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
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print events as they come and return an exit code."""
    from toyspec.errors import StreamError
    from toyspec.reading.follower import follow_last
    from toyspec.reading.stream_files import is_compressed

    _validate(options)
    shown = _Shown(options)
    choice = dialect_choice(options)
    if not _is_there(options.run, choice):
        if options.once:
            raise UsageError(f"{options.run}: no stream here; leave out --once to wait for it")
        _say(f"waiting for {printable(options.run)}")
    if is_compressed(options.run):
        raise UsageError(f"{options.run}: gzip data cannot be followed; read it with `toyspec show`")
    idle = 0.0 if options.once else options.idle_timeout
    try:
        last = None if options.all else options.lines
        with follow_last(options.run, last, idle_seconds=idle, sleep=shown.caught_up, dialect=choice) as follower:
            is_said = False
            for item in follower:
                if follower.dialect is not None and not is_said:
                    is_said = True
                    _say(follower.dialect.sentence)
                shown.take(item)
        shown.catch_up()
    except StreamError as error:
        _say(str(error))
        return exit_codes.USAGE
    return exit_codes.OK


def _validate(options: Namespace) -> None:
    if options.run == "-":
        raise UsageError("standard input cannot be followed; name a file, or use `toyspec check --follow -`")
    if options.once and options.idle_timeout is not None:
        raise UsageError("--once does not wait; leave out --idle-timeout")


class _Shown:
    """Prints the last records of the stream, then each new one."""

    def __init__(self, options: Namespace) -> None:
        self._terminal = Terminal(color=options.color)
        self._form = "raw" if options.raw else "line"
        self._limit = columns() if self._terminal.interactive else None
        # Until the end of the stream is reached, only the last records are kept, and the notes between them.
        self._lines = options.lines
        self._held: deque[Record | TailEvent] | None = None if options.all else deque()
        self._records = 0

    def take(self, item: Record | TailEvent) -> None:
        """Keep or print *item*."""
        if self._held is not None:
            self._keep(item, self._held)
            return
        self._print(item)
        sys.stdout.flush()

    def _keep(self, item: Record | TailEvent, held: deque[Record | TailEvent]) -> None:
        held.append(item)
        self._records += isinstance(item, Record)
        while self._records > self._lines or len(held) > self._lines + _MAX_HELD_NOTES:
            self._records -= isinstance(held.popleft(), Record)

    def caught_up(self, seconds: float) -> None:
        """Print what is kept, and wait: called at each end of the stream."""
        self.catch_up()
        time.sleep(seconds)

    def catch_up(self) -> None:
        """Print what is kept; later items are printed at once."""
        held, self._held = self._held, None
        for item in held or ():
            self._print(item)
        sys.stdout.flush()

    def _print(self, item: Record | TailEvent) -> None:
        if not isinstance(item, Record):
            _note(item)
        elif self._form == "line":
            self._terminal.line(event_line(item, self._terminal, self._limit))
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


def _is_there(path: str, choice: DialectChoice) -> bool:
    from toyspec.errors import StreamMissingError
    from toyspec.reading.stream_files import locate_stream, may_be_there

    try:
        return may_be_there(locate_stream(path, choice.stream_files)[0])
    except StreamMissingError:
        return False
