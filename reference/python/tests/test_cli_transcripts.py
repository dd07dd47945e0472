"""Commands and everything they print, as files: ``transcripts/*.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/test_cli_transcripts.py`` writes them again; read the difference.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from command_line import toyspec_within

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


def played(line: str) -> str:
    """Return the transcript of one command line, which begins with ``$ toyspec``."""
    done = toyspec_within(*shlex.split(line)[2:], cwd=FOLDER)
    errors = "".join(f"! {error}\n" for error in done.stderr.decode().splitlines())
    return f"{line}\n{done.stdout.decode()}{errors}[exit {done.returncode}]\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    """Each command of a transcript prints exactly what stands below it and exits as stated."""
    expected = path.read_text(encoding="utf-8")
    commands = [line for line in expected.splitlines() if line.startswith("$ toyspec ")]
    actual = "\n".join(played(line) for line in commands)
    if os.environ.get("TOYSPEC_UPDATE"):
        path.write_text(actual, encoding="utf-8", newline="\n")
    assert commands
    assert expected == actual


def test_transcripts_are_there() -> None:
    """The folder of transcripts is not empty, so that none passes by being absent."""
    assert len(TRANSCRIPTS) >= 4
