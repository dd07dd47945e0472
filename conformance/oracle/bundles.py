"""Writes records into the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from conformance import locking
from conformance.format_facts import MAX_SAFE_RUN_ID_CHARS
from conformance.oracle import tables
from conformance.oracle.lines import is_manifest
from conformance.oracle.stream_rules import OUTSIDE, ToyRules
from conformance.oracle.writing import RefusedError, Writing, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.oracle.reading import Reading, Stream
    from conformance.oracle.stream_rules import Seen

RANK = re.compile(r"events\.rank-[1-9][0-9]{0,8}\.jsonl")
_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_SAFE_RUN_ID_CHARS - 1}}}(?![\s\S])")


class Bundles:
    """Writes runs. Each step is a method that a mutant can override."""

    writing: type[Writing] = Writing

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def write(self, request: Mapping[str, Any]) -> int:
        """Write the records of *request* into its directory; return the descriptor of the stream.

        Raise RefusedError, and then change no file.
        """
        profile = request["profile"]
        if not is_safe_run_id(request["run_id"]):
            raise RefusedError("the run_id cannot be the name of a directory")
        path = os.path.join(request["directory"], "metrics.jsonl" if profile == "metrics/v1" else "events.jsonl")
        descriptor = self.existing(path)
        try:
            stream = self.stream(path) if descriptor is not None else None
            if stream is not None and request["exist"] != "replace":
                self.demand_open(stream, request["exist"], profile)
                self.demand_profile(stream, profile)
            writer = self.writing(profile)
            kept = self.kept(stream, request["exist"], writer)
            self.demand_resume(request, kept)
            writer.open()
            contents = request.get("media", [])
            if contents:
                self.demand_folder(request["directory"])
                request = {**request, "records": self.with_hashes(request["records"], contents)}
            lines = self.lines(request, writer)
            for record, content in zip(self.media(request["records"]), contents, strict=False):
                self.file(request["directory"], record, content)
            if stream is not None and request["exist"] == "replace" and self.is_worth_keeping(stream):
                self.move_away(path)
                self.closed(descriptor)
                descriptor = None
                self.move_ranks(request["directory"], profile)
            elif stream is not None:
                self.move_fragment(stream, path)
            return self.written(path, descriptor, kept, lines)
        except BaseException:
            self.closed(descriptor)
            raise

    def existing(self, path: str) -> int | None:
        """Return a descriptor of the stream at *path*, locked; None if it does not exist."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        self.demand_regular(descriptor)
        return self.locked(descriptor)

    def demand_regular(self, descriptor: int) -> None:
        """Raise RefusedError, and close *descriptor*, if it is not of a regular file."""
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RefusedError("the stream is not a regular file")

    def locked(self, descriptor: int) -> int:
        """Return *descriptor* with its lock; raise RefusedError if another writer holds the file."""
        try:
            locking.take(descriptor)
        except locking.HeldError:
            os.close(descriptor)
            raise RefusedError("another writer holds the stream") from None
        return descriptor

    def closed(self, descriptor: int | None) -> None:
        """Close *descriptor*, which releases its lock."""
        if descriptor is not None:
            os.close(descriptor)

    def stream(self, path: str) -> Stream:
        """Return the stream at *path*."""
        manifest = is_manifest(self.reading.lines, content(os.path.join(os.path.dirname(path), "run.json")))
        with open(path, "rb") as file:
            return self.reading.open(file.read(), name=os.path.basename(path), manifest=manifest)

    def demand_open(self, stream: Stream, exist: str, profile: str) -> None:
        """Raise RefusedError if nothing may be appended to a stream."""
        if exist == "fail" or (exist == "append" and profile == "toy/v1"):
            raise RefusedError("the stream holds another run")
        state = self.reading.state(stream)
        if state == "damaged" or (exist == "resume" and state == "complete" and not tables.has("1.3")):
            raise RefusedError(f"the stream is {state}")

    def demand_profile(self, stream: Stream, profile: str) -> None:
        """Raise RefusedError if the stream has records of another profile, or of none."""
        if stream.profile != profile and any(line.status == "readable" for line in stream.lines):
            raise RefusedError(f"the stream has the profile {stream.profile}")

    def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
        """Return the committed bytes that stay, after *writer* has read them."""
        if stream is None or exist == "replace":
            return b""
        for record in self.reading.read(stream, None)["records"]:
            writer.keep(record)
        return stream.data[: len(stream.data) - len(stream.fragment)]

    def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
        """Raise RefusedError if a run resumes without run_resume."""
        if request["exist"] == "resume" and kept and unwrapped(request["records"][0]).get("kind") != "run_resume":
            raise RefusedError("a resumed run begins with run_resume")

    def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
        """Return the lines to write; raise RefusedError."""
        for record in request["records"]:
            self.demand_inside(unwrapped(record))
        lines = [writer.record(record) for record in request["records"]]
        return b"".join(lines + [writer.record(record) for record in self.last(request, writer)])

    def demand_inside(self, record: Mapping[str, Any]) -> None:
        """Raise RefusedError if the path of an artifact leaves the bundle."""
        path = record.get("path") if record.get("kind") == "artifact" and tables.has("1.3") else None
        if isinstance(path, str) and OUTSIDE.search(path):
            raise RefusedError("the path of the artifact leaves the bundle")

    def media(self, records: list[Any]) -> list[Mapping[str, Any]]:
        """Return the records of media, the contents of which a request has."""
        return [found for record in records if (found := unwrapped(record)).get("kind") == "media"]

    def demand_folder(self, directory: str) -> None:
        """Raise RefusedError if the folder of media is not one of the bundle."""
        folder = os.path.join(directory, "media")
        if os.path.islink(folder):
            raise RefusedError("media is not a folder of the bundle")

    def with_hashes(self, records: list[Any], contents: list[bytes]) -> list[Any]:
        """Return the records, those of media with the hash of their content; raise RefusedError at another one."""
        hashes = iter([hashlib.sha256(content).hexdigest() for content in contents])
        return [self.with_hash(unwrapped(record), hashes) for record in records]

    def with_hash(self, record: Mapping[str, Any], hashes: Iterator[str]) -> Mapping[str, Any]:
        """Return a record with the next of the *hashes* if it is one of media."""
        if record.get("kind") != "media":
            return record
        digest = next(hashes)
        if record.get("sha256", digest) != digest:
            raise RefusedError("the content has another hash")
        return {**record, "sha256": digest}

    def file(self, directory: str, record: Mapping[str, Any], content: bytes) -> None:
        """Write the file of a record of media."""
        folder = os.path.join(directory, "media")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{record['sha256']}.{self.extension(record['media_type'])}")
        with open(path, "wb") as file:
            file.write(content)

    def extension(self, media_type: str) -> str:
        """Return the extension of the file of a media type."""
        return tables.extension(media_type)

    def is_worth_keeping(self, stream: Stream) -> bool:
        """Return whether a replaced stream has any bytes."""
        return bool(stream.data)

    def move_away(self, path: str) -> None:
        """Move the stream at *path* to the previous one, and that one to a numbered name."""
        previous = f"{path}.prev"
        if os.path.lexists(previous):
            numbers = (f"{previous}-{number}" for number in itertools.count(1))
            os.rename(previous, next(name for name in numbers if not os.path.lexists(name)))
        os.rename(path, previous)

    def move_ranks(self, directory: str, profile: str) -> None:
        """Move the streams of the other ranks of a replaced run, but those that are empty or that a writer holds."""
        for name in sorted(os.listdir(directory)) if profile == "toy/v1" and tables.has("1.4") else ():
            if RANK.fullmatch(name) is not None:
                self.move_rank(os.path.join(directory, name))

    def move_rank(self, path: str) -> None:
        """Move the stream of one rank at *path*."""
        try:
            descriptor = self.existing(path)
        except RefusedError:
            return
        if os.path.getsize(path):
            self.move_away(path)
        self.closed(descriptor)

    def move_fragment(self, stream: Stream, path: str) -> None:
        """Keep the fragment of a stream in a side file."""
        if not stream.fragment:
            return
        first = f"{path}.torn-{len(stream.data) - len(stream.fragment)}"
        names = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
        name = next(name for name in names if not os.path.lexists(name))
        with open(name, "xb") as file:
            file.write(stream.fragment)

    def written(self, path: str, descriptor: int | None, kept: bytes, lines: bytes) -> int:
        """Write *lines* after the bytes that are kept; return the descriptor of the stream."""
        if descriptor is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb"):
                descriptor = self.existing(path)
        assert descriptor is not None
        os.ftruncate(descriptor, len(kept))
        assert os.write(descriptor, lines) == len(lines)
        return descriptor

    def last(self, request: Mapping[str, Any], writer: Writing) -> list[Any]:
        """Return the record that ends the run, in a list; none if it is not written or was."""
        ending = self.ending(request)
        rules = writer.rules
        if not isinstance(rules, ToyRules) or rules.ended or ending is None:
            return []
        # The clock of the stream moves the time forward.
        return [{"kind": "run_end", "t": {"float": "0.0"}, **ending, **self.final(rules.last_numbered)}]

    def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields of run_end, None if it is not written."""
        end = request["end"]
        if end == "errored":
            return {"reason": "errored", "error": request["error"]}
        return {"closed": {"reason": "completed"}, "interrupted": {"reason": "interrupted"}}.get(end)

    def final(self, step: Seen | None) -> dict[str, Any]:
        """Return final_step and final_loss as *step*, the last one of phase train with a number, has them."""
        members = unwrapped(self.reading.tagged_record(step.value, "toy/v1")) if step else {}
        return {f"final_{key}": members[key] for key in ("step", "loss") if step and step.field(key) is not None}


def is_safe_run_id(run_id: str) -> bool:
    """Return whether *run_id* is the name of a directory on every system."""
    return _RUN_ID.match(run_id) is not None


def content(path: str) -> bytes | None:
    """Return the bytes of a file, None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
