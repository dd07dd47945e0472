"""Writes records into the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from typing import TYPE_CHECKING, Any

from conformance import locking
from conformance.format_facts import MAX_SAFE_RUN_ID_CHARS
from conformance.oracle.json_text import is_integer
from conformance.oracle.lines import is_manifest
from conformance.oracle.writing import RefusedError, Writing, unwrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.oracle.reading import Reading, Stream

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
            stream = self.stream(path, profile) if descriptor is not None else None
            if stream is not None and stream.data:
                self.demand_open(stream, request["exist"])
                self.demand_profile(stream, path, request["exist"])
            writer = self.writing(profile)
            kept = self.kept(stream, request["exist"], writer)
            self.demand_resume(request, kept)
            lines = self.lines(request, writer)
            if stream is not None and request["exist"] == "replace" and self.is_worth_keeping(stream):
                self.move_away(path)
                self.closed(descriptor)
                descriptor = None
            elif stream is not None:
                self.set_aside(stream, path)
            return self.written(path, descriptor, kept, lines)
        except BaseException:
            self.closed(descriptor)
            raise

    def existing(self, path: str) -> int | None:
        """Return a descriptor of the stream at *path*, locked; None if it does not exist."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return self.locked(descriptor)

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

    def stream(self, path: str, profile: str) -> Stream:
        """Return the stream at *path* as one of *profile*; raise RefusedError if it has none."""
        with open(path, "rb") as file:
            return self.reading.open(file.read(), name=os.path.basename(path), profile=profile)

    def demand_open(self, stream: Stream, exist: str) -> None:
        """Raise RefusedError if nothing may be appended to a stream."""
        if exist == "replace":
            return
        if exist == "fail" or (exist == "append" and stream.profile == "toy/v1"):
            raise RefusedError("the stream holds another run")
        state = self.reading.state(stream)
        if state == "damaged" or (exist == "resume" and state == "complete"):
            raise RefusedError(f"the stream is {state}")

    def demand_profile(self, stream: Stream, path: str, exist: str) -> None:
        """Raise RefusedError if the stream has records without a profile."""
        directory, name = os.path.split(path)
        manifest = is_manifest(self.reading.lines, content(os.path.join(directory, "run.json")))
        found = self.reading.open(stream.data, name=name, manifest=manifest)
        if exist in {"resume", "append"} and found.profile is None:
            raise RefusedError("the stream has no profile")

    def kept(self, stream: Stream | None, exist: str, writer: Writing) -> bytes:
        """Return the committed bytes that stay, after *writer* has read them."""
        if stream is None or exist == "replace":
            return b""
        for record in self.reading.read(stream, "salvage")["records"]:
            with contextlib.suppress(RefusedError):  # an invalid record of an earlier writer does not stop the run
                writer.record(record)
        return stream.data[: len(stream.data) - len(stream.fragment)]

    def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
        """Raise RefusedError if a run resumes without run_resume."""
        records = request["records"]
        if request["exist"] == "resume" and kept and (not records or unwrapped(records[0]).get("kind") != "run_resume"):
            raise RefusedError("a resumed run begins with run_resume")

    def lines(self, request: Mapping[str, Any], writer: Writing) -> bytes:
        """Return the lines to write; raise RefusedError."""
        return b"".join(writer.record(record) for record in self.all_records(request, writer))

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

    def set_aside(self, stream: Stream, path: str) -> None:
        """Keep the fragment of a stream in a side file."""
        if not stream.fragment:
            return
        first = f"{path}.torn-{len(stream.data) - len(stream.fragment)}"
        names = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
        name = next(name for name in names if not os.path.lexists(name))
        with open(name, "xb") as file:
            file.write(stream.fragment)
            file.flush()
            os.fsync(file.fileno())

    def written(self, path: str, descriptor: int | None, kept: bytes, lines: bytes) -> int:
        """Write *lines* after the bytes that are kept; return the descriptor of the stream."""
        if descriptor is None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL
            descriptor = self.locked(os.open(path, flags, 0o666))
        os.ftruncate(descriptor, len(kept))
        assert os.write(descriptor, lines) == len(lines)
        return descriptor

    def all_records(self, request: Mapping[str, Any], writer: Writing) -> list[Any]:
        """Return the records of *request*, with a record that ends the run if there is none."""
        records: Sequence[Any] = request["records"]
        ending = self.ending(request)
        kinds = [unwrapped(record).get("kind") for record in records]
        if request["profile"] != "toy/v1" or ending is None or "run_end" in kinds:
            return list(records)
        t = unwrapped(records[-1])["t"] if records else writer.last_t
        return [*records, {"kind": "run_end", "t": t, **ending, **self.final(records)}]

    def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields of run_end, None if it is not written."""
        end = request["end"]
        if end == "errored":
            return {"reason": "errored", "error": request.get("error", "")}
        return {"closed": {"reason": "completed"}, "interrupted": {"reason": "interrupted"}}.get(end)

    def final(self, records: Sequence[Any]) -> dict[str, Any]:
        """Return final_step and final_loss as the last training step has them."""
        members = [unwrapped(record) for record in records]
        start = next((m for m in members if m.get("kind") == "run_start"), {})
        steps = [
            m for m in members if m.get("kind") == "step" and m.get("phase", start.get("phase", "train")) == "train"
        ]
        if not steps or not is_integer(steps[-1]["step"]["int"]):
            return {}
        loss = {"final_loss": steps[-1]["loss"]} if "loss" in steps[-1] else {}
        return {"final_step": steps[-1]["step"], **loss}


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
