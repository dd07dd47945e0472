"""``toyspec guard``: watch over runs by health rules, and hand on their alerts."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, seconds
from toyspec.core.command_line.terminal import tell
from toyspec.core.reading.configuration import ConfigurationError
from toyspec.health import PRESETS
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace

_POLL_SECONDS = 1.0
DESCRIPTION = """\
Watch over runs while they are written, by health rules: those of toyspec.toml,
else the preset default. Each incident is one line on standard error, and goes
to the [[alerts]] of toyspec.toml: commands that get it as JSON.

RUNS is a run, or a directory in which runs are or will be, of any program. The
watch ends when the runs that it found have ended. Nothing is written into them:
only the program itself writes alerts into its log, with start_run(health=True)."""

EPILOG = """\
exit status:
  0  no alert was at or above --fail-on
  1  an alert was at or above --fail-on
  2  wrong usage, or a wrong rule

examples:
  toyspec guard runs/
  toyspec guard --health-preset rl --idle-timeout 3600 runs/"""
USAGE = "toyspec guard [OPTION…] RUNS"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUNS", "a run, or a directory with runs, which need not exist yet")
    parser.value("--health-preset", "NAME", f"rules to use instead: {', '.join(PRESETS)}", choices=PRESETS)
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info"),
        default="error",
        help="lowest level of an alert that makes the exit status 1; default: error",
    )
    parser.flag("--json", "write each alert as a line of JSON to standard output")
    parser.value("--idle-timeout", "SECONDS", "end after this long without a new byte; default: never", type=seconds)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Watch until all runs have ended, and return an exit code."""
    configuration = settings()
    rules = all_rules(options.health_preset, configuration)
    choice = dialect_choice(options, configuration)
    from toyspec.health.actions import actions_by
    from toyspec.health.guarding import GuardedRuns

    try:
        actions = actions_by(configuration, options.runs)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    runs = GuardedRuns(options, rules, choice, actions)
    if not os.path.exists(options.runs):
        tell("guard", f"waiting for {options.runs}")
    try:
        runs.poll()
        while not runs.have_ended and (options.idle_timeout is None or runs.idle_seconds < options.idle_timeout):
            time.sleep(_POLL_SECONDS)
            runs.poll()
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    finally:
        runs.close()
    if runs.is_empty:
        tell("guard", f"no run was found at {shown(options.runs)}, so no rule was applied")
    is_bad = any(alert.is_at_least(options.fail_on) for alert in runs.begun)
    return exit_codes.FINDINGS if is_bad else exit_codes.OK
