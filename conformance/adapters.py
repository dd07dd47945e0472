"""Starts and ends adapters: see PROTOCOL.md. Every wait has a deadline, and every started process is terminated."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from conformance.commands import kill_group
from conformance.messages import ProtocolError, demand_hello, demand_one_line, parse, printed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.transcript import Transcript

Answer = dict[str, Any]

HELLO_SECONDS = 20.0
ANSWER_SECONDS = 10.0
_MIB = 1024 * 1024
_STDERR_BYTES = 300
_ENDING_SECONDS = 2.0
_MOST_PROGRAMS = 8
_LEAST_BUSY_SECONDS = 0.005


class AdapterError(Exception):
    """The adapter crashed, missed a deadline, or broke the protocol; the text says which."""

    def __init__(self, fact: str, *, stderr: str = "", shared: bool = False) -> None:
        super().__init__(f"{fact}; standard error: {stderr}" if stderr else fact)
        self.shared = shared
        """True when several requests were in flight, so the cause is unknown."""


class Adapter:
    """How an adapter is started, and its hello."""

    at_once = 2
    """Number of requests in flight at a time in ``--lines`` mode."""

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        directory: str | None = None,
        deadline: float = ANSWER_SECONDS,
        mode: Literal["auto", "lines", "oneshot"] = "auto",
        transcript: Transcript | None = None,
    ) -> None:
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        self.directory = directory
        self.deadline = deadline
        self.mode = mode
        self.transcript = transcript
        self.hello: dict[str, Any] = {}
        self.hello_seconds = 0.0
        """How long the program took to start, print its hello and exit."""
        self._waits = 1.0
        """How many programs one processor can start at a time: a program that waits leaves it to others."""

    @property
    def lines(self) -> bool:
        """True when requests are sent in ``--lines`` mode."""
        return self.mode == "lines" or (self.mode == "auto" and bool(self.hello.get("lines")))

    def ask_hello(self) -> dict[str, Any]:
        """Return the hello that ``--hello`` prints; raise AdapterError."""
        start, busy = time.monotonic(), _busy_seconds()
        with Process(self, ["--hello"]) as process:
            output, status = process.communicate(b"", HELLO_SECONDS)
            self.hello_seconds = time.monotonic() - start
            self._waits = self.hello_seconds / max(_busy_seconds() - busy, _LEAST_BUSY_SECONDS)
            if status != 0:
                raise AdapterError(f"--hello {ended(status)}{printed(output)}", stderr=process.stderr())
            try:
                line = demand_one_line(output)
            except ProtocolError as error:
                raise AdapterError(f"--hello {error}", stderr=process.stderr()) from None
            try:
                self.hello = demand_hello(parse(line))
            except ProtocolError as error:
                raise AdapterError(f"the hello is outside the protocol: {error}") from None
        return self.hello

    def jobs(self, processors: int) -> int:
        """Return how many programs to run in parallel on so many *processors*."""
        return processors if self.lines else max(processors, min(_MOST_PROGRAMS, round(processors * self._waits)))

    def seconds_for(self, size: int) -> float:
        """Return how long an answer to a request of *size* bytes may take."""
        return self.deadline + size / _MIB


class Process:
    """A started program; leaving the context terminates it and its child processes."""

    def __init__(self, adapter: Adapter, arguments: Sequence[str]) -> None:
        self.adapter = adapter
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        try:
            self.popen = subprocess.Popen(
                [*adapter.command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                cwd=adapter.directory,
                start_new_session=True,
            )
        except OSError as error:
            self.errors.close()
            raise AdapterError(f"{adapter.command[0]!r} does not start: {error.strerror or error}") from None

    def communicate(self, data: bytes, seconds: float) -> tuple[bytes, int]:
        """Return the whole output for *data* and the exit status; raise AdapterError after the deadline."""
        try:
            output, _ = self.popen.communicate(data, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AdapterError(f"no answer within {seconds:.1f} seconds", stderr=self.stderr()) from None
        return output, self.popen.returncode

    def stderr(self) -> str:
        """Return the end of standard error as text that is safe to show."""
        try:
            size = self.errors.seek(0, os.SEEK_END)
            self.errors.seek(max(0, size - _STDERR_BYTES))
            text = self.errors.read().decode(errors="replace").strip()
        except ValueError:
            return ""
        return ascii(text)[1:-1].replace("\\n", " | ")

    def wait(self) -> None:
        """Wait a moment for the program to exit after its input has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_ENDING_SECONDS)

    def close(self) -> None:
        """Terminate the program."""
        kill_group(self.popen)
        try:
            self.popen.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                close_quietly(pipe)
        self.errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _busy_seconds() -> float:
    """Return the processor time of this process and of the child processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def ended(status: int) -> str:
    """Return how a program ended, as a predicate."""
    return f"was terminated by signal {-status}" if status < 0 else f"ended with exit status {status}"


def close_quietly(pipe: IO[bytes]) -> None:
    """Close *pipe*, even if its other end is gone."""
    with contextlib.suppress(OSError):
        pipe.close()
