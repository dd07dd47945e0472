"""Writes the requested records, one for each input line, for the fault runner: see conformance/faults/programs.py."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

import toyspec

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILURES = (OSError, ValueError, TypeError, OverflowError, RecursionError, toyspec.ToyspecError)


def _values() -> dict[str, Callable[[toyspec.RunWriter], object]]:
    """Return what is hostile, by name: calls that have to be refused, or to write a line that everybody can read."""
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    return {
        "long-integer": lambda run: run.step(10**400),
        "bad-utf8": lambda run: run.note("\ud800"),
        "twin-keys": lambda run: run.write({"kind": "mine", "m": dict.fromkeys(("\ud800", "\ud801"), 1)}),
        "nan": lambda run: run.step(1000, loss=math.nan),
        "deep": lambda run: run.write({"kind": "mine", "m": nested}),
        "long": lambda run: run.note("x" * 17_000_000),
        "no-kind": lambda run: run.write({"m": 1}),
    }


class FaultWriter:
    """Holds at most one run and one log."""

    def __init__(self) -> None:
        self._run: toyspec.RunWriter | None = None
        self._log: toyspec.MetricsLog | None = None

    def answer(self, line: str) -> str:
        """Return the answer to a command."""
        command, _, rest = line.partition(" ")
        try:
            return str(getattr(self, f"_{command}")(rest) or "ok")
        except _FAILURES as error:
            return f"failed {type(error).__name__}: {error}".replace("\n", " ")
        except KeyboardInterrupt:
            return "failed interrupted"

    @property
    def _writer(self) -> toyspec.RunWriter:
        if self._run is None:
            raise ValueError("nothing is open")
        return self._run

    def _open(self, rest: str) -> None:
        exist, _, directory = rest.partition(" ")
        options: Any = {"exist": exist, "run_id": "demo", "on_error": "raise"}
        self._run = toyspec.RunWriter(directory, **options)

    def _append(self, path: str) -> None:
        self._log = toyspec.MetricsLog.open(path)

    def _start(self, _: str) -> None:
        self._writer.run_start()

    def _resume(self, step: str) -> None:
        self._writer.run_resume(int(step))

    def _step(self, step: str) -> None:
        self._writer.step(int(step), loss=0.5)

    def _note(self, rest: str) -> None:
        step, size = map(int, rest.split())
        self._writer.note("x" * size, step=step)

    def _entry(self, step: str) -> None:
        if self._log is None:
            raise ValueError("nothing is open")
        number = int(step)
        self._log.record(
            step=number, wall_time_ms=float(number), loss=0.5, grad_norm=0.5, throughput_samples_per_sec=1.0
        )

    def _end(self, _: str) -> None:
        self._writer.run_end()

    def _close(self, _: str) -> None:
        for writer in (self._run, self._log):
            if writer is not None:
                writer.close()

    def _read(self, path: str) -> None:
        for _ in toyspec.read(path):
            pass

    def _dropped(self, _: str) -> str:
        return f"ok {self._writer.dropped}"

    def _value(self, name: str) -> str | None:
        call = _values().get(name)
        if call is None:
            return "untestable Python has no such value"
        call(self._writer)
        return None

    def _fork(self, step: str) -> str:
        return _in_child(lambda: self._demand(f"step {step}"))

    def _demand(self, line: str) -> None:
        if self.answer(line) != "ok":
            raise ValueError(line)


def _in_child(call: Callable[[], None]) -> str:
    """Return what comes of *call* in a forked child."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            call()
            status = 0
        except ValueError:
            status = 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return {0: "ok", 1: "failed in the child"}.get(os.waitstatus_to_exitcode(status), "failed child crashed")


def main() -> None:
    """Answer every line of standard input."""
    writer = FaultWriter()
    for line in sys.stdin:
        sys.stdout.write(writer.answer(line.rstrip("\n")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
