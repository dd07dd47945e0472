"""``toyspec schema``: the JSON Schema of a kind."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import ANSWERS
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable
from toyspec.core.files import read_resource, resource_path

if TYPE_CHECKING:
    from argparse import Namespace

PROFILES = ("toy/v1", "metrics/v1", "kaun/v1")
_URN = re.compile(r'"\$ref": "([^"#]+)#?[^"]*"')
# Documents of schemas/ that do not describe a kind of a profile.
_OTHER = {"report": ("report", "v1", "report.json"), "shared": ("shared", "v1", "definitions.json")}


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec schema [KIND | --bundled PROFILE | --answer COMMAND]\n"
    parser.usage += "       toyspec schema [KIND] --profile DIR"
    parser.description = (
        "Print the JSON Schema (2020-12) of a kind, byte for byte: every reference is a\n"
        "URN. Without KIND, list all kinds.\n\n"
        "With --profile, the profile is a directory of your own: KIND prints its schema\n"
        "without references."
    )
    parser.epilog = (
        "examples:\n  toyspec schema step\n  toyspec schema --bundled toy/v1 > toy-v1.json\n"
        "  toyspec schema --answer ls > ls.json\n"
        "  toyspec schema answer --profile evals/ > answer.json"
    )
    parser.add_argument("kind", metavar="KIND", nargs="?", help="a kind, for example step or toy/v1/step; or report")
    parser.add_argument(
        "--bundled",
        metavar="PROFILE",
        choices=PROFILES,
        help="print toy/v1, metrics/v1 or kaun/v1 as one document without outside references",
    )
    parser.add_argument(
        "--answer",
        metavar="COMMAND",
        choices=ANSWERS,
        help="print the schema of what COMMAND --json prints, with those that it refers to in $defs",
    )
    parser.add_argument(
        "--profile", metavar="DIR", help="a profile of your own: a directory with schemas and stream.json"
    )


def run(options: Namespace) -> int:
    """Print the schema or the list and return an exit code."""
    if options.profile is not None:
        _print_own(options)
        return exit_codes.OK
    if options.answer and (options.bundled or options.kind):
        raise UsageError("--answer prints one schema; leave out the others")
    if options.answer:
        sys.stdout.write(json.dumps(answer_schema(options.answer), indent=2) + "\n")
        return exit_codes.OK
    if options.bundled and options.kind:
        raise UsageError(f"--bundled prints a whole profile; leave out {options.kind!r}")
    if options.bundled:
        _write(("bundled", f"{options.bundled.replace('/', '-')}.json"))
    elif options.kind:
        _write(_located(options.kind))
    else:
        _list(Terminal())
    return exit_codes.OK


def answer_schema(command: str) -> dict[str, Any]:
    """Return the schema of what *command* prints with --json, which needs no other document."""
    area, *parts = ANSWERS[command].split("/")
    schema: dict[str, Any] = json.loads(read_resource("schemas" if area == "schemas" else "conformance", *parts))
    named = sorted(set(_URN.findall(json.dumps(schema))) - {schema["$id"]})
    others = {urn: json.loads(read_resource("schemas", *_file_of(urn))) for urn in named}
    return schema | ({"$defs": {**schema.get("$defs", {}), **others}} if others else {})


def _file_of(urn: str) -> tuple[str, ...]:
    """Return the path of the schema *urn* in schemas/: ``urn:toyspec:answers:v1:facts``, ``urn:toyspec:report:v1``."""
    family, version, *names = urn.removeprefix("urn:toyspec:").split(":")
    return (family, version, f"{names[0] if names else family}.json")


def _print_own(options: Namespace) -> None:
    from toyspec.core.format.own_profiles import load_profile

    try:
        profile = load_profile(os.path.abspath(options.profile))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.kind in profile.kinds:
        sys.stdout.write(inert_json(profile.kinds[options.kind]) + "\n")
    elif options.kind is None:
        terminal = Terminal()
        terminal.line(terminal.styled(profile.name, "strong"))
        terminal.line(f"  {', '.join(map(printable, profile.kinds))}")
    else:
        raise UsageError(f"unknown kind {options.kind!r}{did_you_mean(options.kind, [*profile.kinds])}")


def kinds(profile: str) -> list[str]:
    """Return the names of the kinds of *profile*, sorted."""
    names = os.listdir(resource_path("schemas", *profile.split("/")))
    return sorted(name[:-5] for name in names if name.endswith(".json") and name != "stream.json")


def _located(kind: str) -> tuple[str, ...]:
    if kind in _OTHER:
        return _OTHER[kind]
    places = {name: (profile, name) for profile in reversed(PROFILES) for name in kinds(profile)}
    places |= {f"{profile}/{name}": (profile, name) for profile, name in places.values()}
    if kind not in places:
        raise UsageError(f"unknown kind {kind!r}{did_you_mean(kind, [*places, *_OTHER])}")
    profile, name = places[kind]
    return (*profile.split("/"), f"{name}.json")


def _write(parts: tuple[str, ...]) -> None:
    # The exact bytes of the file, which the digests in schemas/ are computed from.
    content = read_resource("schemas", *parts)
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content.decode())


def _list(terminal: Terminal) -> None:
    for profile in PROFILES:
        terminal.line(terminal.styled(profile, "strong"))
        terminal.line(f"  {', '.join(kinds(profile))}")
    terminal.line(terminal.styled("others", "strong"))
    terminal.line(f"  {', '.join(_OTHER)}")
    terminal.line("\n`toyspec schema KIND` prints one, `toyspec schema --bundled PROFILE` a whole profile.")
