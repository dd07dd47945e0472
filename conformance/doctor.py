"""Checks an adapter step by step: each step is one duty of the protocol, with one simple example."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.adapters import Adapter, AdapterError, Process
from conformance.cases import Case, Finding
from conformance.conversations import Conversation
from conformance.escaping import printable
from conformance.messages import ProtocolError, as_options, encoded
from conformance.one_shots import OneShots
from conformance.probes.question import Stage, UntestableError
from conformance.probes.roles import questions
from conformance.running import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.probes.question import Question

_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
_STEP = b'{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
_END = b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'
_RECORDS: tuple[Any, ...] = (
    {"kind": "run_start", "schema": "toy/v1", "t": {"float": "0.0"}, "run_id": "demo"},
    {"kind": "step", "t": {"float": "1.0"}, "step": {"int": "1"}, "loss": {"float": "2.5"}},
    {"kind": "run_end", "t": {"float": "2.0"}, "reason": "completed"},
)
_HELLO = (
    '{"hello": {"protocol": 1, "name": "mine", "language": "Lua", "version": "0.1", "roles": ["writer"], '
    '"profiles": ["toy/v1"], "lines": false, "capabilities": []}}'
)
_ENDING_SECONDS = 5.0
_REQUESTS = 20


@dataclass(frozen=True)
class Step:
    """One duty of the protocol, and the errors of the adapter in it."""

    duty: str
    errors: tuple[str, ...] = ()
    help: str = ""

    @property
    def is_right(self) -> bool:
        """True when there is no error."""
        return not self.errors

    def lines(self) -> Iterator[str]:
        """Yield the step as text."""
        yield f"{'ok   ' if self.is_right else 'WRONG'}  {self.duty}"
        for error in self.errors:
            yield f"         {printable(error)}"
        if not self.is_right and self.help:
            yield f"         help: {self.help}"


def examine(adapter: Adapter) -> Iterator[Step]:
    """Yield the steps in order; stop at an error that makes the rest pointless."""
    step = _step("`--hello` prints one line and exits with 0", adapter.ask_hello, f"print a line such as {_HELLO}")
    yield step
    if not step.is_right:
        return
    roles = adapter.hello["roles"]
    yield from _roles(adapter, "--oneshot", Channel(adapter, OneShots))
    for role in ("reader", "checker"):
        if role in roles:
            yield from _statuses(adapter, role)
    if not adapter.hello.get("lines"):
        yield Step("`--lines` is not offered: every question starts a program, which is slow but correct")
        return
    step = _step(
        "`--lines` prints the hello first",
        lambda: _open(adapter).close(),
        "print the hello as the first line, and flush after every line",
    )
    yield step
    if not step.is_right:
        return
    yield from _roles(adapter, "--lines", Channel(adapter, Conversation))
    yield _step(
        "several requests may be in flight",
        lambda: _many(adapter, roles),
        "repeat the id of each request in its answer",
    )
    yield _step(
        "`--lines` ends with exit status 0 when its input ends",
        lambda: _ends(adapter),
        "end the loop at EOF; a request that fails is answered with `error` and ends nothing",
    )


def _roles(adapter: Adapter, mode: str, channel: Channel) -> Iterator[Step]:
    for case, about in (
        (_complete(), "a complete stream"),
        (_torn(), "a torn stream"),
        (_damaged(), "a damaged stream"),
    ):
        seen = set()
        for question in questions(case, adapter.hello["roles"]):
            name = (question.role, question.detail if question.role == "reader" else "")
            if name in seen or question.needs.missing(adapter.hello, question.role):
                continue
            seen.add(name)
            duty = f"{mode}: {' '.join(filter(None, name))} of {about}"
            yield _step(duty, lambda question=question: _play(question, channel, adapter))  # type: ignore[misc]
    channel.close()


def _play(question: Question, channel: Channel, adapter: Adapter) -> None:
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        errors = question.play(Stage(channel.ask, lambda: folder, adapter.hello))
    if errors:
        raise _WrongError(errors)


def _statuses(adapter: Adapter, role: str) -> Iterator[Step]:
    option = ["--mode", "tail"] if role == "reader" else []
    for data, expected, about in ((_complete().data, 0, "complete"), (_damaged().data, 1, "damaged")):
        yield _step(
            f"--oneshot {role} exits with {expected} for a {about} stream",
            lambda data=data, expected=expected: _status(adapter, [role, *option], data, expected),  # type: ignore[misc]
            "exit with 0 to accept, 1 to reject; anything else is a crash",
        )


def _status(adapter: Adapter, words: list[str], data: bytes, expected: int) -> None:
    with Process(adapter, ["--oneshot", *words, *as_options({"name": "events.jsonl"})]) as process:
        _, status = process.communicate(data, adapter.deadline)
        if status != expected:
            raise _WrongError([f"exit status {status}", *filter(None, [process.stderr()])])


def _open(adapter: Adapter) -> Conversation:
    return Conversation(adapter)


def _many(adapter: Adapter, roles: list[str]) -> None:
    conversation = _open(adapter)
    role = next((role for role in ("reader", "checker") if role in roles), None)
    if role is None:
        return
    errors: list[str] = []

    def ask(number: int) -> None:
        data = _START * number
        try:
            answer = conversation.ask({"role": role, "stream": data, "name": "events.jsonl"})
            found = answer["count"] if role == "reader" else answer["findings"][-1]["line"]
            if found != number:
                errors.append(f"the answer to request {number} belongs to another request")
        except AdapterError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, _REQUESTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    conversation.close()
    if errors:
        raise _WrongError(errors[:3])


def _ends(adapter: Adapter) -> None:
    with Process(adapter, ["--lines"]) as process:
        start = time.monotonic()
        request = _request(adapter.hello["roles"][0])
        _, status = process.communicate(encoded(request), adapter.deadline)
        if status != 0:
            raise _WrongError([f"exit status {status}", *filter(None, [process.stderr()])])
        if time.monotonic() - start > _ENDING_SECONDS:
            raise _WrongError(["it took more than five seconds to exit"])


def _request(role: str) -> dict[str, Any]:
    """Return a request that every adapter with *role* can answer."""
    if role.endswith("writer"):
        return {"id": 0, "role": role, "profile": "toy/v1", "records": list(_RECORDS)}
    if role == "follower":
        return {"id": 0, "role": role, "follower": 1, "path": os.path.join(tempfile.gettempdir(), "no-such-stream")}
    options = {"mode": "salvage"} if role == "reader" else {}
    return {"id": 0, "role": role, "stream": _START + _STEP + _END, "name": "events.jsonl", **options}


class _WrongError(Exception):
    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def _step(duty: str, try_it: Callable[[], object], help_text: str = "") -> Step:
    try:
        try_it()
    except _WrongError as error:
        return Step(duty, tuple(error.errors), help_text)
    except (AdapterError, ProtocolError) as error:
        return Step(duty, (str(error),), help_text)
    except UntestableError as error:
        return Step(f"{duty}: untestable, says the adapter: {printable(str(error))}")
    return Step(duty)


def _case(name: str, data: bytes, state: Any, records: tuple[Any, ...], *findings: Finding) -> Case:
    """Return a case like those of the corpus."""
    return Case(
        name=name,
        folder=name,
        why="",
        files={"events.jsonl": data},
        stream="events.jsonl",
        profile="toy/v1",
        state=state,
        records=records,
        findings=findings,
        form="any" if findings else "canonical",
    )


def _complete() -> Case:
    return _case("complete", _START + _STEP + _END, "complete", _RECORDS)


def _torn() -> Case:
    finding = Finding(rule="unterminated-line", line=3, pointer="")
    return _case("torn", _START + _STEP + b'{"kind":"st', "torn", _RECORDS[:2], finding)


def _damaged() -> Case:
    finding = Finding(rule="invalid-json", line=2, pointer="")
    return _case("damaged", _START + b"{]\n" + _END, "damaged", (_RECORDS[0], _RECORDS[2]), finding)
