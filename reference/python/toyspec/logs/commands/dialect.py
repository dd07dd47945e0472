"""``toyspec dialect new``: proposes how to read a log that toyspec does not know, and keeps it in toyspec.toml."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import settings
from toyspec.core.command_line.figures import counted, figure, shown
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.terminal import tell
from toyspec.core.directories import directory_of
from toyspec.core.escaping import printable, shortened
from toyspec.core.files import open_file
from toyspec.core.reading.configuration import FILE
from toyspec.core.reading.log_detection import CONSOLE_BYTES, DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.logs.dialects import dialects
from toyspec.logs.proposal import propose, shapes_in

if TYPE_CHECKING:
    from argparse import Namespace

_MOST_SHOWN = 10
_MOST_SEEN = 3
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
USAGE = "toyspec dialect [OPTION…] new FILE"
DESCRIPTION = (
    "Propose how to read a log that toyspec does not know, by how its lines behave:\n"
    "which number is the step, which are metrics, and under which names. Without\n"
    "--write nothing changes: the dialect, the first rows and what is left out are\n"
    "printed."
)
EPILOG = "examples:\n  toyspec dialect new train.log\n  toyspec dialect --step iter --write new train.log"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("action", "new", "propose a dialect for FILE", choices=["new"])
    parser.value("file", "FILE", "the log", type=local_path)
    parser.flag("--write", f"add the dialect to {FILE}; none is overwritten")
    parser.value("--name", "NAME", "name of the dialect; default: that of the file")
    parser.value("--step", "NAME", "name of the number that is the step")
    parser.value("--drop", "NAME", "leave out a number; repeatable", action="append", default=[])


def run(options: Namespace) -> int:
    """Print the proposal, or write it, and return an exit code."""
    if not os.path.isfile(options.file):
        raise UsageError(f"{options.file}: No such file")
    name = _free_name(options)
    head = unpacked_head(options.file, CONSOLE_BYTES)[0]
    proposal = propose(head, name, step=options.step, drop=options.drop)
    if proposal is None:
        seen = [shortened(printable(each.first.strip())) for each in shapes_in(head)[:_MOST_SEEN]]
        fact = "no value looks like a metric with a step beside it that grows"
        tell(
            "dialect",
            f"{shown(options.file)}: {fact}",
            f"most lines with numbers are like: {'; '.join(seen) or 'none'}",
        )
        return exit_codes.USAGE
    dialect = msgspec.structs.replace(proposal.dialect, files=(os.path.basename(options.file),))
    path = settings().path or FILE
    path = path if os.path.basename(path) == FILE else FILE
    table = f"[dialects.{name}]\n" + "".join(
        f"{key} = {_toml(value)}\n" for key, value in msgspec.to_builtins(dialect).items() if key not in _OURS
    )
    sys.stdout.write("" if options.write else table)
    choice = DialectChoice(name, own=(dialect,))
    rows: list[Any] = [row for row in read(options.file, mode="salvage", dialect=choice) if row.values]
    for row in rows[:_MOST_SHOWN]:
        values = "  ".join(f"{printable(each)} {figure(value)}" for each, value in row.values.items())
        sys.stdout.write(f"step {row.step}  {values}\n")
    sys.stdout.writelines(f"left out: {shortened(printable(text))}\n" for text in proposal.left_out)
    if options.write:
        before = b""
        with contextlib.suppress(FileNotFoundError), open_file(path) as settings_file:
            before = settings_file.read()
        with directory_of(path) as (directory, file):
            directory.replace(file, [before, f"\n{table}".encode()])
    kept = f"wrote dialects.{name} to" if options.write else "--write adds it to"
    doubt = "sure" if proposal.sure else "not sure: compare the rows with the log"
    sys.stdout.write(f"{counted(len(rows), 'row')} with values; {doubt}; {kept} {shown(path)}\n")
    return exit_codes.OK


def _free_name(options: Namespace) -> str:
    """Return the name of the dialect; raise UsageError for one that there is."""
    stem = os.path.basename(options.file).partition(".")[0].lower()
    name: str = options.name or "-".join(re.findall(r"[a-z0-9]+", stem)) or "log"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not allowed as a name: use a-z, 0-9 and single hyphens, such as my-log")
    if name in [each.name for each in (*settings().dialects, *dialects())]:
        raise UsageError(f"there is a dialect {name!r}, which is not overwritten: name this one with --name")
    return name


_OURS = ("$schema", "name", "title", "loses", "source")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    is_literal = isinstance(value, str) and "\\" in value and "'" not in value
    return f"'{value}'" if is_literal else json.dumps(value, ensure_ascii=False)
