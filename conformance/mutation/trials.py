"""Asks one mutant in a process of its own until a question fails. Every question has a deadline in processor time."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import shutil
import signal
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.messages import demand_answer
from conformance.mutation import copies
from conformance.mutation.traces import Probe, plain_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

    from conformance.mutation.traces import Trace
    from conformance.probes.question import Question

_SECONDS = 2.0
_TIMES = 20
"""A question may take so many times as long as the oracle needs, and `_SECONDS` more."""
_MOST_SECONDS = 600.0
"""Nothing waits, so that this ends only what hangs outside of the processor."""
_MEMORY = 1 << 30
_SHOWN = 300


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    killer: int | None
    """Index of the question that failed, None where the mutant survived."""
    reason: str
    """What was wrong with the answer."""
    asked: int
    """Number of questions, the failing one included."""


class Trial:
    """A mutant that is being asked, in a child process."""

    def __init__(self, questions: Sequence[Question], traces: Sequence[Trace], hello: Mapping[str, Any]) -> None:
        self._questions, self._traces, self._hello = questions, traces, hello

    def start(self, codes: Callable[[], Mapping[str, CodeType]], order: Sequence[int]) -> None:
        """Begin to ask the mutant made of *codes* the questions with the indexes *order*."""
        self._order = order
        self._progress = mmap.mmap(-1, 8)
        self._folder = tempfile.mkdtemp(prefix="mutant-")
        self._pipe, inside = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self._pipe)
            self._run(codes, inside)
        os.close(inside)

    def outcome(self, status: int) -> Outcome:
        """Return what became of the mutant; *status* is that of its process, which has ended."""
        with open(self._pipe, "rb") as pipe:
            reply = pipe.read()
        shutil.rmtree(self._folder, ignore_errors=True)
        position = int.from_bytes(self._progress[:], "little")
        self._progress.close()
        if reply:
            found = json.loads(reply)
            return Outcome(self._order[position] if found["killed"] else None, found["reason"], position + 1)
        reason = "no answer in time" if os.WIFSIGNALED(status) else "the process ended"
        return Outcome(self._order[position], reason, position + 1)

    def _run(self, codes: Callable[[], Mapping[str, CodeType]], pipe: int) -> None:
        """Ask everything, say what came of it, and end this process."""
        try:
            _limit_memory()
            os.chdir(self._folder)
            with open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), 2)
            reason = self._ask_all(codes)
            reply = {"killed": reason is not None, "reason": (reason or "")[:_SHOWN]}
            os.write(pipe, json.dumps(reply).encode())
        finally:
            os._exit(0)

    def _ask_all(self, codes: Callable[[], Mapping[str, CodeType]]) -> str | None:
        """Return why a question failed, None where none did."""
        signal.setitimer(signal.ITIMER_REAL, _MOST_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        try:
            make = copies.load(codes())
        except Exception as error:  # noqa: BLE001  (a mutant may raise anything)
            return f"does not load: {type(error).__name__}: {error}"
        for position, index in enumerate(self._order):
            self._progress[:] = position.to_bytes(8, "little")
            signal.setitimer(signal.ITIMER_PROF, _SECONDS + _TIMES * self._traces[index].seconds)
            try:
                reason = self._ask(make, index)
            except Exception as error:  # noqa: BLE001  (likewise)
                return f"{type(error).__name__}: {error}"
            if reason is not None:
                return reason
        signal.setitimer(signal.ITIMER_PROF, 0)
        return None

    def _ask(self, make: Callable[[], Any], index: int) -> str | None:
        """Return what is wrong with the answers to one question."""
        question, trace = self._questions[index], self._traces[index]
        if trace.request is not None and plain_answer(make(), question, trace) == trace.answers:
            return None
        probe = Probe(make(), question, self._folder)
        problems = probe.problems(self._hello)
        if not problems and probe.digest != trace.answers:
            # Another answer that passes too, as long as it is one at all.
            for answer in probe.given:
                demand_answer(question.role, answer)
        return problems[0] if problems else None


def _limit_memory() -> None:
    """End a mutant that fills the memory."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, size + _MEMORY))
