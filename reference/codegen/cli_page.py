"""Makes the reference pages of the command line from its argument parsers: an overview, and a page for each room."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from codegen import sources
from codegen.report_page import report_page
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import ANSWERS, COMMANDS, command_parser, room_of

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = "docs/reference/cli.md"
_MADE = "<!-- Made by `make generate` from toyspec/core/command_line/; do not edit. -->"
_TITLES = {
    "core": "Check, list and fix",
    "view": "See and plot",
    "health": "Watch over",
    "catalog": "Catalog",
    "expect": "Expect and bisect",
    "logs": "Logs of other programs",
    "convert": "Import and export",
    "integrations": "Run and capture",
    "trainer": "Train",
    "stores": "Sync with a bucket",
    "agents": "Agents and evidence",
}
"""What people do with the commands of each room, in the order of the pages."""

_HEAD = """\
---
description: "Every command of toyspec with its options, what it prints, and its exit codes."
---
# Command line

{made}

What each command of `toyspec` takes, prints and returns, as its own help says it, on a page for each kind of work.

{rows}

Every command takes `--help`. `toyspec --version` prints the version.

## Exit codes

| code | meaning |
|---|---|
{codes}

`capture` and `run` have the status of their command where that failed, and 128 + N where signal N ended it.

## Answers for programs

With `--json` a command prints what it says as JSON, in ASCII, on standard output; what it cannot read is also on
standard error. Where the status is 2 and nothing could be answered, standard output is empty. Facts of a run have the
names of [one table](../schemas/answers/v1/facts.json) everywhere. `check` has [its own report](cli/json-report.md).
`toyspec schema COMMAND` prints a schema.

| command | what it prints, with its schema |
|---|---|
{answers}

`guard`, and `sync` with `--watch`, print one object on each line.
"""


def cli_pages() -> dict[str, str]:
    """Return the pages by their paths: every command of a room with its arguments, options and examples."""
    rooms = {room: [name for name in COMMANDS if room_of(name) == room] for room in _TITLES}
    made = {f"docs/reference/cli/{room}.md": _room(room, names) for room, names in rooms.items()}
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in sorted(exit_codes.MEANINGS.items()))
    rows = "\n".join(_overview(room, names) for room, names in rooms.items())
    head = _HEAD.format(made=_MADE, rows=rows, codes=codes, answers="\n".join(map(_answer, ANSWERS)))
    return {PAGE: head, **made, "docs/reference/cli/json-report.md": report_page()}


def _overview(room: str, names: list[str]) -> str:
    rows = "".join(f"| [`toyspec {name}`]({_place(name)}) | {COMMANDS[name]} |\n" for name in names)
    return f"## [{_TITLES[room]}](cli/{room}.md)\n\n| command | what it does |\n|---|---|\n{rows}"


def _room(room: str, names: list[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    about = f"The commands {listed}: options, output, examples." if names[1:] else f"The command {listed}."
    head = f'---\ndescription: "{about.replace("`", "")}"\n---\n# {_TITLES[room]}\n\n{_MADE}\n\n{about}\n'
    return "\n".join([head, *(_section(command_parser(name)) for name in names)])


def _place(command: str) -> str:
    """Return where the section of *command* is, from the overview."""
    return f"cli/{room_of(command)}.md#toyspec-{command}"


def _answer(command: str) -> str:
    path = ANSWERS[command]
    about = sources.load(sources.ROOT / path)["description"].partition(": `toyspec")[0].removesuffix(".")
    return f"| [`{command} --json`]({_place(command.split(maxsplit=1)[0])}) | {about}<br>[`{path}`](../{path}) |"


def _section(parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    arguments = [action for action in actions if not action.option_strings]
    options = [action for action in actions if action.option_strings]
    parts = [f"## {parser.prog}\n", f"{_prose(parser.description or '')}\n", _synopsis(parser.prog, arguments, options)]
    if arguments:
        parts.append(_table("argument", ((_positional(action), _help(action)) for action in arguments)))
    if options:
        parts.append(_table("option", ((_option(action), _help(action)) for action in options)))
    if parser.epilog:
        parts.append(_examples(parser.epilog))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Return *text* for Markdown: indented lines are kept unchanged, the rest is wrapped."""
    blocks = [
        f"```text\n{block}\n```" if block.startswith("  ") else _escaped(block) for block in re.split(r"\n{2,}", text)
    ]
    return "\n\n".join(blocks)


def _synopsis(prog: str, arguments: list[argparse.Action], options: list[argparse.Action]) -> str:
    words = [prog, *(["[OPTION…]"] if options else []), *(_positional(action) for action in arguments)]
    return f"```text\n{' '.join(words)}\n```\n"


def _positional(action: argparse.Action) -> str:
    name = _metavar(action) or action.dest.upper()
    forms = {"*": f"[{name}…]", "+": f"{name}…", "?": f"[{name}]"}
    return forms.get(str(action.nargs), name)


def _option(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {_metavar(action) or action.dest.upper()}"
    return ", ".join(f"{name}{value}" for name in action.option_strings)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.metavar or ""


def _help(action: argparse.Action) -> str:
    return _escaped((action.help or "") % {**vars(action)})


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {title} | meaning |", "|---|---|"]
    lines += [f"| `{name.replace('|', chr(92) + '|')}` | {meaning} |" for name, meaning in rows]
    return "\n".join(lines) + "\n"


def _examples(epilog: str) -> str:
    """Return the epilog: the indented lines below ``examples:`` as a block, the rest as prose."""
    parts = []
    for block in re.split(r"\n{2,}", epilog):
        title, _, rest = block.partition("\n")
        if title.endswith(":") and rest:
            body = "\n".join(line.removeprefix("  ") for line in rest.splitlines())
            parts.append(f"{title[0].upper()}{title[1:]}\n\n```text\n{body}\n```\n")
        else:
            parts.append(_prose(block) + "\n")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    """Return *text* with Markdown's markup escaped, except in code spans."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([|*_])", r"\\\1", part).replace("<", "&lt;") for part in parts
    )
