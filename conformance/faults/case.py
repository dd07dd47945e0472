"""One fault against one writer, in a folder of its own."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from conformance.faults.programs import Answer, Program, Writer
from conformance.faults.streams import Found, found_in, name_of_command, wrong_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_CRASHES = (
    "Traceback",
    "panicked",
    "runtime error",
    "Sanitizer",
    "Fatal error: exception",
    "Error: Uncaught",
    "goroutine 1",
)
START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
STEP = b'{"kind":"step","phase":"train","t":1.0,"step":1,"loss":0.5}\n'
ENTRY = b'{"step":1,"wall_time_ms":1.0,"loss":0.5,"grad_norm":0.5,"throughput_samples_per_sec":1.0,"extra":{}}\n'


class LeftOutError(Exception):
    """A fault cannot be made here, or this language cannot meet it; the text says why."""


class MachineError(LeftOutError):
    """This machine lacks what makes the fault."""


class Case:
    """What a fault does with a writer. It collects complaints; a case without any is ok."""

    def __init__(self, writer: Writer, folder: str, *, is_long: bool) -> None:
        self.folder = folder
        self.is_long = is_long
        """True where loops run for minutes."""
        self.directory = os.path.join(folder, "demo")
        self.stream = os.path.join(self.directory, "events.jsonl")
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        """The messages of all calls that failed."""
        self.complaints: list[str] = []
        self._writer = writer
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        """The program that runs."""
        assert self._program is not None
        return self._program

    def run(self, prefix: Sequence[str] = ()) -> None:
        """Start the program, under the command *prefix* where given."""
        self._program = Program([*prefix, *self._writer.command])

    def needs(self, command: str) -> None:
        """Leave the fault out where the language cannot do *command*."""
        if why := self._writer.lacks.get(command):
            raise LeftOutError(why)

    def say(self, command: str) -> Answer:
        """Send one command; what it acknowledges, and what fails, is remembered."""
        return self.take(command, self.program.say(command))

    def take(self, command: str, answer: Answer) -> Answer:
        """Remember the answer to *command*."""
        if answer.word == "untestable":
            raise LeftOutError(answer.text)
        if not answer.is_ok:
            self.failures.append(answer.text)
        elif name := name_of_command(command):
            self.acknowledged.append(name)
        return answer

    def say_all(self, *commands: str) -> None:
        """Send commands that have to succeed."""
        for command in commands:
            answer = self.say(command)
            self.demand(answer.is_ok, f"`{self._short(command)}` failed: {self._short(answer.text)}")

    def refused(self, command: str) -> str:
        """Send a command that has to fail with a message that names the path; return the message."""
        answer = self.say(command)
        self.demand(not answer.is_ok, f"`{self._short(command)}` did not fail")
        self.demand(
            answer.is_ok or self.directory in answer.text, f"no path in the message: {self._short(answer.text)}"
        )
        return answer.text

    def demand_locked(self, *, is_locked: bool, complaint: str) -> None:
        """Complain unless another process finds each kind of lock that the language has taken, or none of them."""
        if "locks" in self._writer.lacks:
            return
        for lock in (fcntl.lockf,) if "flock" in self._writer.lacks else (fcntl.flock, fcntl.lockf):
            with open(self.stream, "r+b") as file:
                try:
                    lock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                    was_locked = False
                except OSError:
                    was_locked = True
            self.demand(was_locked == is_locked, f"{complaint} ({lock.__name__})")

    def demand(self, holds: bool, complaint: str) -> None:
        """Complain unless something holds."""
        if not holds and complaint not in self.complaints:
            self.complaints.append(complaint)

    def stop(self) -> None:
        """End the program; complain about a crash."""
        if self._program is None:
            return
        status, stderr = self._program.close(), self._program.stderr()
        self._program = None
        self.demand(status == 0, f"the program ended with {status}: {stderr[-200:]}")
        crash = next((word for word in _CRASHES if word in stderr), "")
        self.demand(not crash, f"{crash} on standard error: {stderr[-200:]}")

    def abandon(self) -> None:
        """Kill the program, if it runs."""
        if self._program is not None:
            self._program.kill()
            self._program.close()
            self._program = None

    def settle(self, path: str = "", *, fragment: bytes = b"") -> Found:
        """End the program, then complain about all that is wrong with the stream; return what is in it."""
        self.stop()
        found = found_in(path or self.stream)
        for wrong in wrong_in(found, self.acknowledged):
            self.demand(False, wrong)
        self.demand(found.fragment == fragment, f"unexpected bytes after the last LF: {found.fragment[:40]!r}")
        return found

    def make(self, content: bytes, path: str = "") -> None:
        """Write a file, the stream unless *path* names another, with its directory."""
        path = path or self.stream
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def files(self) -> dict[str, bytes]:
        """Return the bytes of every file beside the stream by its name."""
        found = {}
        for name in sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else ():
            with open(os.path.join(self.directory, name), "rb") as file:
                found[name] = file.read()
        return found

    def _short(self, text: str) -> str:
        return text.replace(self.folder, "…")[:160]
