"""Commands end with all that they started: on a time-out and an interruption."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from conformance.commands import captured
from conformance.pipes import BROKEN_PIPE
from conformance.registry import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOP = 'sh -c \'while :; do echo >> "$0"; sleep 0.01; done\' "$0" & wait'
"""A shell script that starts a process which adds a byte to the file `$0` again and again, as a looping test would."""

RUNNER = """
import sys
from conformance.commands import captured
captured(["sh", "-c", sys.argv[1], sys.argv[2]], ".", 60)
"""


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until *holds*."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def grows(path: Path) -> bool:
    """Return whether a process still writes to *path*."""
    before = path.stat().st_size
    time.sleep(0.2)
    return path.stat().st_size > before


def test_output_and_status_are_captured() -> None:
    """Standard error is in the output, and nothing is on standard input."""
    done = captured(["sh", "-c", "cat; echo out; echo err >&2; exit 3"], ".", 60)
    assert (3, b"out\nerr\n") == (done.returncode, done.stdout)


def test_time_out_ends_what_the_command_started(tmp_path: Path) -> None:
    """Not the command alone: the process that loops is its child."""
    with pytest.raises(subprocess.TimeoutExpired):
        captured(["sh", "-c", LOOP, str(tmp_path / "written")], ".", 0.5)
    assert not grows(tmp_path / "written")


def test_interruption_ends_what_the_command_started(tmp_path: Path) -> None:
    """Nothing is left running with init as its parent."""
    written = tmp_path / "written"
    process = subprocess.Popen([sys.executable, "-c", RUNNER, LOOP, str(written)], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_until(written.exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(300) != 0
    assert not grows(written)


def test_interruption_while_a_command_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes before anything knows the process ends it too."""
    written = tmp_path / "written"

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            wait_until(written.exists)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("conformance.commands.subprocess.Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        captured(["sh", "-c", LOOP, str(written)], ".", 60)
    assert not grows(written)


def test_command_that_cannot_start_leaves_signals_alone() -> None:
    """The handlers are those from before."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(FileNotFoundError):
        captured(["no-such-command"], ".", 1)
    assert before is signal.getsignal(signal.SIGINT)


COMMANDS = (
    ("conformance", "list"),
    ("conformance", "--help"),
    ("conformance.mutation", "--help"),
    ("conformance.oracle", "--hello"),
    ("conformance.mutants", "accepts-all", "--hello"),
    ("conformance.authoring.fill", "--help"),
    ("conformance.authoring.fields", "--help"),
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_closed_output_gives_no_traceback(command: tuple[str, ...]) -> None:
    """Nothing is written on standard error, and the exit status is that of a broken pipe or of the help."""
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"" == process.stderr.read()
    # Some versions of argparse ignore it where they print the help.
    assert process.returncode in ({0, BROKEN_PIPE} if command[-1] == "--help" else {BROKEN_PIPE})
