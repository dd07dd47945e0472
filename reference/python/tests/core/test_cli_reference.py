"""The parsers of the commands: what each argument takes, defaults that help names, and completion."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import COMMANDS, command_parser
from toyspec.core.command_line.main import main
from toyspec.core.command_line.parsers import UsageError
from toyspec.core.commands.completion import SHELLS


def _named() -> list[tuple[str, argparse.Action, str]]:
    """Return each option of each command with the default that its help names."""
    found = []
    for name in COMMANDS:
        for action in command_parser(name)._actions:
            text = (action.help or "") % {**vars(action)} if action.help not in (None, argparse.SUPPRESS) else ""
            match = re.search(r"\(default: ([^\s,;)]+)\)|; default: ([^\s,;]+)$", text)
            if match:
                found.append((name, action, match[1] or match[2]))
    return found


@pytest.mark.parametrize(("name", "action", "default"), _named(), ids=lambda value: str(getattr(value, "dest", value)))
def test_default_is_the_one_that_help_names(name: str, action: argparse.Action, default: str) -> None:
    """Where an option has a default of its own, it is what the help says it is; else the command decides later."""
    assert name in COMMANDS
    if action.default in (None, [], argparse.SUPPRESS):
        return
    assert default in {str(action.default), f"{action.default:g}" if isinstance(action.default, float) else ""}


_PROBES = (
    *("", "-1", "0", "0.5", "1", "2", "1.5", "-", "nan", "inf", "1e999", "99999999999", "x", "x,y", "3x2", "+x"),
    *("loss <", "nothing = ", "loss<1<2", "s3://user:word@elsewhere/run", "file:///a", "*,val/*", "kill"),
)


def _answers(action: argparse.Action) -> Iterator[str]:
    """Yield a line of what *action* makes of texts, then each of its messages with the first text that is refused."""
    taken: list[str] = []
    messages: dict[str, str] = {}
    for text in _PROBES:
        try:
            taken.append(f"{text} -> {action.type(text)!r}" if callable(action.type) else text)
        except (argparse.ArgumentTypeError, ValueError, UsageError) as error:
            messages.setdefault(str(error).replace(repr(text), "…"), text)
    yield f"    {'; '.join(taken)}"
    yield from (f"    {text!r} is refused: {message}" for message, text in messages.items())


def _taken(name: str) -> Iterator[str]:
    """Yield each argument of a command: how it is given, its default, and what it makes of texts."""
    parser = command_parser(name)
    # Where a command has no usage of its own, argparse makes it of the arguments.
    yield parser.usage or name
    yield f"    options among other arguments: {parser.is_intermixed}"
    for action in parser._actions:
        if action.option_strings[:1] == ["-h"]:
            continue
        kind = type(action).__name__.removeprefix("_").removesuffix("Action")
        given = "/".join(action.option_strings) or action.dest
        # Python 3.13 requires no argument that may be empty; earlier versions say that they do.
        need = "needed" if action.required and action.nargs != "*" else "optional"
        yield f"{name} {given} -> {action.dest}: {kind}, {action.nargs}, {need}"
        yield f"    default {action.default!r}, constant {action.const!r}"
        if action.choices is not None:
            yield f"    one of {', '.join(map(str, action.choices))}"
        elif action.type is not None:
            yield from _answers(action)


def test_each_argument_takes_what_the_file_says() -> None:
    """Which values each option takes, and what it is without one: ``arguments.txt``, written by TOYSPEC_UPDATE=1."""
    path = Path(__file__).parents[1] / "arguments.txt"
    actual = "".join(f"{line}\n" for name in COMMANDS for line in _taken(name))
    if os.environ.get("TOYSPEC_UPDATE"):
        path.write_text(actual, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == actual


_PATHS = {"bash": "_shtab_compgen_files", "zsh": ":_files", "fish": "__fish_complete_path"}


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_commands_options_rules_and_paths(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of each shell completes them, and one that is installed takes it without complaint."""
    assert main(["completion", shell]) == exit_codes.OK
    script = capsys.readouterr().out
    words = [*COMMANDS, "fail-on", "step-goes-backwards", "github", _PATHS[shell]]
    assert [] == [word for word in words if word not in script]
    assert shell == "bash" or COMMANDS["check"] in script
    if shutil.which(shell):
        # Of zsh, the file is the body of a function that its completion system calls; run alone it lacks that.
        options = ["-n"] if shell == "zsh" else []
        done = subprocess.run([shell, *options], input=script, capture_output=True, text=True, check=False, timeout=300)
        assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ch"], {"check"}),
        (["check", "--req"], {"--require-complete"}),
        (["explain", "step-g"], {"step-goes-backwards"}),
        (["ls", "--sort", "started_"], {"started_at"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In bash, the beginning of a command, an option or a rule is completed."""
    main(["completion", "bash"])
    script = capsys.readouterr().out
    line = f"COMP_WORDS=(toyspec {' '.join(words)}); COMP_CWORD={len(words)}; _shtab_toyspec"
    ask = f'{script}\n{line} toyspec {words[-1]}\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash"], input=ask, capture_output=True, text=True, check=True, timeout=300)
    assert offered == {word.strip() for word in done.stdout.split()}
