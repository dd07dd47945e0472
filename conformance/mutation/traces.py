"""What the oracle itself does with every question: the statements that it executes, its answers, the time it takes."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import tempfile
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.inside import Inside, reasons_of
from conformance.messages import encoded
from conformance.mutation import copies
from conformance.mutation.instruments import HITS, Instruments
from conformance.probes.question import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from conformance.probes.question import Question


@dataclass(frozen=True)
class Trace:
    """What the oracle does with one question."""

    hits: bytes
    """A byte for each statement, 1 where it was executed."""
    seconds: float
    """Processor time."""
    answers: bytes
    """A digest of all answers."""
    request: bytes | None
    """The request without its stream, where there is one request and no file; the stream is that of the case."""
    problems: tuple[str, ...] = ()
    """What is wrong with the answers: a disagreement of oracle and corpus."""


class Probe:
    """Asks one question, and keeps a digest of the answers."""

    def __init__(self, adapter: Any, question: Question, folder: str) -> None:
        self._ask = Inside(adapter)
        self._question = question
        self._folder = folder
        self._digest = hashlib.blake2b(digest_size=16)
        self._requests: list[bytes | None] = []
        self.given: list[Mapping[str, Any]] = []
        """The answers as they are sent."""

    def problems(self, hello: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with the answers."""
        return reasons_of(self._question, Stage(self._answer, self._new_folder, hello))

    @property
    def digest(self) -> bytes:
        """The digest of all answers."""
        return self._digest.digest()

    @property
    def request(self) -> bytes | None:
        """The only request, without its stream; None where there were several, or files."""
        return self._requests[0] if len(self._requests) == 1 else None

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        is_plain = request.get("stream", self._question.case.data) is self._question.case.data
        # The encoded form has the stream in it; it is put there again for each mutant.
        bare = {key: value for key, value in request.items() if key not in ("stream", "media")} | {
            "has": "stream" in request
        }
        self._requests.append(json.dumps(bare).encode() if is_plain else None)
        answer = self._ask(request)
        message = written(answer)
        self._digest.update(message)
        self.given.append(json.loads(message))
        return answer

    def _new_folder(self) -> str:
        self._requests.append(None)
        return tempfile.mkdtemp(dir=self._folder)


def written(answer: Mapping[str, Any]) -> bytes:
    """Return the bytes of an answer."""
    return encoded({"id": 0, **answer})


def plain_answer(adapter: Any, question: Question, trace: Trace) -> bytes:
    """Return the digest of the answer to the one request of a question; whatever *adapter* raises is not caught."""
    assert trace.request is not None
    request = json.loads(trace.request)
    if request.pop("has"):
        request["stream"] = question.case.data
    return hashlib.blake2b(written(adapter.answer(request)), digest_size=16).digest()


def traced(instruments: Instruments, questions: Sequence[Question], jobs: int) -> list[Trace]:
    """Return what the oracle does with each of *questions*; *jobs* processes share them."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        children = []
        for job in range(jobs):
            path = os.path.join(folder, f"{job}.pickle")
            child = os.fork()
            if child == 0:
                _trace_to(path, instruments, questions[job::jobs])
            children.append((child, path))
        found: list[Any] = [None] * len(questions)
        for job, (child, path) in enumerate(children):
            if os.waitpid(child, 0)[1] != 0:
                raise RuntimeError("the oracle could not be asked; the error is above")
            with open(path, "rb") as file:
                found[job::jobs] = pickle.load(file)  # noqa: S301  (written by the child)
    return found


def _trace_to(path: str, instruments: Instruments, questions: Sequence[Question]) -> None:
    """Trace *questions* in a child process, and end it."""
    status = 1
    try:
        make = copies.load(instruments.codes, {HITS: instruments.hits})
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            traces = [_trace(make, question, folder, instruments.hits) for question in questions]
        with open(path, "wb") as file:
            pickle.dump(traces, file)
        status = 0
    except Exception:  # noqa: BLE001  (what is written to standard error is all that remains)
        traceback.print_exc()
    finally:
        os._exit(status)


def _trace(make: Callable[[], Any], question: Question, folder: str, hits: bytearray) -> Trace:
    hits[:] = bytes(len(hits))
    start = time.process_time()
    adapter = make()
    probe = Probe(adapter, question, folder)
    problems = probe.problems(adapter.hello())
    seconds = time.process_time() - start
    return Trace(bytes(hits), seconds, probe.digest, probe.request, tuple(problems))
