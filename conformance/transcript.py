"""Writes the messages between the runner and adapters to a file."""

from __future__ import annotations

import json
import threading
import time
from typing import IO

_MAX_BYTES = 20_000


class Transcript:
    """A file of JSON Lines: when, with which process, in which direction, and what. Long messages are cut."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def note(self, process: int, direction: str, line: bytes) -> None:
        """Write one message; *direction* is ``to``, ``from`` or ``exit``."""
        text = line[:_MAX_BYTES].decode(errors="replace").rstrip("\n")
        entry: dict[str, object] = {"at": round(time.monotonic() - self._start, 4), "process": process, direction: text}
        if len(line) > _MAX_BYTES:
            entry["cut"] = len(line)
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
