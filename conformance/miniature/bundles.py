"""Writes records into the directory of a run: see spec/bundle.md and spec/writing.md."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from conformance.miniature.json_text import is_integer
from conformance.miniature.writing import RefusedError, Writing, unwrapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformance.miniature.reading import Reading, Stream

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?![\s\S])")


class Bundles:
    """Writes runs. Every step is a method, so that an impostor can change one."""

    writing: type[Writing] = Writing

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def write(self, request: Mapping[str, Any]) -> None:
        """Write the records of *request* into its directory and leave the run; raise RefusedError."""
        profile = request["profile"]
        if not is_safe_run_id(request["run_id"]):
            raise RefusedError("the run_id is no name for a directory")
        path = os.path.join(request["directory"], "metrics.jsonl" if profile == "metrics/v1" else "events.jsonl")
        writer = self.writing(profile)
        kept = self.existing(path, request, writer)
        self.demand_resume(request, kept)
        os.makedirs(request["directory"], exist_ok=True)
        with open(path, "wb") as file:
            file.write(kept)
            file.writelines(writer.record(record) for record in self.all_records(request, writer))

    def existing(self, path: str, request: Mapping[str, Any], writer: Writing) -> bytes:
        """Return what stays of the stream at *path*; put aside what does not."""
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as file:
            stream = self.reading.open(file.read(), name=os.path.basename(path), profile=request["profile"])
        exist = request["exist"]
        if exist == "replace":
            os.replace(path, f"{path}.prev")
            return b""
        if exist == "fail":
            raise RefusedError("the stream exists")
        self.demand_open(stream, exist)
        self.set_aside(stream, path)
        committed = stream.data[: len(stream.data) - len(stream.fragment)]
        for record in self.reading.read(stream, "salvage")["records"]:
            writer.record(record)
        return committed

    def demand_open(self, stream: Stream, exist: str) -> None:
        """Raise RefusedError where nothing may be added to a stream."""
        state = self.reading.state(stream)
        if state == "damaged" or (exist == "resume" and state == "complete"):
            raise RefusedError(f"the stream is {state}")
        if exist == "append" and stream.profile == "toy/v1":
            raise RefusedError("the stream holds another run")

    def demand_resume(self, request: Mapping[str, Any], kept: bytes) -> None:
        """Raise RefusedError where a run goes on without saying so."""
        records = request["records"]
        if request["exist"] == "resume" and kept and (not records or unwrapped(records[0]).get("kind") != "run_resume"):
            raise RefusedError("a resumed run begins with run_resume")

    def set_aside(self, stream: Stream, path: str) -> None:
        """Keep the fragment of a stream in a file beside it."""
        if stream.fragment:
            with open(f"{path}.torn-{len(stream.data) - len(stream.fragment)}", "xb") as file:
                file.write(stream.fragment)

    def all_records(self, request: Mapping[str, Any], writer: Writing) -> list[Any]:
        """Return the records of *request* and the one that ends the run, where it has none."""
        records: Sequence[Any] = request["records"]
        ending = self.ending(request)
        kinds = [unwrapped(record).get("kind") for record in records]
        if request["profile"] != "toy/v1" or ending is None or "run_end" in kinds:
            return list(records)
        t = unwrapped(records[-1])["t"] if records else writer.last_t
        return [*records, {"kind": "run_end", "t": t, **ending, **self.final(records)}]

    def ending(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields that say how the run was left, None where nothing is written."""
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
