"""The options of commands that compare runs with health rules, and what they show of an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.command_line.parsers import Parser, UsageError
from toyspec.core.escaping import printable
from toyspec.core.reading.configuration import ConfigurationError
from toyspec.health import PRESETS

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.terminal import Terminal
    from toyspec.core.reading.configuration import Configuration
    from toyspec.health.rules import AnyRule, HealthAlert


def add_health(parser: Parser, use: str) -> None:
    """Add ``--health`` and ``--health-preset``; *use* ends the sentence "compare … with health rules, and"."""
    parser.flag(
        "--health", f"compare the runs with health rules, those of toyspec.toml or else the preset default, and {use}"
    )
    parser.value("--health-preset", "NAME", f"with these rules instead: {', '.join(PRESETS)}", choices=PRESETS)


def chosen_rules(options: Namespace, configuration: Configuration) -> tuple[AnyRule, ...] | None:
    """Return the rules that the options ask for, None if they ask for none; raise UsageError for a wrong one."""
    if not (options.health or options.health_preset):
        return None
    return all_rules(options.health_preset, configuration)


def all_rules(preset: str | None, configuration: Configuration) -> tuple[AnyRule, ...]:
    """Return the rules of *preset*, else of the settings, else of ``default``; raise UsageError for a wrong one."""
    # Imported here: start-up time counts.
    from toyspec.health.rules import rules_of

    try:
        return rules_of(preset or configuration)
    except (ConfigurationError, ValueError) as error:
        raise UsageError(str(error)) from None


def alert_line(alert: HealthAlert, terminal: Terminal) -> str:
    """Return *alert* as one line for people."""
    level = alert.level if alert.event == "begun" else alert.event
    style = alert.level if alert.event == "begun" else "dim"
    step = "" if alert.step is None else f"  step {alert.step:g}"
    rank = "" if alert.rank is None else f"  rank {alert.rank}"
    head = terminal.styled(f"{level}: {printable(alert.rule)}", style)
    return f"{head}{step}{rank}  {printable(alert.fact)}"
