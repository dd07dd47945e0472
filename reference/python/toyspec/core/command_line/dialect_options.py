"""How the logs of other programs are read, by the options of a command and the settings of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.core.command_line.parsers import UsageError, did_you_mean
from toyspec.core.reading import readers
from toyspec.core.reading.configuration import Configuration, ConfigurationError, find_configuration
from toyspec.core.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser


def add_dialect(parser: Parser, *, has_columns: bool = True) -> None:
    """Add ``--dialect`` and the options of ``add_keys``, which say how the log of another program is read."""
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        default="auto",
        help="how to read the log of another program; auto (the default) recognizes it, none reads toyspec's own alone",
    )
    add_keys(parser, has_columns=has_columns)


def add_keys(parser: Parser, *, has_columns: bool = True) -> None:
    """Add the options that name keys and columns in the log of another program.

    Without *has_columns*, ``--columns`` means something else.
    """
    parser.add_argument("--step-key", metavar="KEY", help="key of the step in the log of another program")
    parser.add_argument("--time-key", metavar="KEY", help="key of the time there")
    parser.add_argument("--metric-key", metavar="KEY", help="key of a metric's name, where a record has one metric")
    parser.add_argument("--value-key", metavar="KEY", help="key of its value; alone, the only metric that is read")
    if has_columns:
        parser.add_argument(
            "--columns",
            dest="table_columns",
            metavar="NAME,…",
            help="names of the columns of a table without a header",
        )


def keys_of(options: Namespace) -> Any:
    """Return the keys that *options* name; None without one."""
    text = getattr(options, "table_columns", None) or ""
    columns = text.split(",") if text else []
    named = (options.step_key, options.time_key, options.metric_key, options.value_key)
    if not columns and not any(named):
        return None
    if len(set(columns)) != len(columns) or not all(columns):
        raise UsageError(f"--columns {text!r} must be different names with commas between them")
    step, time, metric, value = named
    return readers.dialects().keys(step=step, time=time, metric=metric, value=value, columns=tuple(columns))


def add_profile(parser: Parser) -> None:
    """Add ``--profile``, which names a profile of the user."""
    parser.add_argument(
        "--profile",
        metavar="DIR",
        help="read it by a profile of your own: a directory with schemas and stream.json",
    )


def settings() -> Configuration:
    """Return the settings of the project; raise UsageError for a wrong file."""
    try:
        return find_configuration()
    except ConfigurationError as error:
        raise UsageError(str(error)) from None


def dialect_choice(
    options: Namespace, configuration: Configuration | None = None, *, search: bool = False
) -> DialectChoice:
    """Return the dialects and the user's profiles that may be used; raise UsageError for one that does not exist.

    With *search* the profile of the options is one that may be found, else the one that reads the file.
    """
    configuration = configuration or settings()
    own, profiles = configuration.dialects, configuration.profiles
    profile = getattr(options, "profile", None)
    if search and profile is not None:
        profiles = (profile, *profiles)
        profile = None
    name = None if options.dialect == "none" else options.dialect
    if name not in (None, "auto"):
        known = [*(dialect.name for dialect in own), *readers.dialects().names()]
        if name not in known:
            raise UsageError(
                f"unknown dialect {name!r}{did_you_mean(name, known)}; `toyspec doctor --dialects` lists all"
            )
    choice = DialectChoice(name, keys=keys_of(options), own=own, profile=profile, profiles=profiles)
    try:
        _ = choice.stream_files
    except ValueError as error:
        raise UsageError(str(error)) from None
    return choice
