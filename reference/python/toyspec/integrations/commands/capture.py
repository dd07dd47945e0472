"""``toyspec capture``: turn what a program prints into a run, and pass every byte on."""

from __future__ import annotations

import os
import re
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.format.redaction import Redaction
from toyspec.core.programs import PIPE, Forwarding, start_command
from toyspec.core.reading import readers
from toyspec.core.reading.follower import FollowedFeed
from toyspec.core.reading.log_detection import DialectChoice, detect_profile_at
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.system_calls import cause_of, say
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.writing.events import Reason

DESCRIPTION = """\
Run COMMAND, print what it prints, and write a run from the lines that have
numbers: JSON objects with a step, lines such as "step 10 loss=2.5 lr=3e-4",
and the output of known programs. Without COMMAND, standard input is read."""

EPILOG = """\
The run ends as the command ends: completed with exit status 0, interrupted by
Ctrl-C, else errored. From standard input that is not known, so the run ends as
completed when the input ends.

exit status: that of COMMAND; 128 and the number of the signal that ended it;
2 for wrong usage; 127 for a command that cannot be started

examples:
  toyspec capture -- python train.py
  toyspec capture --run-id llama-001 -- torchrun train.py
  python train.py | toyspec capture --pattern 'at (?P<step>\\d+): (?P<loss>\\S+)'"""

_BLOCK_BYTES = 1 << 16
_PATTERN = "own-pattern"
USAGE = "toyspec capture [OPTION…] [-- COMMAND…]"


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.value("words", "COMMAND", "the program and its arguments", nargs="*", default=[])
    parser.value("--root", "DIR", "directory of all runs; default: runs", type=local_path, default="runs")
    parser.value("--run-id", "ID", "name of the run's directory; default: a new name")
    parser.value("--name", "TEXT", "name of the run for people")
    parser.value("--pattern", "REGEX", "read only lines that match; named groups are the numbers, (?P<step>…) the step")
    parser.value("--dialect", "NAME", "read only lines of this dialect")


def run(options: Namespace) -> int:
    """Pass everything on, write the run, and return the exit status of the command."""
    if options.pattern is not None and options.dialect is not None:
        raise UsageError("--pattern and --dialect exclude each other: a pattern is a dialect of its own")
    try:
        choice = DialectChoice(options.dialect or "auto") if options.pattern is None else _choice_of(options.pattern)
    except ValueError as error:
        raise UsageError(str(error)) from None
    command = list(options.words)
    config = {"command": Redaction().command_line(command)} if command else {}
    training = TrainingRun(
        RunOptions(root=options.root, run_id=options.run_id, name=options.name), Start(config=config)
    )
    capture = Capture(training, choice)
    status = _of_command(command, capture) if command else _of_input(capture)
    if not capture.records and status != exit_codes.NOT_STARTED:
        say("capture: no line with a number was recognized, so no run was written; see --pattern")
    return status


class Capture:
    """Writes what *run* gets from the output of a program: the records that a reader of *choice* finds in it."""

    def __init__(self, run: TrainingRun, choice: DialectChoice) -> None:
        self._run = run
        self._feed = FollowedFeed(choice, partial(RecordFeed), "", partial(detect_profile_at, ""))
        self.records = 0
        """Number of records that were written into the run."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes that the program printed."""
        for record in self._feed.feed(data):
            if isinstance(record, Record) and record.values:
                step = None if record.step is None or record.step < 0 else int(record.step)
                self._run.log(record.values, step=step, epoch=record.epoch)
                self.records += 1

    def end(self, reason: Reason, cause: str = "") -> None:
        """Take a last line that has no line feed, and end the run for *reason*."""
        self.feed(b"\n")
        if self.records:
            self._run.end(reason=reason, cause=cause)


def _choice_of(pattern: str) -> DialectChoice:
    """Return the choice of the lines that match *pattern*; raise ValueError for one that is wrong or names nothing."""
    try:
        names = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"the pattern is not a regular expression: {error}") from None
    if not names:
        raise ValueError("the pattern names no part; write each number as a named group: '(?P<loss>\\S+)'")
    table = {
        "name": _PATTERN,
        "title": "lines that match a pattern",
        "rank": "shape",
        "form": {"type": "pattern", "patterns": [pattern]},
        "recognize": {},
        "step": ["step"],
        "epoch": ["epoch"],
        "non_finite": ["text"],
    }
    return DialectChoice(_PATTERN, own=[readers.dialects().made(table)])


def _of_input(capture: Capture) -> int:
    try:
        _pass_on(sys.stdin.fileno(), capture)
    except KeyboardInterrupt:
        capture.end("interrupted")
        return exit_codes.INTERRUPTED
    capture.end("completed")
    return exit_codes.OK


def _of_command(command: list[str], capture: Capture) -> int:
    # A program that writes to a pipe keeps its lines back; PYTHONUNBUFFERED changes that for Python.
    environment = {"PYTHONUNBUFFERED": "1", **os.environ}
    try:
        process = start_command(command, environment, stdout=PIPE)
    except OSError as error:
        say(f"capture: {command[0]}: {cause_of(error)}")
        return exit_codes.NOT_STARTED
    assert process.stdout is not None, "a pipe was asked for"
    with Forwarding() as forwarding:
        forwarding.process = process
        _pass_on(process.stdout.fileno(), capture)
        status = process.wait()
    if status == 0:
        capture.end("completed")
    elif status in {-signal.SIGINT, exit_codes.INTERRUPTED}:
        capture.end("interrupted")
    else:
        ending = f"exit status {status}" if status > 0 else f"signal {-status}"
        capture.end("errored", f"{os.path.basename(command[0])} ended with {ending}")
    return status if status >= 0 else 128 - status


def _pass_on(source: int, capture: Capture) -> None:
    """Write all that *source* has to standard output as it comes, and let *capture* read it."""
    target: int | None = sys.stdout.fileno()
    while block := os.read(source, _BLOCK_BYTES):
        if target is not None:
            try:
                _write_all(target, block)
            except BrokenPipeError:
                # Who reads the output has left; the log goes on.
                target = None
        capture.feed(block)


def _write_all(target: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(target, rest) :]
