"""Sends requests to programs in ``--oneshot`` mode: see PROTOCOL.md."""

from __future__ import annotations

import json
import os
import selectors
import threading
import time
from typing import IO, TYPE_CHECKING

from conformance.adapters import Adapter, AdapterError, Answer, Process, ended
from conformance.messages import ProtocolError, as_options, demand_answer, demand_one_line, encoded, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_MIB = 1024 * 1024
_UNTESTABLE_STATUS = 77
"""The exit status of a program whose library cannot do what is asked; Automake skips a test by the same status."""


class OneShots:
    """Programs in ``--oneshot`` mode, a new one for each request; followers stay until they are stopped."""

    failure: AdapterError | None = None
    crash = None
    """Each program has one request, whose error the crash is."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._followers: dict[int, Process] = {}
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, Any], tag: int | None = None) -> Answer:  # noqa: ARG002
        """Return the answer to *request*; raise AdapterError."""
        role = request["role"]
        if request.get("end") == "held":
            return {"untestable": "a stream is held between two requests, which --oneshot has not"}
        if "media" in request:
            return {"untestable": "the contents of media are sent in --lines mode only"}
        if role == "follower":
            answer = self._follow(request)
        else:
            data = _input(request)
            with Process(self._adapter, ["--oneshot", role, *as_options(request)]) as process:
                output, status = process.communicate(data, self._adapter.seconds_for(len(data)))
                self._note(process, request, output, status)
                if status == _UNTESTABLE_STATUS:
                    return {"untestable": process.stderr() or "the program gave no reason"}
                if status not in {0, 1}:
                    fact = f"the program {ended(status)}, expected 0, 1 or {_UNTESTABLE_STATUS}"
                    raise AdapterError(fact, stderr=process.stderr())
                answer = _answer(role, output, status)
                stderr = process.stderr()
                if answer.get("outcome") == "refused" and stderr:
                    # The exit status has no reason.
                    answer["reason"] = stderr
        try:
            # In this mode the stream is raw bytes, not a text member of a message.
            demand_answer(role, {key: value for key, value in answer.items() if key != "stream"})
        except ProtocolError as error:
            raise AdapterError(f"the answer is outside the protocol: {error}") from None
        return answer

    def close(self) -> None:
        """End every program."""
        for process in self._followers.values():
            process.close()
        self._followers.clear()

    def _follow(self, request: Mapping[str, Any]) -> Answer:
        number = request["follower"]
        with self._lock:
            process = self._followers.pop(number, None)
        if "stop" in request:
            if process is not None:
                process.close()
            return {"items": []}
        process = process or Process(self._adapter, ["--oneshot", "follower", *as_options(request)])
        with self._lock:
            self._followers[number] = process
        stdin, stdout = process.popen.stdin, process.popen.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(b"look\n")
            stdin.flush()
        except OSError:
            raise AdapterError("the program ended", stderr=process.stderr()) from None
        line = _line_within(stdout, self._adapter.deadline)
        self._note(process, request, line, None)
        if not line.endswith(b"\n"):
            raise AdapterError(f"no answer within {self._adapter.deadline:.1f} seconds", stderr=process.stderr())
        return _parsed(line)

    def _note(self, process: Process, request: Mapping[str, Any], output: bytes, status: int | None) -> None:
        transcript = self._adapter.transcript
        if transcript is not None:
            transcript.note(process.popen.pid, "to", encoded(request))
            transcript.note(process.popen.pid, "from", output)
            if status is not None:
                transcript.note(process.popen.pid, "exit", str(status).encode())


def _input(request: Mapping[str, Any]) -> bytes:
    if "records" in request:
        return b"".join(json.dumps(record).encode() + b"\n" for record in request["records"])
    stream: bytes = request.get("stream", b"")
    return stream


def _answer(role: str, output: bytes, status: int) -> Answer:
    """Return the answer that the output and the exit status of one program give."""
    if role in {"writer", "canonical-writer"}:
        return {"outcome": "refused"} if status else {"outcome": "written", "stream": output}
    answer = _parsed(_only_line(output))
    meant = 1 if answer.get("outcome") == "fails" or answer.get("valid") is False else 0
    if meant != status and "error" not in answer:
        raise AdapterError(f"the exit status is {status}, but the answer requires {meant}")
    return answer


def _only_line(output: bytes) -> bytes:
    try:
        return demand_one_line(output)
    except ProtocolError as error:
        raise AdapterError(f"the program {error}") from None


def _parsed(line: bytes) -> Answer:
    try:
        return parse(line)
    except ProtocolError as error:
        raise AdapterError(str(error)) from None


def _line_within(stdout: IO[bytes], seconds: float) -> bytes:
    """Return one line, or what arrived of it within *seconds*."""
    end = time.monotonic() + seconds
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while not found.endswith(b"\n") and selector.select(max(0.0, end - time.monotonic())):
            part = os.read(stdout.fileno(), _MIB)
            if not part:
                break
            found += part
    return found
