"""Lets a command end quietly when the reader of its output goes away, as ``head`` does."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BROKEN_PIPE = 141
"""The exit status of a program that SIGPIPE ends, as a shell reports it."""


def quietly(main: Callable[[], int | None]) -> int:
    """Run *main*, flush its output and return its exit status; BROKEN_PIPE if the output is no longer read."""
    try:
        try:
            status = main() or 0
        finally:
            # Also where argparse has printed its help, and raises SystemExit.
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes standard output once more at exit and would report the broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return status
