"""The adapter of the oracle: see PROTOCOL.md."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from conformance.oracle import tables
from conformance.oracle.bundles import Bundles, content
from conformance.oracle.checking import SIDECARS, Checking
from conformance.oracle.following import Following
from conformance.oracle.lines import Lines, is_manifest
from conformance.oracle.reading import Reading
from conformance.oracle.record_rules import RecordRules
from conformance.oracle.sealing import SEAL, Sealing
from conformance.oracle.summarizing import Summarizing
from conformance.oracle.writing import RefusedError, Writing
from conformance.revisions import CURRENT, listed

if TYPE_CHECKING:
    from conformance.oracle.reading import Stream

Message = dict[str, Any]
STREAMS = ("events.jsonl", "metrics.jsonl")
_RANK = re.compile(r"events\.rank-([1-9][0-9]{0,8})\.jsonl(?![\s\S])", re.ASCII)
_INTEGERS = frozenset({"max_line_bytes", "follower"})


class Oracle:
    """Answers requests. A mutant is a subclass that overrides one method."""

    name = "oracle"
    roles: ClassVar[list[str]] = ["reader", "summarizer", "writer", "canonical-writer", "checker", "follower"]
    capabilities: ClassVar[list[str]] = [
        "line_limit",
        "bundle",
        "seal",
        "session",
        "latest_attempt",
        "ranks",
        "findings_offset",
        "own_kinds",
        "media",
    ]
    lines_type: type[Lines] = Lines
    reading_type: type[Reading] = Reading
    checking_type: type[Checking] = Checking
    sealing_type: type[Sealing] = Sealing
    summarizing_type: type[Summarizing] = Summarizing
    writing_type: type[Writing] = Writing
    bundles_type: type[Bundles] = Bundles
    following_type: type[Following] = Following

    def __init__(self) -> None:
        self.followers: dict[int, Following] = {}
        self.held: dict[str, int] = {}
        """The descriptors of the held streams, by directory."""

    def hello(self) -> Message:
        """Return the hello of this adapter."""
        return {
            "protocol": 1,
            "name": self.name,
            "language": "Python",
            "version": "1",
            "roles": self.roles,
            "profiles": ["toy/v1", "metrics/v1", "kaun/v1"],
            "revisions": listed(),
            "lines": True,
            "capabilities": self.capabilities,
        }

    def answer(self, request: Message) -> Message:
        """Return the answer to one request."""
        tables.follow(request.get("revision", CURRENT))
        roles = {
            "reader": self.read,
            "summarizer": self.summarize,
            "checker": self.check,
            "writer": self.write,
            "canonical-writer": self.write,
            "follower": self.follow,
        }
        return roles[request["role"]](request)

    def read(self, request: Message) -> Message:
        """Answer as a reader."""
        reading = self.reading(request)
        stream, _ = self.opened(request, reading)
        answer = reading.read(stream, request.get("mode"), request.get("view"))
        if "directory" in request and tables.has("1.3"):
            answer["ranks"] = self.ranks(request["directory"])
        return answer

    def ranks(self, directory: str) -> list[int]:
        """Return the ranks from 1 on that have a stream in a bundle, in order."""
        return sorted(
            int(found[1])
            for name in os.listdir(directory)
            if (found := self.is_rank(name)) is not None and os.path.isfile(os.path.join(directory, name))
        )

    def is_rank(self, name: str) -> re.Match[str] | None:
        """Return the match of the name of a stream of another rank, with its digits."""
        return _RANK.match(name)

    def summarize(self, request: Message) -> Message:
        """Answer as a summarizer."""
        reading = self.reading(request)
        stream, _ = self.opened(request, reading)
        run_id = self.bundle_id(request["directory"]) if "directory" in request else None
        summarizing = self.summarizing_type(reading)
        summary = summarizing.summary(stream, run_id)
        others = self.ranks(request["directory"]) if "directory" in request and tables.has("1.3") else []
        if others and stream.profile == "toy/v1":
            summary |= summarizing.ranks({0: stream, **self.others(request, reading, others)})
        return {"profile": stream.profile, "state": reading.state(stream), "summary": summary}

    def others(self, request: Message, reading: Reading, ranks: list[int]) -> dict[int, Stream]:
        """Return the streams of other ranks, by rank."""
        named = {rank: {**request, "name": f"events.rank-{rank}.jsonl", "profile": "toy/v1"} for rank in ranks}
        return {rank: self.opened(each, reading)[0] for rank, each in named.items()}

    def bundle_id(self, directory: str) -> str:
        """Return the run_id of a kaun/v1 bundle."""
        data = content(os.path.join(directory, "run.json"))
        value = self.lines_type().text(data).value if data else None
        if value is None or "/run_id" in {problem.pointer for problem in RecordRules("kaun/v1").problems("run", value)}:
            return os.path.basename(directory)
        run_id = value.get("run_id")
        assert run_id is not None
        return run_id.text

    def check(self, request: Message) -> Message:
        """Answer as a checker."""
        reading = self.reading(request)
        checking = self.checking_type(reading.lines, reading)
        if "directory" not in request:
            return checking.check(self.opened(request, reading)[0])
        if "name" not in request and not any(
            os.path.isfile(os.path.join(request["directory"], name)) for name in STREAMS
        ):
            return checking.missing()
        stream, sidecars = self.opened(request, reading)
        has_seal_of = request.get("name") in {None, *STREAMS}
        sealing = self.sealing(request["directory"], reading) if has_seal_of else None
        if sidecars is None:
            return checking.check(stream, sealing=sealing, place=(request["directory"], request.get("name", "")))
        place = (request["directory"], "events.jsonl")
        return checking.check(stream, os.path.basename(request["directory"]), sidecars, sealing, place)

    def sealing(self, directory: str, reading: Reading) -> Sealing | None:
        """Return what compares the bundle in *directory* with its seal; None without one."""
        if not os.path.lexists(os.path.join(directory, SEAL)):
            return None
        stream = next(name for name in STREAMS if os.path.exists(os.path.join(directory, name)))
        return self.sealing_type(directory, stream, reading.lines.max_line_bytes)

    def write(self, request: Message) -> Message:
        """Answer as a writer of either kind."""
        if "release" in request:
            os.close(self.held.pop(request["release"]))
            return {"outcome": "written"}
        try:
            if "directory" in request:
                bundles = self.bundles_type(self.reading({}))
                bundles.writing = self.writing_type
                descriptor = bundles.write(request)
                if request["end"] == "held":
                    self.held[request["directory"]] = descriptor
                else:
                    bundles.closed(descriptor)
                return {"outcome": "written"}
            writing = self.writing_type(request["profile"], is_canonical=request["role"] == "canonical-writer")
            return {"outcome": "written", "stream": writing.stream(request["records"])}
        except RefusedError as error:
            return {"outcome": "refused", "reason": str(error)}

    def follow(self, request: Message) -> Message:
        """Answer as a follower."""
        number = request["follower"]
        if "stop" in request:
            self.followers.pop(number).close()
            return {"items": []}
        if number not in self.followers:
            self.followers[number] = self.following_type(request["path"], self.reading(request))
        return {"items": self.followers[number].look()}

    def reading(self, request: Message) -> Reading:
        """Return a reading with the limit that *request* names."""
        lines = self.lines_type()
        lines.max_line_bytes = request.get("max_line_bytes", lines.max_line_bytes)
        return self.reading_type(lines)

    def opened(self, request: Message, reading: Reading) -> tuple[Stream, dict[str, bytes | None] | None]:
        """Return the stream of *request*, and the other files of its bundle."""
        profile = request.get("profile")
        if "directory" not in request:
            return reading.open(request["stream"], name=request.get("name"), profile=profile), None
        directory = request["directory"]
        has_events = os.path.exists(os.path.join(directory, "events.jsonl"))
        name = request.get("name") or ("events.jsonl" if has_events else "metrics.jsonl")
        has_events = name == "events.jsonl"
        manifest = is_manifest(reading.lines, content(os.path.join(directory, "run.json")))
        with open(os.path.join(directory, name), "rb") as file:
            stream = reading.open(file.read(), name=name, profile=profile, manifest=manifest)
        if not has_events:
            return stream, None
        return stream, {
            name: content(os.path.join(directory, name))
            for name in SIDECARS
            if os.path.lexists(os.path.join(directory, name))
        }


def run(adapter: Oracle, arguments: list[str]) -> int:
    """Run the adapter as PROTOCOL.md describes; return the exit status."""
    if arguments[:1] == ["--oneshot"]:
        return oneshot(adapter, arguments[1], arguments[2:])
    say({"hello": adapter.hello()})
    if arguments == ["--lines"]:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if "stream" in request:
                request["stream"] = base64.b64decode(request["stream"])
            if "media" in request:
                request["media"] = [base64.b64decode(content) for content in request["media"]]
            answer = adapter.answer(request)
            if "stream" in answer:
                answer["stream"] = base64.b64encode(answer["stream"]).decode()
            say({"id": request["id"], **answer})
    return 0


def oneshot(adapter: Oracle, role: str, options: list[str]) -> int:
    """Answer one request that arrives as options and standard input; return the exit status."""
    request: Message = {"role": role}
    for option, value in zip(options[::2], options[1::2], strict=True):
        key = option.removeprefix("--").replace("-", "_")
        request[key] = int(value) if key in _INTEGERS else value
    if role == "follower":
        for _ in sys.stdin.buffer:
            say(adapter.answer({"follower": 0, **request}))
        return 0
    data = sys.stdin.buffer.read()
    if role in {"writer", "canonical-writer"}:
        answer = adapter.answer({**request, "records": [json.loads(line) for line in data.splitlines()]})
        sys.stdout.buffer.write(answer.get("stream", b""))
        return int(answer["outcome"] == "refused")
    answer = adapter.answer({**request, "stream": data})
    say(answer)
    return int(answer.get("outcome") == "fails" or answer.get("valid") is False)


def say(message: Message) -> None:
    """Write one message to standard output, at once."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
