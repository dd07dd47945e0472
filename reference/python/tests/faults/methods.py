"""Ways to make a real system fail. One that this system forbids skips its test with the reason; it does not pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def victim(*arguments: str, prefix: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the program ``faults.victim`` under the command *prefix*."""
    command = [*prefix, sys.executable, "-m", "faults.victim", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def traced(path: str, injection: str) -> list[str]:
    """Return the command under which system calls on *path* fail as *injection* says; skip where it is forbidden."""
    why = strace_trouble()
    if why:
        pytest.skip(f"system calls cannot be traced here: {why}")
    calls = injection.partition(":")[0]
    return ["strace", "-f", "-qq", "-o", os.devnull, "-P", path, "-e", f"trace={calls}", "-e", f"inject={injection}"]


def small_disk(folder: Path, size: str) -> list[str]:
    """Return the command under which a disk of *size* is mounted at *folder*; skip where it is forbidden."""
    why = mount_trouble()
    if why:
        pytest.skip(f"no disk can be mounted here without rights: {why}")
    mount = f'mount -t tmpfs -o size={size} none "{folder}" && exec "$@"'
    return ["unshare", "-Urm", "sh", "-c", mount, "sh"]


@cache
def strace_trouble() -> str:
    """Return why system calls cannot be traced here, empty where they can."""
    if sys.platform != "linux" or not shutil.which("strace"):
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-qq", "-o", os.devnull, "-e", "inject=write:error=EIO:when=1", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip()[-200:] if done.returncode else ""


@cache
def mount_trouble() -> str:
    """Return why no disk can be mounted here, empty where one can."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return "unshare is not installed"
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip()[-200:] if done.returncode else ""
