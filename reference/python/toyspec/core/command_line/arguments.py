"""Arguments that commands share: runs, how logs of other programs are read, and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core import rooms
from toyspec.core.command_line.parsers import UsageError, did_you_mean, number_from
from toyspec.core.errors import StreamError, StreamMissingError
from toyspec.core.reading import readers
from toyspec.core.reading.configuration import Configuration, ConfigurationError, find_configuration
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.run_files import run_of
from toyspec.core.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from toyspec.core.command_line.parsers import Parser
    from toyspec.core.runs.expressions import Expression
    from toyspec.core.workers.running import Workers


def add_dialect(parser: Parser, *, has_columns: bool = True) -> None:
    """Add ``--dialect`` and the options of ``add_keys``, which say how the log of another program is read."""
    parser.value(
        "--dialect",
        "NAME",
        "how to read the log of another program; auto (the default) recognizes it, none reads toyspec's own alone",
        default="auto",
    )
    add_keys(parser, has_columns=has_columns)


def add_keys(parser: Parser, *, has_columns: bool = True) -> None:
    """Add the options that name keys and columns in the log of another program.

    Without *has_columns*, ``--columns`` means something else.
    """
    parser.value("--step-key", "KEY", "key of the step in the log of another program")
    parser.value("--time-key", "KEY", "key of the time there")
    parser.value("--metric-key", "KEY", "key of a metric's name, where a record has one metric")
    parser.value("--value-key", "KEY", "key of its value; alone, the only metric that is read")
    if has_columns:
        parser.value("--columns", "NAME,…", "names of the columns of a table without a header", dest="table_columns")


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


def add_reading(parser: Parser, *, has_columns: bool = True) -> None:
    """Add ``--profile``, which names a profile of the user, and the options of ``add_dialect``."""
    parser.value("--profile", "DIR", "read it by a profile of your own: a directory with schemas and stream.json")
    add_dialect(parser, has_columns=has_columns)


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
            raise UsageError(f"unknown dialect {name!r}{did_you_mean(name, known)}; `toyspec import --help` lists all")
    choice = DialectChoice(name, keys=keys_of(options), own=own, profile=profile, profiles=profiles)
    try:
        _ = choice.stream_files
    except ValueError as error:
        raise UsageError(str(error)) from None
    return choice


def add_workers(parser: Parser, *, default: int = 1) -> None:
    """Add ``--workers`` and ``--ray``; *default* 0 is one worker per core."""
    shown = "one per core" if default == 0 else str(default)
    parser.value(
        "-j --workers",
        "N",
        f"runs that are worked on in parallel; 0: one per core; default: {shown}",
        type=number_from(0),
    )
    parser.value(
        "--ray",
        "ADDRESS",
        "spread the work over a Ray cluster: host:port, auto for the one that runs here, or local to start one",
    )
    parser.set_defaults(least_workers=default)


def chosen_workers(options: Namespace) -> int | Workers:
    """Return what *options* ask for; raise UsageError."""
    if options.ray is not None:
        if options.workers is not None:
            raise UsageError("--workers and --ray exclude each other; a cluster has as many workers as cores")
        return rooms.ray_cluster.Ray(options.ray)
    number: int = options.least_workers if options.workers is None else options.workers
    if number:
        return number
    from toyspec.core.workers.processes import cores

    return cores()


def run_filter(text: str) -> Expression:
    """Return the filter in *text*; raise ArgumentTypeError."""
    # Imported here: most commands take none.
    from argparse import ArgumentTypeError

    from toyspec.core.errors import ExpressionError
    from toyspec.core.runs.expressions import expression

    try:
        return expression(text)
    except ExpressionError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from None


def names_in(text: str) -> list[str]:
    """Return the names in *text*, which commas separate."""
    return [name.strip() for name in text.split(",") if name.strip()]


class NamedRun(NamedTuple):
    """A run, or a path where one may appear."""

    path: str
    """The path by which it was named, or found below one."""
    stream: str | None = None
    """The path of its stream, None without one; to look for it once more costs a list at an address."""

    @property
    def place(self) -> str:
        """The stream, or the path where it may appear."""
        return self.stream or self.path


def runs_at(paths: Iterable[str], choice: DialectChoice) -> list[NamedRun]:
    """Return the runs at *paths*; in place of a directory that is not a run, those below it, sorted.

    A path where nothing is, and a directory without runs, stay. Raises StreamError where one cannot be listed or read.
    """
    found: list[NamedRun] = []
    for path in paths:
        try:
            found.append(NamedRun(path, locate_stream(path, choice.stream_files)))
        except StreamMissingError:
            from toyspec.core.reading.log_detection import usual_names
            from toyspec.core.runs.run import streams_below

            errors, streams = streams_below([path], usual_names(choice))
            for error in errors:
                raise StreamError(error.path, error.message) from None
            found += [NamedRun(run_of(each.path), each.path) for each in streams] or [NamedRun(path)]
    return found
