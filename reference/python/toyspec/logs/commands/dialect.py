"""``toyspec dialect new``: describe a log of your own, so that every command reads it."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.directories import directory_of
from toyspec.core.escaping import printable
from toyspec.core.files import open_file
from toyspec.core.reading.configuration import FILE, find_configuration
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.logs.mapping import Neutral, ReadAs

_DESCRIPTION = """\
Look at a log that toyspec does not know, propose how to read it, show the
first records as they would be read, and add the proposal to toyspec.toml,
where it can be edited. JSON, tables and console lines are understood; lines of
a console get a regular expression with a named group for each number."""

_EPILOG = """\
exit status:
  0  the dialect was added, or shown with --dry-run
  2  wrong usage, nothing in the file repeats, or it is a stream of toyspec

examples:
  toyspec dialect new --dry-run slurm-4711.out
  toyspec dialect new --name rewards --step-key update rewards.jsonl"""

_HEAD_BYTES = 1 << 20
_SHOWN_ROWS = 3
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec dialect new [OPTION…] FILE"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("action", metavar="new", choices=("new",), help="what to do")
    parser.add_argument("file", metavar="FILE", type=local_path, help="a log")
    parser.add_argument("--name", metavar="NAME", help="name of the dialect; default: after the file")
    parser.add_argument("--step-key", metavar="KEY", help="key of the step; default: the most likely one")
    parser.add_argument("-n", "--dry-run", action="store_true", help="show the proposal, write nothing")
    parser.add_argument("--json", action="store_true", help="print an object")


def run(options: Namespace) -> int:
    """Propose, show and write a dialect, and return an exit code."""
    from toyspec.logs.proposals import as_read, proposed, toml_of

    name = options.name or _name_of(options.file)
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r} must be lower-case letters and digits, with hyphens between words")
    try:
        with open_file(options.file) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{shown(options.file)}: {cause_of(error)}") from None
    profile = _profile_of(options.file, head)
    if profile is not None:
        fact = f"{shown(options.file)} is a {profile} stream, which every command reads"
        raise UsageError(f"{fact}; it needs no dialect: `toyspec show {shown(options.file)}`")
    # A part of a line says nothing.
    head = head[: head.rfind(b"\n") + 1] or head + b"\n"
    table = proposed(head, _pattern_of(options.file), step=options.step_key)
    if table is None:
        raise UsageError(
            f"{shown(options.file)}: no two records have the same shape and two numbers; "
            "describe it by hand: see `Read any training log` in the documentation"
        )
    text = toml_of(name, table)
    chosen, rows = as_read(table, head)
    if not options.json:
        sys.stdout.write(text + "\n" + _preview(chosen, rows))
    added = None if options.dry_run else _write(name, text)
    if options.json:
        records = [{"step": each.step, "values": each.values} for each in _first(chosen, rows)]
        found = {"name": name, "toml": text, "added_to": added, "read": len(rows), "records": records}
        sys.stdout.write(inert_json(found) + "\n")
    elif added is not None:
        sys.stdout.write(f"added to {added}; every command reads such files now\n")
    return exit_codes.OK


def _profile_of(path: str, head: bytes) -> str | None:
    """Return the profile of toyspec in which the file that begins with *head* is written; None for all else."""
    from toyspec.core.reading.log_detection import DialectChoice, detect_profile_at, first_object

    first = None if head.lstrip().startswith(b"[") else first_object(head)
    if first is None:
        return None
    read_as = DialectChoice().choose(head, lambda record, **_: detect_profile_at(path, record), path=path)
    return None if read_as is not None else detect_profile_at(path, first)


def _write(name: str, text: str) -> str:
    """Add the table of a dialect to the settings of the project, or of this directory; return the path, inert."""
    configuration = find_configuration()
    known = configuration.path if configuration.path and os.path.basename(configuration.path) == FILE else FILE
    if any(each.name == name for each in configuration.dialects):
        raise UsageError(f"{shown(known)} has a dialect {name!r}; name another with --name")
    with directory_of(known) as (directory, file_name):
        descriptor = directory.existing(file_name, os.O_CREAT | os.O_APPEND)
    with os.fdopen(descriptor, "ab") as file:
        file.write((("\n" if file.tell() else "") + text).encode())
    return shown(os.path.relpath(known))


def _first(read_as: ReadAs, rows: list[dict[str, Any]]) -> list[Neutral]:
    """Return the first records as they would be read."""
    from toyspec.logs.mapping import Mapping

    mapping = Mapping(read_as)
    return [mapping.neutral(row) for row in rows[:_SHOWN_ROWS]]


def _preview(read_as: ReadAs, rows: list[dict[str, Any]]) -> str:
    lines = [f"read as: {len(rows)} of the first records, the first {min(len(rows), _SHOWN_ROWS)}:"]
    for said in _first(read_as, rows):
        values = ", ".join(f"{printable(key)} {value}" for key, value in said.values.items())
        lines.append(f"  step {said.step}  {values or 'no metric'}")
    return "\n".join(lines) + "\n"


def _name_of(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\d+", "", stem)).strip("-") or "log"


def _pattern_of(path: str) -> str:
    """Return the pattern of names like that of the file *path*: any digits are others in the next run.

    So may be bytes that are not UTF-8, which TOML cannot have.
    """
    return re.sub(r"[\d\udc80-\udcff]+", "*", os.path.basename(path))
