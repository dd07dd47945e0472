"""What tests of writers need to look at files and to start programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def content(path: str) -> bytes:
    """Return the bytes of a file, none when it does not exist."""
    return Path(path).read_bytes() if os.path.exists(path) else b""


def in_subprocess(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a fresh process."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)
