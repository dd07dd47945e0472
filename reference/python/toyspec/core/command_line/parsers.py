"""Argument parsing: one kind of parser and the arguments that commands share."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from toyspec.core.command_line.terminal import columns
from toyspec.core.errors import nearest
from toyspec.core.format.numbers import digits_of
from toyspec.core.generated.rules import SUMMARY
from toyspec.core.places.addresses import is_address, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_HELP_COLUMNS = 100


class UsageError(Exception):
    """The command line is wrong; the message says what is expected."""


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter that keeps line breaks; it knows the width without importing shutil."""
    width = min(columns(), _MAX_HELP_COLUMNS) - 2
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=width)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting, and takes no abbreviated options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=help_formatter, allow_abbrev=False, **options)
        self._positionals.title = "arguments"
        self.is_intermixed = False
        """True where options may come between arguments."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options; raise UsageError for arguments that the command does not have."""
        parse = self.parse_known_intermixed_args if self.is_intermixed else self.parse_known_args
        options, unknown = parse(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            near = did_you_mean(word, known) if word.startswith("-") else ""
            raise UsageError(f"unexpected argument {unknown[0]!r}{near}")
        return options

    def flag(self, names: str, use: str) -> None:
        """Add an option without a value; *use* is its help."""
        self.add_argument(*names.split(), action="store_true", help=use)

    def value(self, names: str, metavar: str, use: str, **more: Any) -> None:
        """Add an argument or an option with a value, called *metavar*; *use* is its help, and argparse takes *more*."""
        self.add_argument(*names.split(), metavar=metavar, help=use, **more)

    def print_help(self, file: Any = None) -> None:
        """Write the help; raise OSError when that fails, which argparse ignores."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message)


def add_color(parser: Parser) -> None:
    """Add ``--color``."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours: on a terminal unless NO_COLOR is set (auto, the default), always or never",
    )


def rule_names(text: str) -> list[str]:
    """Return the rules in *text*, separated by commas; raise ArgumentTypeError for one that does not exist."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SUMMARY:
            raise argparse.ArgumentTypeError(f"unknown rule {name!r}{did_you_mean(name, SUMMARY)}")
    return names


def local_path(text: str) -> str:
    """Return *text*; raise ArgumentTypeError for an address, where nothing can be appended to or replaced."""
    if is_address(text):
        raise argparse.ArgumentTypeError(
            f"{without_secrets(text)!r} must be a path on this machine, not an address; "
            "copy the files from there before, or the result to there afterwards"
        )
    return text


def number_from(minimum: int) -> Callable[[str], int]:
    """Return a type of argument: an integer ≥ *minimum*."""

    def number(text: str) -> int:
        found = digits_of(text)
        if found is None or found < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} must be an integer ≥ {minimum}")
        return found

    return number


def add_metrics(parser: Parser, use: str) -> None:
    """Add ``--metric``, patterns of names, one at a time; *use* says what for."""
    use = f"{use}, such as '*loss'; may be repeated"
    parser.value("--metric", "GLOB", use, action="append", default=[])


def add_tolerance(parser: Parser, option: str, default: float | None, what: str) -> None:
    """Add *option*, a number from 0 that says *what* is accepted; without *default* that of a preset is."""
    use = f"{what}; default: {'by --preset' if default is None else f'{default:g}'}"
    parser.value(option, "X", use, type=_tolerance, default=default)


def _tolerance(text: str) -> float:
    """Return the number in *text*, at least 0; raise ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number ≥ 0")
    return value


def seconds(text: str) -> float:
    """Return the number of seconds in *text*, above 0; raise ArgumentTypeError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds > 0")
    return value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest of *known*, or an empty string."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"
