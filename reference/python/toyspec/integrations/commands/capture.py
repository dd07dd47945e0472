"""``toyspec capture``: turn what a program prints into a run, and pass every byte on."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.format.redaction import command_line_without_secrets
from toyspec.core.programs import PIPE, start_command
from toyspec.core.system_calls import cause_of, say
from toyspec.integrations.capture import Capture
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.programs import Process
    from toyspec.core.writing.event_arguments import Reason

_DESCRIPTION = """\
Run COMMAND, print what it prints, and write a run from the lines that have
numbers: JSON objects with a step, lines such as "step 10 loss=2.5 lr=3e-4",
and the output of known programs. Without COMMAND, standard input is read."""

_EPILOG = """\
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


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.usage = "toyspec capture [OPTION…] [-- COMMAND…]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("words", metavar="COMMAND", nargs="*", default=[], help="the program and its arguments")
    parser.add_argument(
        "--root", metavar="DIR", type=local_path, default="runs", help="directory of all runs; default: runs"
    )
    parser.add_argument("--run-id", metavar="ID", help="name of the run's directory; default: a new name")
    parser.add_argument("--name", metavar="TEXT", help="name of the run for people")
    parser.add_argument(
        "--pattern",
        metavar="REGEX",
        help="read only lines that match; named groups are the numbers, (?P<step>…) the step",
    )
    parser.add_argument("--dialect", metavar="NAME", help="read only lines of this dialect")


def run(options: Namespace) -> int:
    """Pass everything on, write the run, and return the exit status of the command."""
    if options.pattern is not None and options.dialect is not None:
        raise UsageError("--pattern and --dialect exclude each other: a pattern is a dialect of its own")
    command = list(options.words)
    settings = RunOptions(root=options.root, run_id=options.run_id, name=options.name)
    training = TrainingRun(
        settings, Start(framework="run", config={"command": command_line_without_secrets(command)} if command else {})
    )
    try:
        capture = Capture(training, pattern=options.pattern, dialect=options.dialect)
    except ValueError as error:
        raise UsageError(str(error)) from None
    status = _of_command(command, capture, training) if command else _of_input(capture, training)
    if not capture.records and status != exit_codes.NOT_STARTED:
        say("capture: no line with a step and a number was found, so no run was written; see --pattern")
    return status


def _of_input(capture: Capture, training: TrainingRun) -> int:
    try:
        _pass_on(sys.stdin.fileno(), capture)
    except KeyboardInterrupt:
        _end(training, capture, "interrupted")
        return exit_codes.INTERRUPTED
    _end(training, capture, "completed")
    return exit_codes.OK


def _of_command(command: list[str], capture: Capture, training: TrainingRun) -> int:
    # A program that writes to a pipe keeps its lines back; PYTHONUNBUFFERED changes that for Python.
    environment = {"PYTHONUNBUFFERED": "1", **os.environ}
    try:
        process = start_command(command, environment, stdout=PIPE)
    except OSError as error:
        say(f"capture: {command[0]}: {cause_of(error)}")
        return exit_codes.NOT_STARTED
    assert process.stdout is not None, "a pipe was asked for"
    with _signals_to(process):
        _pass_on(process.stdout.fileno(), capture)
        status = process.wait()
    if status == 0:
        _end(training, capture, "completed")
    elif status in {-signal.SIGINT, exit_codes.INTERRUPTED}:
        _end(training, capture, "interrupted")
    else:
        _end(training, capture, "errored", cause=f"{os.path.basename(command[0])} ended with {_ending(status)}")
    return status if status >= 0 else 128 - status


def _end(training: TrainingRun, capture: Capture, reason: Reason, *, cause: str = "") -> None:
    capture.finish()
    if capture.records:
        training.end(reason=reason, cause=cause)


def _ending(status: int) -> str:
    return f"exit status {status}" if status > 0 else f"signal {-status}"


class _signals_to:  # noqa: N801 - used like a function
    """Hands SIGTERM and SIGINT on to *process* within the block: the program decides how it ends."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Ctrl-C on a terminal reaches the program by itself.
            self._before[number] = signal.signal(number, self._forward)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, frame: object) -> None:
        del frame
        if number != signal.SIGINT or not sys.stdin.isatty():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


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
