"""Runs the command line: as a process, the way a user does, or within this one where many commands are run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal

import pytest

from toyspec.core.command_line.main import main

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_RUN = "import sys; from toyspec.core.command_line.main import run; sys.exit(run())"
_TERMINAL = ("COLUMNS", "NO_COLOR", "TERM", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG")


def command(*arguments: str | bytes) -> list[str | bytes]:
    """Return the command line of a process that runs toyspec with *arguments*."""
    return [sys.executable, "-c", _RUN, *arguments]


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process whose output depends on nothing but *changes*."""
    kept = {name: value for name, value in os.environ.items() if name not in _TERMINAL}
    return {**kept, "PYTHONUTF8": "1", **(changes or {})}


def toyspec(
    *arguments: str | bytes,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run toyspec to its end and return what came of it."""
    return ran(command(*arguments), cwd=cwd, input=stdin, env=environment(env))


def ran(words: Sequence[str | bytes], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end and return what came of it; *options* are those of ``subprocess.run``."""
    usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(), "timeout": 300}
    return subprocess.run(words, check=False, **(usual | options))


def started(*arguments: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
    """Start toyspec, with pipes for what it prints; *options* are those of ``Popen``."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*arguments), stdout=pipe, stderr=pipe, env=environment(), **options)


def toyspec_within(
    *arguments: str | bytes,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    stderr: Literal["apart", "stdout"] = "apart",
) -> subprocess.CompletedProcess[bytes]:
    """Do as `toyspec` in this process, at a tenth of its cost: for commands that need no process of their own.

    With *stderr* "stdout", the errors are among the output, in the order in which they were printed.
    """
    printed, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", newline="\n") for _ in range(2))
    errors = printed if stderr == "stdout" else errors
    with pytest.MonkeyPatch.context() as patch:
        if cwd is not None:
            patch.chdir(cwd)
        for name in _TERMINAL:
            patch.delenv(name, raising=False)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        # Its own standard output is that of all tests.
        patch.setattr("toyspec.core.command_line.main._keep_standard_output", lambda: None)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        for name, stream in (("stdout", printed), ("stderr", errors)):
            patch.setattr(sys, name, stream)
            patch.setattr(sys, f"__{name}__", stream)  # whose terminal has a width
        code = main([os.fsdecode(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, code, _contents(printed), _contents(errors))


def _contents(stream: io.TextIOWrapper) -> bytes:
    stream.seek(0)
    return bytes(stream.buffer.read())
