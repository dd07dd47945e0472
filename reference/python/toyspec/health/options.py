"""The options of commands that compare runs with health rules, and what they show of an alert."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toyspec.core.command_line.parsers import Parser, UsageError
from toyspec.core.escaping import printable
from toyspec.core.findings import Finding, with_findings
from toyspec.core.reading.configuration import ConfigurationError
from toyspec.health import PRESETS

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.terminal import Terminal
    from toyspec.core.findings import FileReport
    from toyspec.core.reading.configuration import Configuration
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.rules import AnyRule, HealthAlert

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HELP = "look at the run around this step; the rule is in [[health]] of toyspec.toml, or in a preset"


def add_health(parser: Parser, use: str) -> None:
    """Add ``--health`` and ``--health-preset``; *use* ends the sentence "compare … with health rules, and"."""
    parser.add_argument(
        "--health",
        action="store_true",
        help=f"compare the runs with health rules, those of toyspec.toml or else the preset default, and {use}",
    )
    parser.add_argument(
        "--health-preset", metavar="NAME", choices=PRESETS, help=f"with these rules instead: {', '.join(PRESETS)}"
    )


def chosen_rules(options: Namespace, configuration: Configuration) -> tuple[AnyRule, ...] | None:
    """Return the rules that the options ask for, None if they ask for none; raise UsageError for a wrong one."""
    if not (options.health or options.health_preset):
        return None
    return all_rules(options.health_preset, configuration)


def all_rules(preset: str | None, configuration: Configuration) -> tuple[AnyRule, ...]:
    """Return the rules of *preset*, else of the settings, else of ``default``; raise UsageError for a wrong one."""
    # Imported here: start-up time counts.
    from toyspec.health.rules import rules_by

    try:
        return rules_by(configuration, preset)
    except (ConfigurationError, ValueError) as error:
        raise UsageError(str(error)) from None


def finding_of(alert: HealthAlert) -> Finding:
    """Return *alert* as a finding, whose rule is its own after ``health-``."""
    name = alert.rule if _NAME.fullmatch(alert.rule) else "alert"
    step = "" if alert.step is None or "step" in alert.text else f"; step {alert.step:g}"
    rank = "" if alert.rank is None or "rank" in alert.text else f"; rank {alert.rank}"
    return Finding(
        rule=f"health-{name}",
        severity=alert.level,
        line=alert.line or 1,
        offset=alert.offset or 0,
        pointer="",
        message=printable(f"{alert.text}{step}{rank}"),
        help=_HELP,
    )


class HealthCheck:
    """Adds what health rules report to the reports on streams."""

    def __init__(self, rules: tuple[AnyRule, ...], choice: DialectChoice) -> None:
        self._rules = rules
        self._choice = choice
        self._of_ranks: dict[str, list[Finding]] = {}

    def added(self, report: FileReport) -> FileReport:
        """Return *report* with the findings of its stream; those about the file stay first at each line."""
        from toyspec.core.errors import ToyspecError
        from toyspec.health.checking import alerts_of

        if report.state is None:
            return report
        found = self._of_ranks.pop(report.path, None)
        if found is None:
            found = []
            try:
                for path, alert in alerts_of(report.path, self._rules, self._choice):
                    target = found if path == report.path else self._of_ranks.setdefault(path, [])
                    target.append(finding_of(alert))
            except (OSError, ToyspecError):
                # The check has reported why.
                return report
        return with_findings(report, found)


def alert_line(alert: HealthAlert, terminal: Terminal) -> str:
    """Return *alert* as one line for people."""
    level = "recovered" if alert.event == "recovered" else alert.level
    style = alert.level if alert.event == "begun" else "dim"
    step = "" if alert.step is None else f"  step {alert.step:g}"
    rank = "" if alert.rank is None else f"  rank {alert.rank}"
    head = terminal.styled(f"{level}: {printable(alert.rule)}", style)
    return f"{head}{step}{rank}  {printable(alert.fact)}"
