"""The parties that hold a stream or write to it: adapters, the repair command, Java, and flock(1)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from conformance.adapters import AdapterError
from conformance.conversations import Conversation
from conformance.locks.streams import Action, request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from conformance.adapters import Adapter

_SECONDS = 30.0
_HERE = os.path.dirname(os.path.abspath(__file__))


class LeftOutError(Exception):
    """A party cannot do what is asked; the text is the reason."""


class NoLockError(LeftOutError):
    """A party says that its platform has no locks; the text is the reason."""


class Party(ABC):
    """A program that takes part. Holding and writing are done by different processes."""

    actions: Sequence[Action] = ()
    """What it can try on a stream."""
    can_hold = True
    """False for a program that holds a stream for an instant only."""
    is_ours = True
    """False for programs that represent other software."""

    def __init__(self, name: str) -> None:
        self.name = name

    def hold(self, path: str) -> None:
        """Open the stream at *path* for writing and keep it; raise LeftOutError if that is impossible."""
        raise LeftOutError(f"{self.name} does not hold {path}")

    def release(self) -> None:  # noqa: B027
        """Release the held stream."""

    @abstractmethod
    def act(self, path: str, action: Action) -> str:
        """Try *action* on the stream at *path*; return ``written``, ``refused``, or another outcome in words."""

    def close(self) -> None:  # noqa: B027
        """Terminate every program."""


class AdapterParty(Party):
    """A writer of the registry, through its adapter."""

    actions = ("resume", "replace", "append")

    def __init__(self, name: str, adapter: Adapter) -> None:
        super().__init__(name)
        self._adapter = adapter
        self._conversations: dict[str, Conversation] = {}
        self._held = ""

    def hold(self, path: str) -> None:
        """Resume a run, or append to a log, and keep it."""
        self._held = os.path.dirname(path)
        kind: Action = "append" if path.endswith("metrics.jsonl") else "resume"
        answer = self._ask("holder", request(self._held, kind, "held"))
        if "untestable" in answer:
            raise NoLockError(answer["untestable"])
        if answer.get("outcome") != "written":
            raise LeftOutError(f"it did not hold a stream: {_said(answer)}")

    def release(self) -> None:
        """Release the held stream."""
        self._ask("holder", {"role": "writer", "release": self._held})

    def act(self, path: str, action: Action) -> str:
        """Ask another process of the same adapter."""
        answer = self._ask("actor", request(os.path.dirname(path), action, "killed"))
        return str(answer["outcome"]) if "outcome" in answer else _said(answer)

    def close(self) -> None:
        """End both processes."""
        for conversation in self._conversations.values():
            conversation.close()
        self._conversations.clear()

    def _ask(self, part: str, message: dict[str, Any]) -> dict[str, Any]:
        try:
            if part not in self._conversations:
                self._conversations[part] = Conversation(self._adapter)
            return self._conversations[part].ask(message)
        except AdapterError as error:
            self._conversations.pop(part).close()
            raise LeftOutError(f"the adapter failed: {error}") from None


class RepairParty(Party):
    """A command that repairs the stream that is its last argument."""

    actions = ("repair",)
    can_hold = False

    def __init__(self, name: str, command: Sequence[str]) -> None:
        super().__init__(name)
        self._command = command

    def act(self, path: str, _: Action) -> str:
        """Run the command; it fails if it refuses the stream."""
        done = subprocess.run([*self._command, path], capture_output=True, timeout=_SECONDS, check=False)
        return "refused" if done.returncode else "written"


class JvmParty(Party):
    """A program of the Java platform with FileChannel.tryLock."""

    actions = ("append",)
    is_ours = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if shutil.which("javac") is None or shutil.which("java") is None:
            raise LeftOutError("javac is not installed")
        self._folder = tempfile.mkdtemp(prefix="locks-")
        self._programs: dict[str, subprocess.Popen[str]] = {}
        source = os.path.join(_HERE, "JvmWriter.java")
        done = subprocess.run(["javac", "-d", self._folder, source], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LeftOutError(f"javac failed: {done.stderr.strip()[:200]}")

    def hold(self, path: str) -> None:
        """Lock the file and keep it."""
        answer = self._say("holder", f"hold {path}")
        if answer != "written":
            raise LeftOutError(f"it did not hold a stream: {answer}")

    def release(self) -> None:
        """Close the file."""
        self._say("holder", "release")

    def act(self, path: str, _: Action) -> str:
        """Write a line with the lock."""
        return self._say("actor", f"append {path}")

    def close(self) -> None:
        """End both processes."""
        for program in self._programs.values():
            program.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _say(self, part: str, command: str) -> str:
        if part not in self._programs:
            words = ["java", "-Xshare:auto", "-cp", self._folder, "JvmWriter"]
            self._programs[part] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program = self._programs[part]
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(f"{command}\n")
        program.stdin.flush()
        return program.stdout.readline().strip() or "the program ended"


class FlockParty(Party):
    """The command flock(1), as shell scripts use it."""

    actions = ("append",)
    is_ours = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if shutil.which("flock") is None:
            raise LeftOutError("flock is not installed")
        self._holder: subprocess.Popen[str] | None = None

    def hold(self, path: str) -> None:
        """Run a long command under the lock."""
        words = ["flock", "-n", path, "sh", "-c", "echo held; cat"]
        self._holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline().strip() != "held":
            raise LeftOutError("it did not hold a stream")

    def release(self) -> None:
        """End the command."""
        assert self._holder is not None
        self._holder.communicate()

    def act(self, path: str, _: Action) -> str:
        """Write a line under the lock."""
        words = ["flock", "-n", path, "sh", "-c", 'echo >>"$0"', path]
        return "refused" if subprocess.run(words, timeout=_SECONDS, check=False).returncode else "written"


def foreign() -> Iterator[tuple[str, Party | str]]:
    """Yield the programs that represent other software, each by its name, or the reason why it is left out."""
    makers: tuple[tuple[str, type[JvmParty | FlockParty]], ...] = (("java", JvmParty), ("flock", FlockParty))
    for name, make in makers:
        try:
            yield name, make(name)
        except LeftOutError as error:
            yield name, str(error)


def toyspec_repair() -> RepairParty:
    """Return the command ``toyspec repair``."""
    return RepairParty("toyspec repair", [sys.executable, "-m", "toyspec", "repair", "--yes"])


def _said(answer: dict[str, Any]) -> str:
    return str(answer.get("reason") or answer.get("error") or answer.get("untestable") or answer.get("outcome"))
