"""``toyspec explain``: the page of a rule, or the list of all rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, did_you_mean
from toyspec.core.command_line.tables import wrapped
from toyspec.core.command_line.terminal import Terminal, columns
from toyspec.core.generated.rules import LAYER, SEVERITY, SUMMARY

if TYPE_CHECKING:
    from argparse import Namespace

_MAX_COLUMNS = 100
_CODE = " " * 4
USAGE = "toyspec explain [RULE]"
DESCRIPTION = "Explain a rule: what it checks, why, and how to fix a finding.\nWithout RULE, list all rules."
EPILOG = "examples:\n  toyspec explain\n  toyspec explain step-goes-backwards"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("rule", "RULE", "name of a rule, as a finding shows it", nargs="?")
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the page or the list and return an exit code."""
    terminal = Terminal(color=options.color)
    if options.rule is None:
        _list(terminal)
        return exit_codes.OK
    if options.rule not in SUMMARY:
        raise UsageError(f"unknown rule {options.rule!r}{did_you_mean(options.rule, SUMMARY)}")
    from toyspec.core.generated.rule_texts import TEXTS

    for index, (name, lines) in enumerate(TEXTS[options.rule].items()):
        terminal.lines([*[""] * bool(index), terminal.styled(name, "strong"), ""])
        for line in lines:
            terminal.lines([line] if line.startswith(_CODE) else wrapped(line, min(columns(), _MAX_COLUMNS)))
    return exit_codes.OK


def _list(terminal: Terminal) -> None:
    width = max(map(len, SUMMARY))
    layer = ""
    for rule, summary in SUMMARY.items():
        if LAYER[rule] != layer:
            terminal.line(("\n" if layer else "") + terminal.styled(LAYER[rule], "strong"))
            layer = LAYER[rule]
        severity = SEVERITY[rule]
        # Where profiles differ, the highest one.
        of_profiles = [severity] if isinstance(severity, str) else severity.values()
        gravest: Any = min(of_profiles, key=("error", "warning", "info").index)
        terminal.line(f"  {rule:<{width}}  {terminal.styled(f'{gravest:<7}', gravest)}  {summary}")
    terminal.line("\n`toyspec explain RULE` prints the page of a rule.")
