"""Lets the fault runner drive the Python emitter: see PROTOCOL.md, durable writers."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

from toyspec_emitter import Run


class Program:
    """Holds at most one run."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def answer(self, line: str) -> str:
        """Return the answer to a command."""
        command, _, rest = line.partition(" ")
        if command in {"append", "entry", "bundle"}:
            return "untestable the emitter writes toy/v1 alone, without a RunBundle"
        try:
            return getattr(self, f"_{command}")(rest) or "ok"
        except KeyboardInterrupt:
            return "failed interrupted"

    def _open(self, rest: str) -> str | None:
        exist, _, directory = rest.partition(" ")
        run = Run(directory, exist=exist, run_id="demo")
        if run.error is not None:
            return f"failed {run.error}"
        self._run = run
        return None

    def _said(self, is_written: bool) -> str | None:
        return None if is_written else f"failed {self._there.error}".replace("\n", " ")

    @property
    def _there(self) -> Run:
        assert self._run is not None, "open comes first"
        return self._run

    def _start(self, _: str) -> str | None:
        return self._said(self._there.start())

    def _resume(self, step: str) -> str | None:
        return self._said(self._there.resume(int(step)))

    def _step(self, step: str) -> str | None:
        return self._said(self._there.step(int(step), loss=0.5))

    def _note(self, rest: str) -> str | None:
        step, size = map(int, rest.split())
        return self._said(self._there.note("x" * size, step=step))

    def _end(self, _: str) -> str | None:
        return self._said(self._there.end())

    def _close(self, _: str) -> None:
        if self._run is not None:
            self._run.close()

    def _read(self, path: str) -> None:
        with open(path, "rb") as file:
            file.read()

    def _dropped(self, _: str) -> str:
        return f"ok {self._there.dropped}"

    def _value(self, name: str) -> str | None:
        run = self._there
        nested: list[Any] = []
        for _ in range(100):
            nested = [nested]
        records: dict[str, dict[str, Any]] = {
            "long-integer": {"kind": "step", "step": 10**400},
            "bad-utf8": {"kind": "note", "text": "\ud800"},
            "twin-keys": {"kind": "mine", "m": dict.fromkeys(("\ud800", "\ud801"), 1)},
            "deep": {"kind": "mine", "m": nested},
            "long": {"kind": "note", "text": "x" * 17_000_000},
            "no-kind": {"m": 1},
        }
        if name == "nan":
            return self._said(run.step(1000, loss=math.nan))
        if name not in records:
            return "untestable Python has no such value"
        return self._said(run.write(records[name]))

    def _fork(self, step: str) -> str:
        child = os.fork()
        if child == 0:
            status = 2
            try:
                status = 0 if self._there.step(int(step), loss=0.5) else 1
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        return {0: "ok", 1: "failed in the child"}.get(os.waitstatus_to_exitcode(status), "failed child crashed")


def main() -> None:
    """Answer every line of standard input."""
    program = Program()
    for line in sys.stdin:
        sys.stdout.write(program.answer(line.rstrip("\n")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
