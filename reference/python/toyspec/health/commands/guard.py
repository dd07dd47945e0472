"""``toyspec guard``: watch over runs by health rules, run their program, and start it again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, number_from, seconds
from toyspec.core.command_line.terminal import tell
from toyspec.core.reading.configuration import ConfigurationError
from toyspec.health import PRESETS
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace

_DESCRIPTION = """\
Watch over runs while they are written, by health rules: those of toyspec.toml,
else the preset default. Each incident is one line on standard error, and goes
to the [[alerts]] of toyspec.toml: a command, a webhook, or a service.

RUNS is a run, or a directory in which runs are or will be. With a COMMAND,
guard runs it, watches what it writes there, and ends with it. Without one it
watches until the runs that it finds have ended.

With --restarts, a command is started again after it was killed by a signal,
after a stall, for which guard ends it, and after it ended since a rule with
on = "stop" was broken. It finds TOYSPEC_EXIST=resume in its environment, by
which toyspec.start_run goes on with its run; its checkpoint it loads by itself.
Guard never ends a command that it may not start again, except with --stop."""

_EPILOG = """\
exit status:
  0  the command ended with 0, and no alert of its last attempt was at or above
     --fail-on
  1  an alert was at or above --fail-on, and the command ended with 0
  2  wrong usage, or a wrong rule
  N  the command ended with N; 128 + the signal that killed it

Where no run is written at RUNS, no rule is applied, which guard reports: the
status is that of the command.

A run is not touched: only the program itself writes alerts into its log, with
start_run(health=True). Its [[alerts]] are left to guard then.

examples:
  toyspec guard runs/ -- python train.py
  toyspec guard --restarts 3 runs/ -- torchrun --nproc-per-node 8 train.py
  toyspec guard --health-preset rl --idle-timeout 3600 runs/"""

_CAUSES = ("kill", "stall", "stop", "error")


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec guard [OPTION…] RUNS [-- COMMAND…]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("runs", metavar="RUNS", help="a run, or a directory with runs, which need not exist yet")
    parser.add_argument("words", metavar="COMMAND", nargs="*", default=[], help="a program and its arguments, after --")
    parser.add_argument(
        "--health-preset", metavar="NAME", choices=PRESETS, help=f"rules to use instead: {', '.join(PRESETS)}"
    )
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info"),
        default="error",
        help="lowest level of an alert that makes the exit status 1; default: error",
    )
    parser.add_argument("--json", action="store_true", help="write each alert as a line of JSON to standard output")
    _add_restarts(parser)
    parser.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=seconds,
        help="without a command: end after this long without a new byte; default: never",
    )
    parser.add_argument(
        "--poll",
        metavar="SECONDS",
        type=seconds,
        default=1.0,
        help="time between two looks at the runs; default: 1",
    )
    add_dialect(parser)
    add_color(parser)


def _add_restarts(parser: Parser) -> None:
    parser.add_argument(
        "--restarts", metavar="N", type=number_from(0), default=0, help="start the command again at most N times"
    )
    parser.add_argument(
        "--restart-on",
        metavar="CAUSE[,CAUSE…]",
        default="kill,stall,stop",
        help=f"after what: {', '.join(_CAUSES)} (any other status than 0); default: kill,stall,stop",
    )
    parser.add_argument(
        "--backoff",
        metavar="SECONDS",
        type=seconds,
        default=5.0,
        help="pause before the first restart, which doubles up to 10 minutes; default: 5",
    )
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        help="time between SIGTERM and SIGKILL where the command is ended; default: 30",
    )
    parser.add_argument("--stop", action="store_true", help='end the command where a rule with on = "stop" is broken')


def run(options: Namespace) -> int:
    """Watch, and return an exit code."""
    causes = frozenset(options.restart_on.split(","))
    _validate(options, causes)
    configuration = settings()
    rules = all_rules(options.health_preset, configuration)
    choice = dialect_choice(options, configuration)
    from toyspec.health.actions import actions_by
    from toyspec.health.guarding import GuardedCommand, GuardedRuns

    try:
        actions = actions_by(configuration, options.runs)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    runs = GuardedRuns(options.runs, rules, choice, actions, color=options.color, writes_json=options.json)
    try:
        if options.words:
            command = GuardedCommand(
                options.words,
                runs,
                restarts=options.restarts,
                causes=causes,
                backoff_seconds=options.backoff,
                grace_seconds=options.grace,
                poll_seconds=options.poll,
                obeys=options.stop,
            )
            status = command.run()
        else:
            status = _accompany(runs, options)
        if runs.is_untouched and status != exit_codes.INTERRUPTED:
            written = "written at" if options.words else "found at"
            fact = f"no run was {written} {shown(options.runs)}, so no rule was applied"
            tell("guard", f"{fact}; pass the directory that the program logs to")
    finally:
        runs.close()
    return status or (exit_codes.FINDINGS if runs.has_alert(options.fail_on) else exit_codes.OK)


def _accompany(runs: GuardedRuns, options: Namespace) -> int:
    """Watch until all runs have ended; return an exit code that is not about alerts."""
    if not os.path.exists(options.runs):
        tell("guard", f"waiting for {options.runs}")
    try:
        while True:
            runs.poll()
            if runs.have_ended:
                return exit_codes.OK
            if options.idle_timeout is not None and runs.idle_seconds >= options.idle_timeout:
                return exit_codes.OK
            time.sleep(options.poll)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED


def _validate(options: Namespace, causes: frozenset[str]) -> None:
    unknown = sorted(causes - set(_CAUSES))
    if unknown:
        raise UsageError(f"--restart-on has no cause {unknown[0]!r}; it has {', '.join(_CAUSES)}")
    if options.words and options.idle_timeout is not None:
        raise UsageError("--idle-timeout is for runs without a command; a stall rule says when a command hangs")
    if not options.words:
        for name, is_given in (("--restarts", options.restarts), ("--stop", options.stop)):
            if is_given:
                raise UsageError(f"{name} needs a command: toyspec guard RUNS -- COMMAND")


if TYPE_CHECKING:
    from toyspec.health.guarding import GuardedRuns
