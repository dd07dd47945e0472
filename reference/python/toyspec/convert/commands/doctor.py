"""``toyspec doctor``: what lies in a folder, format by format, and which command reads it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice, settings
from toyspec.core.command_line.figures import counted, shown, size
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, local_path
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.tables import Side, cut_start, joined, lined_up, width
from toyspec.core.command_line.terminal import Terminal, columns
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.convert.survey import FormatCount, Survey
    from toyspec.core.reading.configuration import Configuration

_PATH_COLUMNS = 50
_MOST_NAMED = 5
USAGE = "toyspec doctor [OPTION…] [PATH…]"
DESCRIPTION = (
    "Say what lies in a folder, format by format: streams of toyspec, logs of other\n"
    "programs, files of other tools, what each needs, and the command that reads it.\n"
    "Only the first 64 KiB of each file are read. Hidden directories are left out."
)
EPILOG = "examples:\n  toyspec doctor runs/"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("paths", "PATH", "files or directories; default: this directory", nargs="*", type=local_path)
    parser.flag("--json", "print an object")
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print what was found and return an exit code."""
    configuration = settings()
    choice = dialect_choice(options, configuration, search=True)
    terminal = Terminal(color=options.color)
    from toyspec.convert.survey import survey

    paths = options.paths or ["."]
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(f"{path}: No such file or directory")
    with Progress("looking") as progress:
        surveys = [survey(path, choice, lambda count: progress.show(f"{count} files")) for path in paths]
    if options.json:
        sys.stdout.write(inert_json(_object(paths, surveys, configuration)) + "\n")
    else:
        for path, found in zip(paths, surveys, strict=True):
            _print(path, found, terminal)
    unreadable = any(entry.sort == "unreadable" for found in surveys for entry in found.formats)
    return exit_codes.USAGE if unreadable else exit_codes.OK


def _print(path: str, found: Survey, terminal: Terminal) -> None:
    terminal.line(terminal.styled(shown(path), "strong") + f"  {counted(found.files, 'file')}")
    configured = settings().path
    if configured is not None:
        terminal.line(f"  settings: {shown(os.path.relpath(configured))}")
    if not found.formats:
        terminal.line("  no log is here or below")
    rows = [["", "format", "files", "size", "read with"], *map(_row, found.formats)]
    sides: tuple[Side, ...] = ("left", "left", "right", "right", "left")
    titles, *lines = lined_up(rows, sides) if found.formats else [[]]
    # A command that breaks in the middle cannot be copied.
    is_apart = terminal.interactive and any(width(joined(cells)) > columns() for cells in lines)
    if lines:
        terminal.line(terminal.styled(joined(titles[:-1] if is_apart else titles), "dim"))
    for entry, cells in zip(found.formats, lines, strict=True):
        terminal.line(joined(cells[:-1] if is_apart else cells))
        for said in _read_with(entry) if is_apart else ():
            terminal.line(f"    {said}")
        # The command names the only file.
        for example in entry.examples if len(entry.examples) > 1 or entry.read_with is None else ():
            terminal.line(terminal.styled(f"    {cut_start(shown(example), _PATH_COLUMNS)}", "dim"))
        if entry.files > len(entry.examples) > 1:
            terminal.line(terminal.styled(f"    … {entry.files} files", "dim"))
    for line in _notes(path, found):
        terminal.line(line)


def _notes(path: str, found: Survey) -> Iterator[str]:
    """Yield what counts for all formats at *path*."""
    from toyspec.convert.finding import has_usual_name

    is_imported = any(str(entry.read_with).startswith("toyspec import") for entry in found.formats)
    if is_imported and os.path.isdir(path) and sum(entry.files for entry in found.formats) > 1:
        yield f"  all of them: `toyspec import {_quoted(path)} --out runs`"
    elif len(found.logs) > 1:
        others = [log for log in found.logs if not has_usual_name(log)]
        named = [path] if len(others) < len(found.logs) else []
        if len(others) <= _MOST_NAMED:
            yield f"  all of them: `toyspec ls {' '.join(map(_quoted, [*named, *others]))}`"
        else:
            yield f"  {len(others)} have names of their own; name each: `toyspec ls {_quoted(others[0])}`"
    if found.passed_over:
        count = len(found.passed_over)
        noun = "1 directory" if count == 1 else f"{count} directories"
        yield f"  {noun} of installed software or version control passed over"
    beside = sum(entry.beside for entry in found.formats)
    if beside:
        noun = "belongs to its run" if beside == 1 else "belong to their runs"
        yield f"  {counted(beside, 'file')} beside them {noun}: annotations, seals, manifests"
    if found.others:
        noun = "is not a log" if found.others == 1 else "are not logs"
        advice = "`toyspec check FILE` says what one looks like"
        yield f"  {counted(found.others, 'other file')} {noun} that toyspec knows; {advice}"


def _row(entry: FormatCount) -> list[str]:
    return ["", printable(entry.title), str(entry.files), size(entry.bytes), "; ".join(_read_with(entry))]


def _read_with(entry: FormatCount) -> list[str]:
    """Return the command, and what it needs."""
    command = None if entry.read_with is None else f"`{entry.read_with} {_quoted(entry.examples[0])}`"
    needs = f"needs {printable(entry.needs)}" if entry.needs else None
    return [each for each in (command, needs) if each is not None]


def _quoted(path: str) -> str:
    from shlex import quote

    named = shown(path)
    # A name that begins like an option is none.
    return quote(f"./{named}" if named.startswith("-") else named)


def _object(paths: list[str], surveys: list[Survey], configuration: Configuration) -> dict[str, object]:
    return {
        "settings": configuration.path,
        "paths": [
            {
                "path": path,
                "files": found.files,
                "others": found.others,
                "passed_over": found.passed_over,
                "formats": found.formats,
            }
            for path, found in zip(paths, surveys, strict=True)
        ],
    }
