"""Starts other programs: Python, git, and the commands that the user gave. Nothing else in the package starts one.

What toyspec starts itself never runs a file of the working directory, which may be a folder from elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Process = subprocess.Popen[bytes]
PIPE: Final = subprocess.PIPE
NOTHING: Final = subprocess.DEVNULL

_SAFE_PATH: Final = "PYTHONSAFEPATH"
_STARTING: Final = threading.Lock()
_MOST_GIT_SECONDS: Final = 2.0
"""How long git may take; looking for changes in a huge tree takes longer, and the run starts without."""
# Looking must not take the lock that a command of the user needs, and must fetch nothing.
_GIT_ENVIRONMENT: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}
# Without these, programs run that a repository names. A submodule can have filters of its own, so none is looked into.
_GIT_SETTINGS: Final = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "diff.ignoreSubmodules=dirty")
_GIT_FILTERS: Final = r"^filter\..*\.(clean|process|required)$"
_SCOPES_OF_USER: Final = ("system", "global", "command")


def start_python(*arguments: str, **options: Any) -> Process:
    """Start this Python with *arguments*; it finds no modules in the working directory. *options* are those of Popen.

    Raises OSError if it cannot be started.
    """
    return subprocess.Popen([sys.executable, "-P", *arguments], **options)


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Let every Python that is started within the block find no modules in the working directory.

    For workers, which the standard library starts by arguments of its own.
    """
    with _STARTING:
        before = os.environ.get(_SAFE_PATH)
        os.environ[_SAFE_PATH] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE_PATH]
            else:
                os.environ[_SAFE_PATH] = before


def ask_git(directory: str, *arguments: str) -> str | None:
    """Return what git prints in *directory*; None if it fails, takes longer than two seconds, or is not installed.

    Nothing that the repository names is run: no monitor, hook, filter, pager or transport.
    """
    program = shutil.which("git")
    if program is None or os.path.dirname(os.path.abspath(program)) == os.path.abspath("."):
        return None
    begin = [program, "--no-pager", "-C", directory]
    for setting in _GIT_SETTINGS:
        begin += ["-c", setting]
    try:
        if arguments[0] != "config":
            found = _printed([*begin, "config", "--null", "--show-scope", "--name-only", "--get-regexp", _GIT_FILTERS])
            words = found.split("\0")
            for scope, name in zip(words[::2], words[1::2], strict=False):
                if scope not in _SCOPES_OF_USER:
                    if "=" in name:  # Git would set another name.
                        return None
                    begin += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
        return _printed([*begin, *arguments], check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _printed(words: Sequence[str], *, check: bool = False) -> str:
    done = subprocess.run(
        words,
        capture_output=True,
        check=check,
        env=os.environ | _GIT_ENVIRONMENT,
        stdin=NOTHING,
        timeout=_MOST_GIT_SECONDS,
    )
    return done.stdout.decode()


def start_command(words: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any) -> Process:
    """Start the command *words* that the user gave, without a shell; raise OSError if it cannot be started."""
    return subprocess.Popen(words, env=environment, **options)


def run_command(words: Sequence[str], data: bytes, seconds: float) -> int | None:
    """Run the command *words* that the user gave, with *data* as its input, and return its status.

    Returns None if it was killed after *seconds*. Raises OSError if it cannot be started.
    """
    try:
        return subprocess.run(words, input=data, stdout=NOTHING, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        return None


def status_within(process: Process, seconds: float) -> int | None:
    """Return the status of *process*; None if it has not ended after *seconds*."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


class Forwarding:
    """Hands SIGTERM and SIGINT within the block to the command that runs: that decides how it ends."""

    def __init__(self) -> None:
        self.process: Process | None = None
        """The command that runs now."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._forward) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, _frame: object) -> None:
        # Ctrl-C on a terminal reaches the command by itself.
        if self.process is not None and (number != signal.SIGINT or not sys.stdin.isatty()):
            self.process.send_signal(number)
