"""Keeps what a program prints in a file of its run, besides where it is printed."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from toyspec.system_calls import cause_of, say

if TYPE_CHECKING:
    from typing import TextIO

FILE = "console.log"


class ConsoleLog:
    """Adds what is printed by Python to ``console.log`` in *directory* until ``stop``."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, FILE)
        self._pid = os.getpid()
        self._file: TextIO | None = None
        self._streams: dict[str, _Both] = {}
        try:
            self._file = open(self._path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - until stop
        except OSError as error:
            say(f"{self._path}: {cause_of(error)}; what the program prints is not kept")
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None:
                self._streams[name] = _Both(stream, self)
                setattr(sys, name, self._streams[name])

    def add(self, text: str) -> None:
        """Add *text*; what a forked child prints is left to its parent's terminal."""
        if self._file is not None and os.getpid() == self._pid:
            try:
                self._file.write(text)
                self._file.flush()
            except (OSError, ValueError):
                self._file = None

    def stop(self) -> str | None:
        """Keep nothing more; return the name of the file, None without one."""
        for name, both in self._streams.items():
            if getattr(sys, name) is both:
                setattr(sys, name, both.stream)
        self._streams.clear()
        file, self._file = self._file, None
        if file is None:
            return None
        with contextlib.suppress(OSError):
            file.close()
        return FILE


class _Both:
    """A stream whose text is also kept."""

    def __init__(self, stream: Any, log: ConsoleLog) -> None:
        self.stream = stream
        self._log = log

    def write(self, text: str) -> int:
        """Write *text* to the stream, and keep it."""
        written: int = self.stream.write(text)
        self._log.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        """Write every one of *lines*."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
