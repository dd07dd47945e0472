"""The roles writer and canonical-writer."""

from __future__ import annotations

import inspect
import math
import os
import sys
import tempfile
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import toyspec
from tagged import untagged
from toyspec.core.errors import StreamError
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError, encode
from toyspec.core.generated.kaun_v1 import Scalar
from toyspec.core.system_calls import SYSTEM_CALLS
from toyspec.core.writing.clocks import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Message = dict[str, Any]

# What a caller that is wrong gets, and what a stream that cannot be written to gives.
_REFUSALS = (InvalidEventError, RecordRefusedError, StreamError, ValueError, TypeError, OSError)
_A_LITTLE = 2e-7
_LONGEST_RUN_SECONDS = 1e9
_ALWAYS_WRITTEN: dict[str, dict[str, Any]] = {"metrics/v1": {"extra": {}}}
_LEFT_OUT_UNLESS_GIVEN: dict[str, dict[str, Any]] = {
    "run_start": {"host": "", "started_at": ""},
    "eval": {"phase": None},
    "run_resume": {"resumed_at": ""},
    "run_end": {"final_step": None, "final_loss": None, "ended_at": ""},
}


class UntestableError(Exception):
    """The library has no way to do what is asked."""


class CaseClock:
    """Tells the time that the case says."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return seconds since the start of the run: just more than what the case names, so that a wrong time shows."""
        return self.now + _A_LITTLE if self.now else self.now

    def wall(self) -> float:
        """Return a moment that is always the same."""
        return 1780219800.0


_held: dict[str, toyspec.RunWriter | toyspec.MetricsLog | toyspec.KaunRun] = {}


def write(request: Message) -> Message:
    """Answer as a writer."""
    if "release" in request:
        held = _held.pop(request["release"], None)
        if held is None:
            return {"error": "this adapter holds no such stream"}
        held.close()
        return {"outcome": "written"}
    records = [untagged(record) for record in request["records"]]
    write_all = {"toy/v1": _write_toy, "metrics/v1": _write_metrics, "kaun/v1": _write_kaun}[request["profile"]]
    try:
        if "directory" in request:
            write_all(request["directory"], records, request)
            return {"outcome": "written"}
        with tempfile.TemporaryDirectory(prefix="adapter-") as folder:
            directory = os.path.join(folder, "run")
            path = write_all(directory, records, request)
            with open(path, "rb") as file:
                return {"outcome": "written", "stream": file.read()}
    except UntestableError as error:
        return {"untestable": str(error)}
    except _REFUSALS as error:
        return {"outcome": "refused", "reason": f"{type(error).__name__}: {error}"}


def canonical(request: Message) -> Message:
    """Answer as a canonical writer."""
    profile = request["profile"]
    try:
        records = [_ALWAYS_WRITTEN.get(profile, {}) | untagged(record) for record in request["records"]]
        lines = [encode(record, profile=profile) + b"\n" for record in records]
    except _REFUSALS as error:
        return {"outcome": "refused", "reason": f"{type(error).__name__}: {error}"}
    return {"outcome": "written", "stream": b"".join(lines)}


def _write_toy(directory: str, records: list[Message], request: Message) -> str:
    # Records without times are written on the clock that programs have.
    clock = CaseClock() if any("t" in record for record in records) else None
    contents = list(request.get("media", ()))
    run_id = request.get("run_id") or next((record.get("run_id") for record in records), None)
    exist = request.get("exist", "replace")
    run = toyspec.RunWriter(directory, run_id=run_id, exist=exist, on_error="raise", clock=clock or SYSTEM_CLOCK)
    try:
        for before, record in zip([{}, *records], records, strict=False):
            if before.get("kind") == "run_end" and record.get("kind") == "run_resume":
                # A writer ends with its run; the run goes on in another one.
                run.close()
                if clock is not None and isinstance(before.get("t"), float):
                    clock.now = before["t"]
                run = toyspec.RunWriter(
                    directory, run_id=run_id, exist="resume", on_error="raise", clock=clock or SYSTEM_CLOCK
                )
            is_shown = record.get("kind") == "media" and contents
            written = _with_file(run, record, contents.pop(0)) if is_shown else record
            _write_event(run, written, clock, keep_t="directory" not in request)
        _leave(run, request)
    finally:
        _close(run, directory, request)
    return run.events_path


def _with_file(run: toyspec.RunWriter, record: Message, content: bytes) -> Message:
    """Write the file of a media *record*; return the record with its digest and size."""
    digest = sha256(content).hexdigest()
    if record.get("sha256", digest) != digest:
        raise InvalidEventError(f"its sha256 is {digest}")
    return {**toyspec.File(content, record["media_type"]).placed(run.directory, SYSTEM_CALLS), **record}


