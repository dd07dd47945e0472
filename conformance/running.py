"""Asks an adapter all questions in parallel, each with a deadline.

Only the question that caused a crash fails. A crash that no question causes alone is an error of the question that was
asked first of those in flight, so that no restart goes unreported.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.adapters import AdapterError
from conformance.conversations import Conversation
from conformance.messages import ProtocolError
from conformance.one_shots import OneShots
from conformance.probes.question import Stage, UntestableError
from conformance.revisions import CURRENT
from conformance.verdicts import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from conformance.adapters import Adapter
    from conformance.conversations import Crash
    from conformance.probes.question import Question

_MAX_RESTARTS = 200


class Channel:
    """A connection to an adapter that is reopened after a failure."""

    def __init__(self, adapter: Adapter, connection: type[Conversation | OneShots] | None = None) -> None:
        """Use *connection*, by default the one for the mode of *adapter*."""
        self._adapter = adapter
        self._open: type[Conversation | OneShots] = connection or (Conversation if adapter.lines else OneShots)
        self._lock = threading.Lock()
        self._connection: Conversation | OneShots | None = None
        self._starts = 0
        self.crashes: list[Crash] = []
        """How programs failed, in order."""

    def ask(self, request: Mapping[str, Any], tag: int | None = None) -> dict[str, Any]:
        """Return the answer to *request*; raise AdapterError. A crash is reported with the *tag*."""
        with self._lock:
            if self._connection is None or self._connection.failure is not None:
                self.close()
                self._starts += 1
                if self._starts > _MAX_RESTARTS:
                    raise AdapterError(f"the adapter crashed {_MAX_RESTARTS} times; no further start is tried")
                self._connection = self._open(self._adapter)
            connection = self._connection
        return connection.ask(request, tag)

    def close(self) -> None:
        """Terminate the programs."""
        if self._connection is not None:
            self._connection.close()
            if self._connection.crash is not None:
                self.crashes.append(self._connection.crash)
        self._connection = None


def run(  # noqa: PLR0913 - the options of a run are keywords
    adapter: Adapter,
    questions: Sequence[Question],
    *,
    revision: str = CURRENT,
    jobs: int = 1,
    on_result: Callable[[Result], None] | None = None,
    enough: Callable[[Result], bool] | None = None,
) -> list[Result]:
    """Return a result for each of *questions*, which are of *revision*, in their order.

    *jobs* programs are asked in parallel. The first result for which *enough* returns true ends the run; results
    that are not there by then are absent.
    """
    pool = _Pool(adapter, questions)
    pool.revision, pool.on_result, pool.enough = revision, on_result, enough
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        pool.folder = folder
        pool.work(max(1, jobs))
        pool.repeat_suspects()
        pool.blame_crashes()
    return [result for result in pool.results if result is not None]


def topics_in_turn(questions: Sequence[Question]) -> list[int]:
    """Return the indexes of *questions*, the first of each topic and role before the second of any."""
    seen: Counter[tuple[str, str]] = Counter()
    turns = []
    for question in questions:
        topic = (question.role, question.case.name.rpartition("/")[0])
        turns.append(seen[topic])
        seen[topic] += 1
    return sorted(range(len(questions)), key=turns.__getitem__)


class _Pool:
    """Threads that share questions, and channels that threads share."""

    on_result: Callable[[Result], None] | None = None
    enough: Callable[[Result], bool] | None = None
    revision = CURRENT
    folder = ""

    def __init__(self, adapter: Adapter, questions: Sequence[Question]) -> None:
        self._adapter = adapter
        self._questions = questions
        self._at_once = adapter.at_once if adapter.lines else 1
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._suspects: list[int] = []
        self._crashes: list[Crash] = []
        self._lock = threading.Lock()
        self._stop = False
        self._broken: list[Exception] = []
        self.results: list[Result | None] = [None] * len(questions)

    def work(self, jobs: int) -> None:
        """Ask all questions; keep those whose failure another question may have caused for repeat_suspects."""
        # One program per question takes minutes, so a run starts with one question about each topic.
        order = range(len(self._questions)) if self._adapter.lines else topics_in_turn(self._questions)
        for index in order:
            question = self._questions[index]
            missing = question.needs.missing(self._adapter.hello, question.role)
            if missing is None:
                self._todo.put(index)
            else:
                self._take(index, Result(question=question, verdict="not-applicable", reasons=(f"needs {missing}",)))
        channels = [Channel(self._adapter) for _ in range(jobs)]
        threads = [
            threading.Thread(target=self._ask_all, args=(channel,), daemon=True)
            for channel in channels
            for _ in range(self._at_once)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        finally:
            self._stop = True
            for channel in channels:
                channel.close()
                self._crashes.extend(channel.crashes)
        if self._broken:
            raise self._broken[0]

    def repeat_suspects(self) -> None:
        """Repeat the questions that were in flight at a crash, each in a new program."""
        for index in sorted(self._suspects):
            if self.enough is not None and self._is_enough():
                return
            channel = Channel(self._adapter)
            try:
                self._take(index, self._ask(channel, index))
            finally:
                channel.close()
                self._crashes.extend(channel.crashes)

    def blame_crashes(self) -> None:
        """Turn the result of a question into an error for each crash that no question of it explains."""
        for crash in self._crashes:
            found = {index: result for index in crash.asked if (result := self.results[index]) is not None}
            if not found or any(result.verdict == "error" for result in found.values()):
                continue
            index, result = next(iter(found.items()))
            others = "".join(f", {other.question.name}" for at, other in found.items() if at != index)
            fact = f"{crash.fact} after {result.question.name}{others}; asked alone, the question gets an answer"
            self._take(index, result.named("error", fact))

    def _ask_all(self, channel: Channel) -> None:
        for index in self._indexes():
            try:
                result = self._ask(channel, index)
            except _SuspectError:
                with self._lock:
                    self._suspects.append(index)
            except Exception as error:  # noqa: BLE001  (a defect of the runner ends the run)
                self._broken.append(error)
                self._stop = True
            else:
                self._take(index, result)

    def _indexes(self) -> Iterator[int]:
        while not self._stop:
            try:
                yield self._todo.get_nowait()
            except queue.Empty:
                return

    def _ask(self, channel: Channel, index: int) -> Result:
        question = self._questions[index]
        start = time.monotonic()
        verdict, reasons = "pass", []
        folders: list[str] = []

        def new_folder() -> str:
            folders.append(tempfile.mkdtemp(dir=self.folder))
            return folders[-1]

        try:
            ask = partial(channel.ask, tag=index)
            reasons = question.play(Stage(ask, new_folder, self._adapter.hello, self.revision))
            verdict = "fail" if reasons else "pass"
        except UntestableError as error:
            verdict, reasons = "untestable", [str(error)]
        except AdapterError as error:
            if error.shared:
                raise _SuspectError from error
            verdict, reasons = "error", [str(error)]
        except ProtocolError as error:
            verdict, reasons = "error", [f"the answer is outside the protocol: {error}"]
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - start
        return Result(question=question, verdict=verdict, reasons=tuple(reasons), seconds=seconds)  # type: ignore[arg-type]

    def _take(self, index: int, result: Result) -> None:
        with self._lock:
            self.results[index] = result
            if self.on_result is not None:
                self.on_result(result)
            if self.enough is not None and self.enough(result):
                self._stop = True

    def _is_enough(self) -> bool:
        assert self.enough is not None
        return any(result is not None and self.enough(result) for result in self.results)


class _SuspectError(Exception):
    """A failure that another question may have caused."""
