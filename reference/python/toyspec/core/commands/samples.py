"""``toyspec samples``: what a model wrote, and the worst and the best of each group."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice
from toyspec.core.command_line.figures import figure, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, add_color, number_from
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.escaping import shortened
from toyspec.core.places.addresses import public
from toyspec.core.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

_TEXT_CHARS = 400
_NAME_CHARS = 40
DESCRIPTION = (
    "Print the samples of a run: what the model wrote, with reward, group and line.\n"
    "A group has the samples of one step that name it. With --sort, its lowest come\n"
    "first; with -n as well, the lowest and the highest of each group are kept.\n"
    "Long texts are cut; --json has them whole."
)
EPILOG = (
    "examples:\n"
    "  toyspec samples runs/llama-001\n"
    "  toyspec samples runs/llama-001 --step 12 --sort reward -n 5\n"
    "  toyspec samples runs/llama-001 --json | jq -r '.[].text'"
)
USAGE = "toyspec samples [OPTION…] RUN"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("run", "RUN", "a run directory or a stream, also s3://…", type=public)
    parser.value("--step", "STEP", "the samples of this step alone", type=number_from(0))
    parser.value("--sort", "NUMBER", "reward, advantage, tokens or a part of the reward, lowest first")
    parser.value("-n --number", "N", "at most N samples of each group", type=number_from(1))
    parser.flag("--json", "print an array of objects, in the same order")
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the samples and return an exit code."""
    from toyspec.core.runs.samples import samples_of

    choice = dialect_choice(options)
    path = locate_stream(options.run, choice.stream_files)
    found = samples_of(path, step=options.step, sort=options.sort, most=options.number, dialect=choice)
    if options.json:
        sys.stdout.write(inert_json(found) + "\n")
        return exit_codes.OK
    terminal = Terminal(color=options.color)
    for sample in found:
        terminal.line(terminal.styled(_title(sample), "strong"))
        terminal.lines(f"  {line}" for line in _texts(sample))
    if not found:
        at = "" if options.step is None else f" at step {options.step}"
        tell("samples", f"{shown(options.run)} has no samples{at}")
    return exit_codes.OK


def _title(sample: dict[str, Any]) -> str:
    """Return where *sample* is and what its numbers are, on one line."""
    rewards = sample.get("rewards")
    named = {name: sample.get(name) for name in ("step", "group", "id", "reward", "advantage", "tokens")}
    named |= rewards if isinstance(rewards, dict) else {}
    if "reward" in sample and sample["reward"] is None:
        named["reward"] = "not finite"
    known = {shortened(str(name), _NAME_CHARS): value for name, value in named.items() if value is not None}
    parts = [
        f"{name} {shortened(value, _NAME_CHARS) if isinstance(value, str) else figure(value)}"
        for name, value in known.items()
    ]
    parts += ["truncated"] if sample.get("truncated") is True else []
    place = f"{sample['stream']}:{sample['line']}" if "stream" in sample else f"line {sample['line']}"
    return "  ".join([*parts, place])


def _texts(sample: dict[str, Any]) -> Iterator[str]:
    """Yield the prompt, each message of a conversation, and the text, each on a line."""
    messages = sample.get("messages")
    said = [
        (str(each.get("role")), each.get("content"))
        for each in (messages if isinstance(messages, list) else ())
        if isinstance(each, dict)
    ]
    for name, text in [("prompt", sample.get("prompt")), *said, ("text", sample.get("text"))]:
        if isinstance(text, str) and text:
            yield f"{shortened(name, _NAME_CHARS)}: {shortened(text, _TEXT_CHARS)}"
