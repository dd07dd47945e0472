"""Runs the command line as a process, the way a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_RUN = "import sys; from toyspec.cli.main import run; sys.exit(run())"


def command(*arguments: str | bytes) -> list[str | bytes]:
    """Return the command line of a process that runs toyspec with *arguments*."""
    return [sys.executable, "-c", _RUN, *arguments]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process whose output depends on nothing but *changes*."""
    names = ("COLUMNS", "NO_COLOR", "TERM", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "PYTHONUTF8": "1", **(changes or {})}


def toyspec(
    *arguments: str | bytes,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run toyspec to its end and return what came of it."""
    return subprocess.run(
        command(*arguments), cwd=cwd, input=stdin, env=environment(env), capture_output=True, check=False, timeout=60
    )
