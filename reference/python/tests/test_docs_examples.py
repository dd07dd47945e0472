"""Runs what README.md and docs/ show: each page is one program, in a folder of its own.

A ``python`` block is executed, in the namespace of its page. In a ``console`` block each line ``$ command`` is run, and
what follows is its output; ``<!-- exact -->`` above the block compares the two. ``<!-- not run -->`` above a
block leaves it out: what it shows needs something that a test has not, a network for example.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import toyspec
from command_line import toyspec_within
from loopback_store import forget, s3, served

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
# Those of the specification have tests of their own; those of its statements are made of cases, which have theirs.
ELSEWHERE = ("spec", "requirements")
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in ELSEWHERE),
]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>python|console)\b[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
MARK = re.compile(r"<!-- (exact|not run) -->\s*\Z")

PLAIN = re.compile(r"toyspec (?!.* -- )[^\\\n|&;<>()$`*?\[\]#~{}!]+")
"""A command that needs no shell, and starts no other program."""

OF_ALL_TESTS = ("polars",)
"""What examples import that only `make test-all` and CI install."""

SECONDS = 60
"""How long one command may take."""


class Example(NamedTuple):
    """One block of a page."""

    line: int
    """Line of the page at which the block's text begins, counted from 1."""
    language: Literal["python", "console"]
    mark: str
    """``exact``, ``not run`` or nothing."""
    text: str


class Command(NamedTuple):
    """One command of a ``console`` block, with the output that the page shows."""

    line: str
    output: str


def examples(page: str) -> Iterator[Example]:
    """Yield the blocks of *page* in their order."""
    for match in FENCE.finditer(page):
        indent = match["indent"]
        text = re.sub(f"^{indent}", "", match["text"], flags=re.MULTILINE)
        mark = MARK.search(page, 0, match.start())
        line = page.count("\n", 0, match.start("text")) + 1
        language: Literal["python", "console"] = "python" if match["language"] == "python" else "console"
        yield Example(line, language, mark[1] if mark else "", text)


def commands(text: str) -> list[Command]:
    """Return the commands in the text of a ``console`` block."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts[0].strip() == "", f"output before the first command: {parts[0]!r}"
    return [Command(line, output.strip("\n")) for line, _, output in (part.partition("\n") for part in parts[1:])]


def run(command: str) -> tuple[int, str]:
    """Return the exit status of *command* and all that it printed, as a terminal of 100 columns would show it."""
    if PLAIN.fullmatch(command):
        _, *words = shlex.split(command)
        within = toyspec_within(*words, env={"COLUMNS": "100", "NO_COLOR": "1"}, stderr="stdout")
        return within.returncode, within.stdout.decode()
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        ["sh", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode()


def execute(example: Example, page: Path, namespace: dict[str, Any]) -> None:
    """Execute a ``python`` block, whose lines keep the numbers that they have in *page*; skip where a package lacks."""
    source = "\n" * (example.line - 1) + example.text
    try:
        exec(compile(source, str(page), "exec"), namespace)
    except ModuleNotFoundError as error:
        if error.name not in OF_ALL_TESTS:
            raise
        pytest.skip(f"from line {example.line} on: {error.name} is not installed: `make test-all`")


def run_console(example: Example, page: Path) -> None:
    """Run the commands of a ``console`` block and compare their output if the block is exact."""
    for command in commands(example.text):
        status, output = run(command.line)
        place = f"{page.name}:{example.line}: $ {command.line}"
        # 1 says that there are findings, which examples like to show; 2 and more say that the example is wrong.
        assert status in (0, 1), f"{place} exits with {status}\n{output}"
        assert "Traceback" not in output, f"{place}\n{output}"
        if example.mark == "exact":
            assert command.output == output.strip("\n"), place


@pytest.mark.skipif(shutil.which("sh") is None, reason="the examples are for a POSIX shell")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example of a page runs, after those above it, and prints what the page says."""
    monkeypatch.chdir(tmp_path)
    # A program imports what is beside it.
    monkeypatch.syspath_prepend(tmp_path)
    text = page.read_text(encoding="utf-8")
    with contextlib.ExitStack() as servers:
        if "s3://" in text:
            serve_bucket(servers, monkeypatch)
        run_page(page, text)


def serve_bucket(servers: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve a bucket with two runs until *servers* is closed; ``s3://bucket`` names it."""
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    store = servers.enter_context(served())
    for name, value in s3(store).items():
        monkeypatch.setenv(name, value)
    forget()
    servers.callback(forget)
    for name in ("llama-001", "llama-002"):
        with toyspec.start_run("made", run_id=name, config={"lr": 3e-4}) as run:
            run.step(loss=2.5)
            run.step(loss=2.25)
        store.put(f"runs/{name}/events.jsonl", (Path(run.directory) / "events.jsonl").read_bytes())
    shutil.rmtree("made")


def run_page(page: Path, text: str) -> None:
    """Run the examples of *page*, whose content is *text*, one after the other."""
    # The main module of a page is its own: what it defines is gone with it.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples(text):
        if example.mark == "not run":
            continue
        if example.language == "python":
            execute(example, page, namespace)
        else:
            run_console(example, page)


@pytest.mark.skipif(shutil.which("sh") is None, reason="the pages' other examples need it, and one machine is enough")
def test_documented_programs_have_types(tmp_path: Path) -> None:
    """What a user copies into a program that ``mypy --strict`` checks adds no error to it.

    Libraries without types are left to their users, and so is a block that is not run, which stands for a part of a
    program.
    """
    for page in PAGES:
        lines: list[str] = []
        for example in examples(page.read_text(encoding="utf-8")):
            if example.language == "python" and example.mark != "not run":
                lines += [""] * (example.line - 1 - len(lines)) + example.text.splitlines()
        name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
        (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--strict", "--config-file=", "--no-error-summary", "--disable-error-code=import-untyped"]
    options += ["--disable-error-code=import-not-found", "--disable-error-code=misc"]
    options += ["--disable-error-code=unused-ignore"]
    command = [sys.executable, "-m", "mypy", *options, "--cache-dir", str(tmp_path / "cache"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT / "reference/python", capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stdout), done.stdout + done.stderr
