"""Commands and everything they print, as files: ``transcripts/*.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/test_cli_transcripts.py`` writes them again; read the difference.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from command_line import toyspec_within

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))
ESCAPE = "\N{SYMBOL FOR ESCAPE}"
"""What a transcript has in place of the character that begins a colour."""


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
    folder = Path(shutil.copytree(FOLDER, tmp_path / "here"))
    actual = "\n".join(played(line, folder) for line in commands)
    if os.environ.get("TOYSPEC_UPDATE"):
        path.write_text(actual, encoding="utf-8", newline="\n")
    assert commands
    assert expected == actual


def test_transcripts_are_there() -> None:
    """The folder of transcripts is not empty, so that none passes by being absent."""
    assert len(TRANSCRIPTS) >= 4