def _close(writer: toyspec.RunWriter | toyspec.MetricsLog | toyspec.KaunRun, directory: str, request: Message) -> None:
    """Release a stream, unless the request keeps it until it is released explicitly."""
    if request.get("end") == "held" and sys.exc_info()[0] is None:
        _held[directory] = writer
    else:
        writer.close()


def _write_event(run: toyspec.RunWriter, record: Message, clock: CaseClock | None, *, keep_t: bool) -> None:
    """Write *record* by the method of its kind if that can express it, else unchanged."""
    t, kind = record.get("t"), record.get("kind")
    # `artifact` looks at the file, which cases do not have.
    has_method = isinstance(kind, str) and kind in _members_of() and kind != "artifact"
    method = getattr(run, kind or "", None) if has_method else None
    tells_t = clock is None or (isinstance(t, float) and (not keep_t or _clock_can_tell(t, clock)))
    if method is None or not tells_t or not _can_say(method, kind or "", record, run):
        if clock is not None and not keep_t and isinstance(t, float) and kind in _members_of():
            clock.now = t
            record = {key: value for key, value in record.items() if key != "t"}
        run.write(record)
        return
    if clock is not None and isinstance(t, float):
        clock.now = t
    members = {key: value for key, value in record.items() if key not in {"kind", "t", "schema", "run_id"}}
    method(**_LEFT_OUT_UNLESS_GIVEN.get(kind or "", {}) | members)


def _clock_can_tell(t: float, clock: CaseClock) -> bool:
    is_reported = (t + _A_LITTLE) * 1e6 // 1 / 1e6 == t  # what is smaller than a microsecond is not written
    return clock.now <= t <= _LONGEST_RUN_SECONDS and is_reported and math.copysign(1.0, t) > 0


def _can_say(method: Callable[..., Any], kind: str, record: Message, run: toyspec.RunWriter) -> bool:
    """Return whether *method* takes every member of *record*, and writes the others unchanged."""
    # A member that is None is not given.
    if None in record.values() or "" in record.values():
        return False
    parameters = inspect.signature(method).parameters
    known = {name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    known |= {"kind", "t"}
    # A step keeps what it does not know in its extra.
    if kind != "step" and any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        known |= _members_of()[kind].keys()
    if kind == "run_start":
        known |= {"schema", "run_id"}
        if record.get("schema") != "toy/v1" or record.get("run_id") != run.run_id:
            return False
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    required -= {name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD}
    return record.keys() <= known and required <= record.keys()


def _members_of() -> Mapping[str, Mapping[str, Any]]:
    """Return the members of each kind of toy/v1."""
    from toyspec.core.generated.fields import FIELDS

    return FIELDS["toy/v1"]


def _leave(run: toyspec.RunWriter, request: Message) -> None:
    """Leave the run as *request* says; without a word about it, as a program that is killed does."""
    end = request.get("end", "killed")
    if end == "closed":
        run.__exit__(None, None, None)
    elif end == "errored":
        error = RuntimeError(request.get("error", ""))
        run.__exit__(RuntimeError, error, None)
    elif end == "interrupted":
        run.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


def _write_metrics(directory: str, records: list[Message], request: Message) -> str:
    if request.get("exist", "append") != "append":
        raise UntestableError("MetricsLog always appends")
    known = {"step", "wall_time_ms", "loss", "grad_norm", "throughput_samples_per_sec", "extra"}
    if any(record.keys() - known for record in records):
        raise UntestableError("MetricsLog takes the fields of an entry and no others")
    log = toyspec.MetricsLog.open(os.path.join(directory, "metrics.jsonl"))
    try:
        for record in records:
            log.record(**record)
    finally:
        _close(log, directory, request)
    return log.path


def _write_kaun(directory: str, records: list[Message], request: Message) -> str:
    known = {"type", "step", "wall_time", "tag", "value", "minimize", "epoch"}
    if any(record.get("type") != "scalar" or record.keys() - known for record in records):
        raise UntestableError("KaunRun writes scalars, and no other types and keys")
    run = toyspec.KaunRun.load(directory)
    if run is None:
        if "directory" in request:
            raise UntestableError("KaunRun gives a new run its id itself")
        run = toyspec.KaunRun.create(os.path.dirname(directory))
    try:
        for record in records:
            members = {key: value for key, value in record.items() if key != "type"}
            run.append(Scalar(**members))
    finally:
        _close(run, directory, request)
    return run.events_path
