"""Asks a mutant everything that the unchanged program was asked, and looks only at answers that differ.

Most questions are one request and its answer, without a file. Their requests are kept as bytes, so that a mutant
answers all of them in seconds. The other questions are played by the runner.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from conformance.adapters import Adapter, AdapterError
from conformance.conversations import Conversation
from conformance.messages import ProtocolError, demand_answer, encoded, parse
from conformance.mutation.memory import code_digest, question_digests
from conformance.probes.question import Stage, UntestableError
from conformance.running import run, topics_in_turn
from conformance.session_cases import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from conformance.probes.question import Question
    from conformance.verdicts import Result

_SECONDS = 10.0
_PLAYERS = 2
_READING = frozenset({"follower", "lines", "live_file", "reader", "source"})
_ONLY_FOR_READING = frozenset({"whole", "halves", "pieces", "strict", "tail", "prefix", "default"})
"""Questions, by their details, that are asked only about mutants of the modules above. The other modules do the same
in all modes of reading, and for a file that grows what they do for one that is there."""


class RecordingError(Exception):
    """The unchanged program fails a question, so that no mutant can be asked; the text names it."""


@dataclass
class _Recorded:
    """What one question asks, and a digest of each answer."""

    question: Question
    requests: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)


class Recording:
    """The questions of the corpus, and what the unchanged program answers."""

    def __init__(self, program: str, questions: Sequence[Question], folder: str) -> None:
        """Ask the unchanged *program* all *questions* without files; raise RecordingError where one fails.

        What an earlier sweep recorded of the same program and questions in *folder* is used again.
        """
        os.makedirs(folder, exist_ok=True)
        self._adapter = Adapter([program])
        self._adapter.ask_hello()
        asked = [questions[index] for index in topics_in_turn(questions)]
        asked = [question for question in asked if question.needs.missing(self._adapter.hello, question.role) is None]
        self.size = len(asked)
        kept = _Kept(program, [question for question in asked if _is_plain(question)], folder)
        before = kept.load()
        plain = before or list(_recorded(self._adapter, kept.questions))
        self._plain = {
            is_for_reading: _Batch(
                os.path.join(folder, f"requests-{number}"),
                [each for each in plain if (each.question.detail in _ONLY_FOR_READING) == is_for_reading],
            )
            for number, is_for_reading in enumerate((False, True))
        }
        if not before:
            for batch in self._plain.values():
                batch.save()
            kept.save(plain)
        self._others = [question for question in asked if not _is_plain(question)]
        self._answered: set[str] = set()

    def killer(self, program: str, module: str) -> tuple[str, str] | None:
        """Return the question that *program*, a mutant of *module*, fails, and why; None where it answers all right."""
        is_reading = module in _READING
        others = [each for each in self._others if is_reading or each.detail not in _ONLY_FOR_READING]
        found = self._killer_in(self._plain[False], program)
        if found is None and is_reading:
            found = self._killer_in(self._plain[True], program)
        return found or self._killer_of_others(program, others)

    def _killer_in(self, batch: _Batch, program: str) -> tuple[str, str] | None:
        with open(batch.path, "rb") as requests, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([program, "--lines"], stdin=requests, stdout=subprocess.PIPE, stderr=errors)
            assert process.stdout is not None
            watchdog = _Watchdog(process)
            try:
                process.stdout.readline()  # the hello
                for each in batch.recorded:
                    reason = _reason(each, process.stdout, watchdog, self._adapter.hello)
                    if reason is not None:
                        return each.question.name, reason
            finally:
                watchdog.stop()
        return None

    def _killer_of_others(self, program: str, others: Sequence[Question]) -> tuple[str, str] | None:
        adapter = Adapter([program], deadline=_SECONDS)
        # A question that a mutant never answers kills it at once: of two, either might be the cause.
        adapter.at_once = 1
        adapter.hello = self._adapter.hello
        results = run(adapter, others, jobs=_PLAYERS, enough=_is_failure)
        found = next(filter(_is_failure, results), None)
        if found is None:
            return None
        self._demand_answered(found.question)
        return found.question.name, "; ".join(found.reasons)

    def _demand_answered(self, question: Question) -> None:
        """Raise RecordingError if the unchanged program fails *question* too."""
        if question.name not in self._answered:
            result = run(self._adapter, [question])[0]
            if _is_failure(result):
                raise RecordingError(f"{question.name}: {'; '.join(result.reasons)}")
            self._answered.add(question.name)


class _Batch:
    """Questions whose requests are in one file."""

    def __init__(self, path: str, recorded: Sequence[_Recorded]) -> None:
        self.path, self.recorded = path, recorded

    def save(self) -> None:
        """Write the requests, and forget them."""
        with open(self.path, "wb") as file:
            file.writelines(request for each in self.recorded for request in each.requests)
        for each in self.recorded:
            each.requests.clear()


class _Kept:
    """The answers to *questions* on disk, beside the files of their requests, for a sweep that goes on."""

    def __init__(self, program: str, questions: Sequence[Question], folder: str) -> None:
        self.questions = questions
        self._path = os.path.join(folder, "answers.json")
        with open(program, "rb") as file:
            asked = (hashlib.sha256(file.read()).hexdigest(), code_digest(), *question_digests(questions))
        self._key = hashlib.sha256(" ".join(asked).encode()).hexdigest()

    def load(self) -> list[_Recorded]:
        """Return the questions with their answers; none where *program*, or what it is asked, was another one."""
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as file:
            kept = json.load(file)
        if kept["key"] != self._key:
            os.unlink(self._path)
            return []
        answers = [[bytes.fromhex(answer) for answer in each] for each in kept["answers"]]
        return [_Recorded(question, [], each) for question, each in zip(self.questions, answers, strict=True)]

    def save(self, recorded: Sequence[_Recorded]) -> None:
        """Write the answers, once the requests are on disk."""
        answers = [[answer.hex() for answer in each.answers] for each in recorded]
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump({"key": self._key, "answers": answers}, file)


def _is_plain(question: Question) -> bool:
    """Return whether *question* is requests and answers, without a file."""
    case = question.case
    return question.role != "follower" and case.scope != "bundle" and not isinstance(case, Session)


def _is_failure(result: Result) -> bool:
    return result.verdict in {"fail", "error"}


def _recorded(adapter: Adapter, questions: Iterable[Question]) -> Iterator[_Recorded]:
    conversation = Conversation(adapter)
    number = 0
    try:
        for question in questions:
            each = _Recorded(question)

            def ask(request: Mapping[str, Any], each: _Recorded = each) -> dict[str, Any]:
                nonlocal number
                number += 1
                answer = conversation.ask(request)
                each.requests.append(encoded({"id": number, **request}))
                each.answers.append(_digest(answer))
                return answer

            reasons = _reasons(question, Stage(ask, _no_folder, adapter.hello))
            if reasons:
                raise RecordingError(f"{question.name}: {reasons[0]}")
            yield each
    finally:
        conversation.close()


def _no_folder() -> str:
    raise AssertionError("a question with files is not recorded")


def _reason(each: _Recorded, stdout: IO[bytes], watchdog: _Watchdog, hello: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the answers to one question, which are read from *stdout*."""
    lines, same = [], True
    for expected in each.answers:
        line = stdout.readline()
        watchdog.touch()
        if not line.endswith(b"\n"):
            return f"no answer within {_SECONDS:.0f} seconds" if watchdog.has_ended else "the program ended"
        lines.append(line)
        try:
            same = same and _digest(parse(line)) == expected
        except ProtocolError as error:
            return str(error)
    if same:
        return None
    left = iter(lines)

    def ask(request: Mapping[str, Any]) -> dict[str, Any]:
        answer = parse(next(left))
        demand_answer(request["role"], answer)
        if "stream" in answer:
            answer["stream"] = base64.b64decode(answer["stream"])
        return answer

    reasons = _reasons(each.question, Stage(ask, _no_folder, hello))
    return reasons[0] if reasons else None


def _reasons(question: Question, stage: Stage) -> list[str]:
    try:
        return question.play(stage)
    except UntestableError:
        return []
    except (AdapterError, ProtocolError) as error:
        return [str(error)]


def _digest(answer: Mapping[str, Any]) -> bytes:
    bare = {key: value for key, value in answer.items() if key != "id"}
    return hashlib.blake2b(encoded(bare), digest_size=16).digest()


class _Watchdog:
    """Ends a program that has not answered for too long."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._last = time.monotonic()
        self._stopped = threading.Event()
        self.has_ended = False
        threading.Thread(target=self._watch, daemon=True).start()

    def touch(self) -> None:
        """Take note of an answer."""
        self._last = time.monotonic()

    def stop(self) -> None:
        """End the program."""
        self._stopped.set()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _watch(self) -> None:
        while not self._stopped.wait(0.5):
            if time.monotonic() - self._last > _SECONDS:
                self.has_ended = True
                self._process.kill()
                return
