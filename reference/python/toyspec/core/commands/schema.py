"""``toyspec schema``: the JSON Schema of a kind, a profile or what a command prints, or a table of the format."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import ANSWERS
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean
from toyspec.core.command_line.tables import wrapped
from toyspec.core.command_line.terminal import Terminal, columns
from toyspec.core.files import read_resource, resource_path

if TYPE_CHECKING:
    from argparse import Namespace

PROFILES = ("toy/v1", "metrics/v1", "kaun/v1")
_URN = re.compile(r'"\$ref": "([^"#]+)#?[^"]*"')
# Documents of schemas/ that do not describe a kind of a profile.
_OTHER = {"report": ("report", "v1", "report.json"), "shared": ("shared", "v1", "definitions.json")}
# What a checker or a writer needs that no JSON Schema can say.
_TABLES = {"rules": ("rules.json",), "limits": ("limits.json",), "media-types": ("media.json",)} | {
    f"{profile}/stream": (*profile.split("/"), "stream.json") for profile in PROFILES
}
USAGE = "toyspec schema [NAME]"
DESCRIPTION = (
    "Print a JSON Schema (2020-12), or a table of the specification. NAME is one of\n"
    "\n"
    "  step, toy/v1/step   a kind, byte for byte: every reference is a URN\n"
    "  toy/v1              a whole profile, without outside references\n"
    "  ls                  what a command prints with --json, with those that it\n"
    "                      refers to in $defs\n"
    "  report, shared      the report of a check, and what profiles share\n"
    "  rules, limits       every rule of a check, and the limits of lines and numbers\n"
    "  media-types         the file extension of each media type\n"
    "  toy/v1/stream       the rules that relate the records of a stream\n"
    "\n"
    "Without NAME, list all."
)
EPILOG = "examples:\n  toyspec schema step\n  toyspec schema toy/v1 > toy-v1.json\n  toyspec schema ls > ls.json"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("name", "NAME", "what to print, for example step, toy/v1 or ls", nargs="?")


def run(options: Namespace) -> int:
    """Print the schema or the list and return an exit code."""
    sorts = _sorts()
    named = {name: content for sort in reversed(sorts.values()) for name, content in sort.items()}
    named |= {f"{sort}/{name}": content for sort in PROFILES for name, content in sorts[sort].items()}
    if options.name is None:
        terminal = Terminal()
        for sort, names in sorts.items():
            terminal.line(terminal.styled(sort, "strong"))
            terminal.lines(f"  {line}" for line in wrapped(", ".join(names), columns() - 2))
    elif options.name in named:
        sys.stdout.flush()
        # The exact bytes of a file, which the digests in schemas/ are computed from.
        sys.stdout.buffer.write(named[options.name]())
    else:
        raise UsageError(f"unknown schema {options.name!r}{did_you_mean(options.name, named)}")
    return exit_codes.OK


def _sorts() -> dict[str, dict[str, partial[bytes]]]:
    """Return the schemas of each sort by name, each with what reads it."""
    file = partial(partial, read_resource, "schemas")
    sorts = {
        profile: {name: file(*profile.split("/"), f"{name}.json") for name in kinds(profile)} for profile in PROFILES
    }
    return sorts | {
        "profiles": {profile: file("bundled", f"{profile.replace('/', '-')}.json") for profile in PROFILES},
        "others": {name: file(*parts) for name, parts in _OTHER.items()},
        "tables": {name: file(*parts) for name, parts in _TABLES.items()},
        "commands": {name: partial(_answer, name) for name in ANSWERS},
    }


def _answer(command: str) -> bytes:
    return f"{json.dumps(answer_schema(command), indent=2)}\n".encode()


def answer_schema(command: str) -> dict[str, Any]:
    """Return the schema of what *command* prints with --json, which needs no other document."""
    area, *parts = ANSWERS[command].split("/")
    schema: dict[str, Any] = json.loads(read_resource("schemas" if area == "schemas" else "conformance", *parts))
    others: dict[str, Any] = {}
    while named := set(_URN.findall(json.dumps([schema, others]))) - {schema["$id"], *others}:
        others |= {urn: json.loads(read_resource("schemas", *_file_of(urn))) for urn in sorted(named)}
    return schema | ({"$defs": {**schema.get("$defs", {}), **others}} if others else {})


def _file_of(urn: str) -> tuple[str, ...]:
    """Return the path of the schema *urn* in schemas/: ``urn:toyspec:answers:v1:facts``, ``urn:toyspec:report:v1``."""
    family, version, *names = urn.removeprefix("urn:toyspec:").split(":")
    return (family, version, f"{names[0] if names else family}.json")


def kinds(profile: str) -> list[str]:
    """Return the names of the kinds of *profile*, sorted."""
    names = os.listdir(resource_path("schemas", *profile.split("/")))
    return sorted(name[:-5] for name in names if name.endswith(".json") and name != "stream.json")
