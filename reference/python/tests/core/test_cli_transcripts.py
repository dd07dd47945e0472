"""Commands and everything they print, as files: ``transcripts/*.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/core/test_cli_transcripts.py`` writes them again; read the difference.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec_within
from command_matrix import MADE, PREPARED, asked, blocks, lines
from fixed_runs import fixed_runs

TRANSCRIPTS = sorted(Path(__file__).parents[1].glob("transcripts/*.txt"))
OPTION_ANSWERS = Path(__file__).parents[1] / "option_answers.txt"
_MARK = "==== "
ESCAPE = "\N{SYMBOL FOR ESCAPE}"
"""What a transcript has in place of the character that begins a colour."""
_MOST_CHARACTERS = 300
"""Of a JSON value on one line."""
_IDENTITY = re.compile(r'"identity": ?"[0-9a-f]+",')
"""Of a source that is imported: it depends on the times of files."""


def played(line: str, folder: Path) -> str:
    """Return the transcript of one command line in *folder*: ``$ toyspec …``, with ``< FILE`` for its input."""
    words, stdin = shlex.split(line)[2:], b""
    if words[-2:-1] == ["<"]:
        words, stdin = words[:-2], (folder / words[-1]).read_bytes()
    done = toyspec_within(*words, cwd=folder, stdin=stdin)
    errors = "".join(f"! {error}\n" for error in done.stderr.decode().splitlines())
    printed = done.stdout.decode().replace("\x1b", ESCAPE)
    return f"{line}\n{printed}{errors}[exit {done.returncode}]\n".replace(str(folder), "HERE")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path) -> None:
    """Each command of a transcript prints exactly what stands below it and exits as stated, one after the other."""
    if path.stem == "catalog":
        pytest.importorskip("duckdb", reason="the extra catalog is not installed")
    expected = path.read_text(encoding="utf-8")
    commands = [line for line in expected.splitlines() if line.startswith("$ toyspec ")]
    folder = Path(shutil.copytree(fixed_runs(), tmp_path / "here"))
    actual = "\n".join(played(line, folder) for line in commands)
    if os.environ.get("TOYSPEC_UPDATE"):
        path.write_text(actual, encoding="utf-8", newline="\n")
    assert commands
    assert expected == actual


def _flat(value: Any, place: str = "") -> Iterator[str]:
    """Yield *value* by its path, or each of its members where it is too long for a line."""
    text = json.dumps(value)
    if not isinstance(value, dict | list) or not value or (place and len(text) <= _MOST_CHARACTERS):
        yield f"{place}: {text}"
        return
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _flat(member, f"{place}.{key}" if place else f"{key}")


def _rows(answer: str) -> list[str]:
    """Return the lines of *answer*; what is a JSON object becomes a line for each of its members."""
    printed, mark, status = _IDENTITY.sub("", answer).rpartition("[exit ")
    with contextlib.suppress(ValueError):
        return [*_flat(json.loads(printed)), mark + status.rstrip()]
    found: list[str] = []
    for line in _IDENTITY.sub("", answer).splitlines():
        found += _flat(json.loads(line)) if line.startswith('{"') and line.endswith("}") else [line]
    return found


def _differing(rows: list[str], base: list[str]) -> list[str]:
    """Return what *rows* have other than *base*, as a difference without context."""
    found = difflib.unified_diff(base, rows, n=0, lineterm="")
    return [row for row in found if not row.startswith(("---", "+++", "@@"))]


def _block(name: str, subject: str, folder: Path, *, is_plain: bool) -> Iterator[str]:
    """Yield a command with its answer, and for each of its options what differs from the answer without it."""
    base, *options = lines(name, subject, is_plain=is_plain)
    answers: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for option in ("", *options):
        for made in MADE:
            _remove(folder / made)
        answer = played(f"{base} {option}".rstrip(), folder).partition("\n")[2]
        rows = _rows(answer)
        told = [option or base, *rows]
        if answer in first:
            told = [f"{option} as {first[answer]}".rstrip()]
        else:
            for earlier in answers.keys() & {"", "--json"}:
                shorter = [f"{option} as {earlier}".rstrip() + ", but", *_differing(rows, answers[earlier])]
                told = min(told, shorter, key=lambda each: sum(map(len, each)))
        first.setdefault(answer, option)
        answers[option] = rows
        yield "".join(f"{row}\n" for row in told)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", asked())
def test_every_option_of_a_command(name: str, tmp_path: Path) -> None:
    """Each option with each of its values prints what ``option_answers.txt`` has: whole, or as a difference."""
    if name in PREPARED:
        pytest.importorskip("duckdb", reason="the extra catalog is not installed")
    told = []
    for subject, is_plain in blocks(name):
        folder = tmp_path / "here"
        shutil.copytree(fixed_runs(), folder)
        if name in PREPARED:
            toyspec_within(*PREPARED[name].split(), cwd=folder)
        told.append("".join(_block(name, subject, folder, is_plain=is_plain)))
        shutil.rmtree(folder)
    actual = "\n".join(told)
    parts = OPTION_ANSWERS.read_text(encoding="utf-8").split(_MARK)
    kept = {command: answers for command, _, answers in (part.partition("\n") for part in parts[1:])}
    if os.environ.get("TOYSPEC_UPDATE"):
        kept_and_new = sorted((kept | {name: actual}).items())
        text = "".join(f"{_MARK}{command}\n{answers}" for command, answers in kept_and_new)
        OPTION_ANSWERS.write_text(text, encoding="utf-8", newline="\n")
    assert kept[name] == actual


def test_transcripts_are_there() -> None:
    """The folder of transcripts is not empty, so that none passes by being absent."""
    assert len(TRANSCRIPTS) >= 4
