"""The programs that write, one per language; "Durable writers" in PROTOCOL.md tells outsiders how to write one.

A program reads one command per line and answers with one line. It holds one writer.

| command | what the program does |
|---|---|
| ``open EXIST DIRECTORY`` | opens the toy/v1 stream in the directory; EXIST is replace, fail or resume |
| ``append PATH`` | opens the metrics/v1 stream at the path |
| ``start``, ``resume N``, ``end`` | writes run_start, a run_resume from step N, run_end |
| ``step N``, ``note N SIZE`` | writes a step, a note of step N with a text of SIZE bytes |
| ``entry N`` | writes an entry of metrics/v1 |
| ``value NAME`` | writes what is hostile in this language; see ``values.py`` |
| ``fork N`` | writes step N in a forked child, and answers what the child got |
| ``bundle DIRECTORY`` | logs a run with RunBundle, step 2 of 3 in a forked child; ``ok`` where that raised nothing |
| ``read PATH`` | reads the stream to its end, with the reader of the library |
| ``dropped`` | answers ``ok`` and the number of dropped records |
| ``close`` | releases the stream |

The answers are ``ok`` (a record is then acknowledged), ``failed`` with the library's message, and ``untestable`` with
the reason why the language cannot do it; ``lacks`` in programs.json has the reasons for whole commands. SIGINT raises
an exception inside a call, where the language has such; the answer is then ``failed interrupted``. The program lets go
of everything and exits with 0 at the end of its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from conformance.registry import HERE, BuildError, Implementation, filled, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ANSWER_SECONDS = 30.0
_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0"}


class ProgramError(Exception):
    """A program crashed, hung or answered something else; the text says what."""


class Answer(NamedTuple):
    """What a program answered to one command."""

    word: str
    """``ok``, ``failed`` or ``untestable``."""
    text: str
    """What follows the word."""

    @property
    def is_ok(self) -> bool:
        """True when the record is acknowledged."""
        return self.word == "ok"


@dataclass(frozen=True)
class Writer:
    """A program that can be started."""

    name: str
    command: tuple[str, ...]
    implementation: Implementation | None
    """How it is built; None for a program that exists."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Why the language cannot do some commands; ``interrupt`` stands for SIGINT inside a call."""

    def missing(self) -> str | None:
        """Return what this machine lacks, None where it has all."""
        return None if self.implementation is None else self.implementation.missing()

    def make(self) -> None:
        """Build the program; raise BuildError."""
        if self.implementation is None:
            return
        self.implementation.make()
        path = next(word for word in reversed(self.command) if os.sep in word)
        if not os.path.exists(path):
            raise BuildError(f"the build of {self.name} made no {path}")


def writers(only: Sequence[str]) -> Iterator[Writer]:
    """Yield the programs of the registry, those named in *only* where it names any."""
    with open(os.path.join(HERE, "faults", "programs.json"), encoding="utf-8") as file:
        programs = {item["name"]: item for item in json.load(file)["programs"]}
    for implementation in load():
        if only and implementation.name not in only:
            continue
        program = programs[implementation.name]
        build = tuple(map(tuple, program["build"]))
        command, lacks = tuple(filled(program["command"])), program.get("lacks", {})
        yield Writer(implementation.name, command, replace(implementation, build=build), lacks)


def outside_writer(command: str, lacks: Sequence[str] = ()) -> Writer:
    """Return the writer whose program *command* starts, which is built already; *lacks* says what it cannot do."""
    words = tuple(shlex.split(command))
    reasons = {name: why or "the program cannot do it" for name, _, why in (item.partition("=") for item in lacks)}
    return Writer(os.path.basename(words[-1]), words, None, reasons)


class Program:
    """A running program."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start *command*, with every signal at its default."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
        self._buffer = b""
        self._said = ""

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._popen.pid

    def say(self, command: str) -> Answer:
        """Send one command and return its answer; raise ProgramError."""
        self.send(f"{command}\n")
        return self.hear(command)

    def send(self, text: str) -> None:
        """Send lines without waiting for answers."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # hear says how the program ended
            self._popen.stdin.write(text.encode())
            self._popen.stdin.flush()

    def hear(self, command: str, seconds: float = ANSWER_SECONDS) -> Answer:
        """Return the next answer, which is to *command*; raise ProgramError where none comes."""
        assert self._popen.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not select.select([self._popen.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise ProgramError(f"`{command}` hangs")
            read = os.read(self._popen.stdout.fileno(), 65536)
            if not read:
                raise ProgramError(f"`{command}` ended the program with {self._popen.wait()}: {self.stderr()[-300:]}")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        word, _, text = line.decode(errors="replace").partition(" ")
        if word not in {"ok", "failed", "untestable"}:
            raise ProgramError(f"`{command}` was answered with {line[:100]!r}")
        return Answer(word, text)

    def answers_so_far(self) -> Iterator[Answer]:
        """Yield the answers that a program gave before it ended."""
        while True:
            try:
                yield self.hear("", 5.0)
            except ProgramError:
                return

    def kill(self) -> None:
        """Send SIGKILL to the program, and to what traces it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end of a program that ends by itself; return its status, or raise ProgramError."""
        try:
            return self._popen.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            raise ProgramError("the program did not end") from None

    def stderr(self) -> str:
        """Return what the program wrote to standard error so far."""
        if not self._stderr.closed:
            self._stderr.seek(0)
            self._said = self._stderr.read().decode(errors="replace").strip()
        return self._said

    def close(self) -> int:
        """End the input, and return the exit status."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()
        try:
            status = self._popen.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._popen.wait()
        self._popen.stdout.close()
        self.stderr()
        self._stderr.close()
        return status
