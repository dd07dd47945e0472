"""What tests need to look at files, to make what is not a regular file, and to start programs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from toyspec.core.writing.append_file import AppendFile, Options


def content(path: str) -> bytes:
    """Return the bytes of a file, none when it does not exist."""
    return Path(path).read_bytes() if os.path.exists(path) else b""


def lines_file(path: str, **options: Any) -> AppendFile:
    """Create a file that grows by lines."""
    return AppendFile.create(path, options=Options(**options))


def put_irregular(path: Path, kind: str) -> None:
    """Make *path* a ``directory``, a ``FIFO``, a ``socket``, or what *kind* names, as in ``link to /dev/null``."""
    if kind == "directory":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        # The address of a socket has at most about 100 bytes, fewer than a path of a test may have.
        with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    else:
        path.symlink_to(kind.removeprefix("link to "))


def in_subprocess(
    program: str, *arguments: str, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a fresh process; *options* are those of ``subprocess.run``."""
    usual: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    return subprocess.run([sys.executable, "-c", program, *arguments], check=check, **(usual | options))
