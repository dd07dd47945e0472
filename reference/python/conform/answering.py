"""Takes requests in and gives answers out, in both modes of the protocol."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Any

from following import Followers
from reading import check, read, summarize
from toyspec import __version__
from writing import canonical, write

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, Any]

_UNTESTABLE_STATUS = 77
_INTEGERS = frozenset({"max_line_bytes", "follower"})
_HELLO = {
    "protocol": 1,
    "name": "toyspec",
    "language": "Python",
    "version": __version__,
    "roles": ["reader", "summarizer", "writer", "canonical-writer", "checker", "follower"],
    "profiles": ["toy/v1", "metrics/v1", "kaun/v1"],
    "revisions": ["1.4"],
    "lines": True,
    "capabilities": [
        "line_limit",
        "bundle",
        "ranks",
        "seal",
        "session",
        "latest_attempt",
        "findings_offset",
        "own_kinds",
        "media",
    ],
}

_followers = Followers()
_ROLES: dict[str, Callable[[Message], Message]] = {
    "reader": read,
    "summarizer": summarize,
    "checker": check,
    "writer": write,
    "canonical-writer": canonical,
    "follower": _followers.look,
}


def say_hello() -> None:
    """Say what this adapter is and can do."""
    _say({"hello": _HELLO})


def answer_lines() -> None:
    """Answer one request for each line of standard input, until it ends."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "stream" in request:
            request["stream"] = base64.b64decode(request["stream"])
        if "media" in request:
            request["media"] = [base64.b64decode(content) for content in request["media"]]
        answer = _ROLES[request["role"]](request)
        if "stream" in answer:
            answer["stream"] = base64.b64encode(answer["stream"]).decode()
        _say({"id": request["id"], **answer})


def answer_oneshot(role: str, options: list[str]) -> int:
    """Answer one request that arrives as options and standard input; return the exit status."""
    request: Message = {"role": role, "follower": 0}
    for option, value in zip(options[::2], options[1::2], strict=True):
        key = option.removeprefix("--").replace("-", "_")
        request[key] = int(value) if key in _INTEGERS else value
    if role == "follower":
        for _ in sys.stdin.buffer:
            _say(_followers.look(request))
        return 0
    data = sys.stdin.buffer.read()
    if role in {"writer", "canonical-writer"}:
        answer = _ROLES[role](request | {"records": [json.loads(line) for line in data.splitlines()]})
        if "untestable" in answer:
            sys.stderr.write(answer["untestable"])
            return _UNTESTABLE_STATUS
        sys.stdout.buffer.write(answer.get("stream", b""))
        return int(answer["outcome"] != "written")
    answer = _ROLES[role](request if "directory" in request else request | {"stream": data})
    _say(answer)
    return int(answer.get("outcome") == "fails" or not answer.get("valid", True))


def _say(message: Message) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
