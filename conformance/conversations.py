"""Exchanges requests and answers with one program in ``--lines`` mode: see PROTOCOL.md."""

from __future__ import annotations

import base64
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.adapters import HELLO_SECONDS, Adapter, AdapterError, Answer, Process, close_quietly, ended
from conformance.messages import ProtocolError, demand_answer, demand_hello, encoded, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_ANSWER_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Crash:
    """A program that ended, hung or left the protocol while it was still needed."""

    fact: str
    asked: tuple[int, ...]
    """The tags of the requests in flight, in the order of sending; without one, that of the last answer."""


class Conversation:
    """A program in ``--lines`` mode. Several threads may ask at the same time."""

    crash: Crash | None = None
    """How the program failed; None while it runs, and after ``close`` ended it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._process = Process(adapter, ["--lines"])
        self._waiting: dict[int, tuple[queue.SimpleQueue[Answer | AdapterError], int | None]] = {}
        self._answered: int | None = None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._next = 0
        self._greeted = threading.Event()
        self._failures: list[AdapterError] = []
        threading.Thread(target=self._write_all, daemon=True).start()
        threading.Thread(target=self._read_all, daemon=True).start()
        if not self._greeted.wait(HELLO_SECONDS):
            self._fail(f"no hello within {HELLO_SECONDS:.0f} seconds")
        if self.failure is not None:
            self.close()
            raise self.failure

    @property
    def failure(self) -> AdapterError | None:
        """The error that ended the conversation; None while it is open."""
        return self._failures[0] if self._failures else None

    def ask(self, request: Mapping[str, Any], tag: int | None = None) -> Answer:
        """Return the answer to *request*; raise AdapterError. A crash is reported with the *tag*."""
        inbox: queue.SimpleQueue[Answer | AdapterError] = queue.SimpleQueue()
        with self._lock:
            if self.failure is not None:
                raise AdapterError("the program has ended", shared=True)
            number = self._next
            self._next += 1
            self._waiting[number] = inbox, tag
        line = encoded({"id": number, **request})
        self._outbox.put(line)
        seconds = self._adapter.seconds_for(len(line))
        try:
            found = inbox.get(timeout=seconds)
        except queue.Empty:
            self._fail(f"no answer within {seconds:.1f} seconds")
            found = inbox.get()
        if isinstance(found, AdapterError):
            raise found
        try:
            demand_answer(request["role"], found)
        except ProtocolError as error:
            raise AdapterError(f"the answer is outside the protocol: {error}") from None
        if "stream" in found:
            found["stream"] = base64.b64decode(found["stream"])
        return found

    def close(self) -> None:
        """Close the input of the program, so that it can clean up, then terminate it."""
        with self._lock:
            is_open = not self._failures
            if is_open:
                self._failures.append(AdapterError("the conversation was closed", shared=True))
        self._outbox.put(None)
        if is_open:
            self._process.wait()
        self._process.close()

    def _write_all(self) -> None:
        stdin = self._process.popen.stdin
        assert stdin is not None
        while (line := self._outbox.get()) is not None:
            try:
                self._note("to", line)
                stdin.write(line)
                stdin.flush()
            except (OSError, ValueError):
                return  # _read_all reports why the program ended
        close_quietly(stdin)

    def _read_all(self) -> None:
        stdout = self._process.popen.stdout
        assert stdout is not None
        try:
            while line := stdout.readline(MAX_ANSWER_BYTES):
                self._note("from", line)
                if not line.endswith(b"\n"):
                    self._fail("the output ended within a line, or a line is longer than 256 MiB")
                    return
                self._take(line)
        except (OSError, ValueError):
            pass
        except ProtocolError as error:
            self._fail(str(error))
            return
        status = self._process.popen.wait()
        self._fail(f"the program {ended(status)}")

    def _take(self, line: bytes) -> None:
        message = parse(line)
        if not self._greeted.is_set():
            demand_hello(message)
            self._greeted.set()
            return
        number = message.get("id")
        with self._lock:
            inbox, tag = self._waiting.pop(number, (None, None)) if isinstance(number, int) else (None, None)
            self._answered = self._answered if tag is None else tag
        if inbox is None:
            raise ProtocolError(f"an answer has the id {number!a}, which no request in flight has")
        inbox.put(message)

    def _fail(self, fact: str) -> None:
        with self._lock:
            if self._failures:
                return
            self._failures.append(AdapterError(fact, stderr=self._process.stderr()))
            waiting, self._waiting = self._waiting, {}
            tags = [tag for _, tag in waiting.values()] or [self._answered]
            self.crash = Crash(fact, tuple(tag for tag in tags if tag is not None))
        shared = len(waiting) > 1
        for inbox, _ in waiting.values():
            inbox.put(AdapterError(fact, stderr=self._process.stderr(), shared=shared))
        self._greeted.set()

    def _note(self, direction: str, line: bytes) -> None:
        if self._adapter.transcript is not None:
            self._adapter.transcript.note(self._process.popen.pid, direction, line)
