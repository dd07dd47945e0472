"""Every command ends quietly when the reader of its output goes away."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance.pipes import BROKEN_PIPE, quietly
from conformance.registry import ROOT

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


def test_other_errors_are_raised() -> None:
    """Only a broken pipe is quiet."""

    def fail() -> int:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        quietly(fail)
