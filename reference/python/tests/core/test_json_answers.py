"""What commands print with --json is what schemas describe: every command, on runs of all sorts, and where it fails."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from command_line import toyspec_within
from fixed_runs import fixed_runs
from toyspec.core.command_line.commands import ANSWERS, COMMANDS, command_parser
from toyspec.core.command_line.exit_codes import MEANINGS, OK, USAGE
from toyspec.core.commands.schema import answer_schema
from toyspec.core.generated.runs import COLUMNS
from toyspec.core.runs.summary import summarize_run

ADAPTER = Path(__file__).parents[2] / "conform/adapter.py"

NO_ANSWER = {
    "view": "serves pages, whose messages belong to the viewer of the same version",
    "watch": "draws a screen",
    "mcp": "speaks a protocol of its own",
    "report": "writes a page",
    "plot": "writes a picture",
    "mirror": "sends, and says nothing but why it failed",
    "tail": "shows what comes; the lines of the log are the answer, by the schemas of its kinds",
    "train": "writes a run",
    "capture": "writes a run, and forwards what its command prints",
    "run": "prints what its command prints",
    "emitter": "prints a program",
    "dialect": "prints settings",
    "skill": "prints a text",
    "schema": "prints a schema",
    "explain": "prints a page; schemas/rules.json has the facts",
    "repair": "changes files; its status has the answer",
    "seal": "changes files; its status has the answer",
    "annotate": "changes files; ls has the annotated facts",
    "compare": "prints a table for people; ls has the same facts of each run",
    "completion": "prints a program",
}
"""Why a command prints no facts."""

CALLS = {
    "check": [
        "sorts",
        "--verbose more/rich",
        "empty",
        "missing sorts",
        "strange",
        "sorts/other",
        "--select torn-end sorts",
    ],
    "show": [
        "more/rich",
        "sorts/resumed",
        "more/torn",
        "more/damaged",
        "missing",
        "empty",
        "sorts/other",
        "-",
        "sorts/ranks",
    ],
    "ls": [
        "sorts",
        "empty",
        "missing",
        "missing sorts",
        "strange",
        "sorts/other",
        "--columns lr,loss,errors,config.é sorts",
        "--where 'lr > 0' --sort loss sorts",
        "--where 'nothing > 0' sorts",
    ],
    "catalog": ["build sorts --out built", "update catalog", "update missing", "build strange --out built"],
    "query": [
        "--catalog catalog 'select * from runs'",
        "--catalog catalog 'select run, lr from runs'",
        "--catalog catalog 'select 1 where false'",
        "--catalog missing 'select 1'",
        "--catalog catalog 'select x'",
        "--catalog catalog 'select current_date, 1.5::decimal, [1], {a: 1}, null'",
    ],
    "digest": ["more/rich sorts/resumed", "more/torn", "missing", "sorts/other", "--tokens 1 more/rich", "sorts/ranks"],
    "bisect": [
        "sorts/whole sorts/resumed",
        "more/rich more/torn",
        "sorts/whole sorts/whole",
        "missing sorts/whole",
        "sorts/diverged sorts/ranks",
        "--metric nothing sorts/whole sorts/resumed",
    ],
    "samples": ["more/rich --sort reward -n 1", "more/torn", "missing", "sorts/other/log.csv", "more/rich --sort no"],
    "expect": [
        "write sorts/whole sorts/resumed",
        "check sorts/resumed golden.json",
        "check missing golden.json",
        "write missing",
        "check sorts/whole sorts/whole/events.jsonl",
        "write sorts/other/log.csv",
        "check sorts/whole golden.json",
    ],
    "doctor": ["sorts", "empty", "missing", "strange", "sorts/other", "sorts sorts/other"],
    "guard": [
        "sorts/whole",
        "sorts/resumed",
        "--idle-timeout 0.01 --health-preset strict --fail-on info sorts/diverged",
    ],
    "import": ["sorts/other --out made", "sorts/other/log.csv --out made", "missing --out made", "empty --out made"],
    "export": [
        "tensorboard more/rich --out made",
        "csv sorts --out made",
        "csv missing --out made",
        "csv empty --out made",
    ],
    "sync": ["sorts copies", "missing copies", "empty copies", "strange copies"],
    "evidence": ["more/rich", "more/torn", "missing", "sorts/other/log.csv"],
    "conform": [
        f"--adapter '{sys.executable} {ADAPTER}' --select toy-v1/step-skipped --role reader --jobs 1",
        "--adapter false",
        "",
        "list",
    ],
}
"""Arguments of each command with an answer: whole, torn, damaged, empty and foreign logs, and what fails."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the fixed runs, with an empty folder, a run whose name is not text, and a catalog beside them."""
    folder = Path(shutil.copytree(fixed_runs(), tmp_path / "here"))
    (folder / "empty").mkdir()
    shutil.copytree(folder / "sorts/whole", os.fsdecode(os.fsencode(folder) + b"/strange/r\xff\n\x1b"))
    toyspec_within("expect", "write", "sorts/whole", "-o", "golden.json", cwd=folder)
    toyspec_within("catalog", "build", "sorts", "--out", "catalog", cwd=folder)
    return folder


