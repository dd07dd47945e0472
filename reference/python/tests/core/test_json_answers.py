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

import toyspec
from command_line import toyspec_within
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
    "emitter": "prints a program",
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
    "check": ["runs", "--verbose runs/a", "empty", "missing runs", "odd", "foreign", "--select torn-end runs"],
    "show": ["runs/a", "runs/b", "runs/torn", "runs/damaged", "missing", "empty", "foreign", "-", "runs/ranks"],
    "ls": [
        "runs",
        "empty",
        "missing",
        "missing runs",
        "odd",
        "foreign",
        "--columns lr,loss,errors,config.é runs",
        "--where 'lr > 0' --sort loss runs",
        "--where 'nothing > 0' runs",
    ],
    "catalog": ["build runs --out built", "update catalog", "update missing", "build odd --out built"],
    "query": [
        "--catalog catalog 'select * from runs'",
        "--catalog catalog 'select run, lr from runs'",
        "--catalog catalog 'select 1 where false'",
        "--catalog missing 'select 1'",
        "--catalog catalog 'select x'",
        "--catalog catalog 'select current_date, 1.5::decimal, [1], {a: 1}, null'",
    ],
    "digest": ["runs/a runs/b", "runs/torn", "runs/damaged", "missing", "foreign", "--tokens 1 runs/a", "runs/ranks"],
    "doctor": ["runs", "empty", "missing", "odd", "foreign", "runs foreign"],
    "guard": ["runs/diverged", "runs/a", "--health-preset strict --fail-on info runs/damaged"],
    "import": ["foreign --out made", "foreign/log.csv --out made", "missing --out made", "empty --out made"],
    "export": [
        "tensorboard runs/a --out made",
        "csv runs --out made",
        "csv missing --out made",
        "csv empty --out made",
    ],
    "sync": ["runs copies", "missing copies", "empty copies", "odd copies"],
    "evidence": ["runs/a", "runs/torn", "missing", "foreign/log.csv"],
    "conform": [
        f"--adapter '{sys.executable} {ADAPTER}' --select toy-v1/step-skipped --role reader --jobs 1",
        "--adapter false",
        "",
        "list",
    ],
}
"""Arguments of each command with an answer: whole, torn, damaged, empty and foreign logs, and what fails."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of all sorts."""
    folder = tmp_path_factory.mktemp("answers")
    runs = folder / "runs"
    with toyspec.start_run(runs, run_id="a", config={"lr": 0.1, "max_steps": 4}, tags=["x"], notes="\x1b[0m é") as run:
        for step in range(4):
            run.step(loss=float("nan") if step == 1 else 1.0 / (step + 1))
            run.log({"val/acc": step / 4}, step=step + 1)
        run.eval("val", step=4, loss=0.5)
    with toyspec.start_run(runs, run_id="b", config={"lr": None, "max_steps": 8, "é\u202e": "\x1b[0m"}) as run:
        run.step(loss=2.0)
        run.step(loss=0.5)
        run.abandon()
    with toyspec.start_run(runs, run_id="diverged") as run:
        for step in range(60):
            run.step(loss=float("nan") if step > 50 else 1.0)
    for at in range(2):
        with toyspec.start_run(runs, run_id="resumed", exist="resume" if at else "fail") as run:
            for step in range(10 - 5 * at, 20):
                run.step(step, loss=1.0 / step)
    whole = (runs / "a/events.jsonl").read_bytes()
    for name, data in (("torn", whole[: len(whole) // 2 - 3]), ("damaged", whole.replace(b'"step"', b"\xff", 1))):
        (runs / name).mkdir()
        (runs / name / "events.jsonl").write_bytes(data)
    (runs / "ranks").mkdir()
    for name in ("events.jsonl", "events.rank-1.jsonl"):
        (runs / "ranks" / name).write_bytes(whole)
    _make_others(folder, whole)
    return folder


def _make_others(folder: Path, whole: bytes) -> None:
    """Make what is not a folder of usual runs."""
    (folder / "empty").mkdir()
    odd = os.path.join(os.fsencode(folder / "odd"), b"r\xff\n\x1b")
    os.makedirs(odd)
    with open(os.path.join(odd, b"events.jsonl"), "wb") as file:
        file.write(whole)
    (folder / "foreign").mkdir()
    (folder / "foreign/log.csv").write_text("step,loss\n" + "".join(f"{at},{1 / at}\n" for at in range(1, 9)))
    (folder / "notes.txt").write_text("".join(f"at {at} we had cost {1 / at:.3f}\n" for at in range(1, 30)))
    (folder / "empty.txt").write_text("\n")
    shutil.copytree(folder / "runs/a", folder / "sealed")
    for words in (
        ("catalog", "build", "runs", "--out", "catalog"),
        ("seal", "sealed"),
    ):
        toyspec_within(*words, cwd=folder)
    made = toyspec_within("evidence", "runs/a", "--json", cwd=folder)
    (folder / "evidence.json").write_bytes(made.stdout)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Return a copy of it that a command may change."""
    return Path(shutil.copytree(made, tmp_path / "here"))


@cache
def described(command: str) -> jsonschema.Draft202012Validator:
    """Return what validates the answers of *command*."""
    schema = answer_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def answered(command: str, arguments: str, folder: Path) -> tuple[int, list[Any], str]:
    """Return the status of *command*, what it printed with --json, and its words on standard error."""
    name, *option = command.split()
    stdin = (folder / "runs/a/events.jsonl").read_bytes()
    words = [name, *shlex.split(arguments), "--json"]
    if option:
        words[2:2] = option
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
    described_commands = {command.split()[0] for command in ANSWERS}
    assert COMMANDS.keys() == described_commands | NO_ANSWER.keys()
    assert not described_commands & NO_ANSWER.keys()
    for name in COMMANDS:
        flags = [action for action in command_parser(name)._actions if "--json" in action.option_strings]
        is_switch = bool(flags) and flags[0].nargs == 0
        assert (name in described_commands) == is_switch, name
    assert ANSWERS.keys() == CALLS.keys()


@pytest.mark.parametrize("command", ["ls", "show"])
def test_facts_are_those_of_one_table(command: str, folder: Path) -> None:
    """Every column of schemas/runs.json is there, by its name, and has the same value."""
    _, (found,), _ = answered(command, "runs/a", folder)
    (run,) = found if command == "ls" else [found]
    with contextlib.chdir(folder):
        assert summarize_run("runs/a").facts.columns == {name: run[name] for name in COLUMNS}