@cache
def described(command: str) -> jsonschema.Draft202012Validator:
    """Return what validates the answers of *command*."""
    schema = answer_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def answered(command: str, arguments: str, folder: Path) -> tuple[int, list[Any], str]:
    """Return the status of *command*, what it printed with --json, and its words on standard error."""
    stdin = (folder / "more/rich/events.jsonl").read_bytes()
    words = [command, *shlex.split(arguments), "--json"]
    result = toyspec_within(*words, cwd=folder, stdin=stdin)
    assert result.stdout.isascii(), words
    # One object on each line, or one over all lines.
    parts = result.stdout.splitlines() if command == "guard" else [result.stdout] * bool(result.stdout)
    return result.returncode, [json.loads(part) for part in parts], result.stderr.decode()


@pytest.mark.parametrize("command", ANSWERS)
def test_answer_is_what_its_schema_describes(command: str, folder: Path) -> None:
    """It is one object of ASCII, or nothing where the status is 2 and standard error says why."""
    statuses = set()
    for arguments in CALLS[command]:
        status, found, errors = answered(command, arguments, folder)
        problems = [error.message for each in found for error in described(command).iter_errors(each)]
        assert [] == problems, (command, arguments)
        assert status in MEANINGS, (command, arguments)
        assert found or (status == USAGE and errors) or command == "guard", (command, arguments, status, errors)
        statuses.add((status, bool(found)))
    assert any(has for _, has in statuses)
    assert (USAGE in {status for status, _ in statuses}) or command == "guard"
    assert any(status == OK and has for status, has in statuses) or command == "guard"


def test_every_command_that_prints_facts_has_a_schema() -> None:
    """A command has --json and a schema, or a reason why it prints no facts."""
    assert COMMANDS.keys() == ANSWERS.keys() | NO_ANSWER.keys()
    assert not ANSWERS.keys() & NO_ANSWER.keys()
    for name in COMMANDS:
        flags = [action for action in command_parser(name)._actions if "--json" in action.option_strings]
        is_switch = bool(flags) and flags[0].nargs == 0
        assert (name in ANSWERS) == is_switch, name
    assert ANSWERS.keys() == CALLS.keys()


@pytest.mark.parametrize("command", ["ls", "show"])
def test_facts_are_those_of_one_table(command: str, folder: Path) -> None:
    """Every column of schemas/runs.json is there, by its name, and has the same value."""
    _, (found,), _ = answered(command, "more/rich", folder)
    (run,) = found if command == "ls" else [found]
    with contextlib.chdir(folder):
        assert summarize_run("more/rich").facts.columns == {name: run[name] for name in COLUMNS}
