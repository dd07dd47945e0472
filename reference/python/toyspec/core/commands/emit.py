"""``toyspec emit``: write an event from a shell script."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, did_you_mean, local_path
from toyspec.core.command_line.terminal import tell
from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError
from toyspec.core.format.date_times import unix_seconds
from toyspec.core.format.line_validation import validate
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.generated.fields import FIELDS
from toyspec.core.system_calls import cause_of
from toyspec.core.writing.clocks import utc_text
from toyspec.core.writing.environment import this_host
from toyspec.core.writing.run_ids import check_run_id
from toyspec.core.writing.run_stream import RunStream
from toyspec.core.writing.settings import Settings

if TYPE_CHECKING:
    from argparse import Namespace

_DESCRIPTION = """\
Append one event to the stream of a run, from a shell script. Each call resumes
the stream at its end; separate processes may take turns.

Each NAME=VALUE is a member. A value is JSON, or else a string; dots in a name
reach into an object. Members that are not given are filled in: t (time since
started_at), the number of a step, and

  run_start   schema, run_id (the name of DIR), started_at, host
  run_resume  from_step (the last step), resumed_at
  run_end     reason (completed), ended_at, final_step, final_loss

An event that would make the stream invalid is refused: nothing is written. A
number that is not finite (nan, inf) is written as null."""
_EPILOG = """\
exit status:
  0  the event is in the stream
  1  the event was refused: it is invalid, or not allowed after the last one
  2  wrong usage, or the stream cannot be written: locked for five seconds,
     damaged, complete

examples:
  toyspec emit runs/a run_start model.arch=llama config.lr=3e-4
  toyspec emit runs/a step loss=2.31 lr=3e-4 extra.mfu=0.41
  toyspec emit runs/a note text="learning rate lowered"
  toyspec emit runs/a run_end"""
_LOCK_SECONDS = 5.0
# How tools print a number that is not finite; it is written as null.
_NOT_FINITE = frozenset(["nan", "inf", "infinity"])
_Type = Any
"""A type of ``generated.fields``; None where nothing is declared."""


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec emit [OPTION…] DIR KIND [NAME=VALUE…]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("directory", metavar="DIR", type=local_path, help="the run directory; run_start creates it")
    parser.add_argument("kind", metavar="KIND", help="kind of the event; `toyspec schema` lists them")
    parser.add_argument("members", metavar="NAME=VALUE", nargs="*", default=[], help="members of the event")
    parser.add_argument("--json", metavar="OBJECT", help="take members from a JSON object; - reads it from stdin")


def run(options: Namespace) -> int:
    """Write the event and return an exit code."""
    text = sys.stdin.read() if options.json == "-" else options.json
    event = event_of(options.kind, options.members, text)
    for remark in unknown_members(event):
        tell("emit", remark)
    path = os.path.join(options.directory, EVENTS_FILE)
    if options.kind != "run_start" and not os.path.exists(path):
        raise UsageError(f"{path}: no such stream; begin it with `toyspec emit {options.directory} run_start`")
    try:
        stream = RunStream(path, settings=Settings(exist="resume", on_error="raise", wait_seconds=_LOCK_SECONDS))
        try:
            stream.progress.go_on()
            stream.write(_filled(event, stream, options.directory))
        finally:
            stream.close()
    except (InvalidEventError, RecordRefusedError) as error:
        tell("emit", f"{path}: {error}; nothing was written")
        return exit_codes.FINDINGS
    except OSError as error:
        tell("emit", f"{path}: {cause_of(error)}; nothing was written")
        return exit_codes.USAGE
    return exit_codes.OK


def _filled(event: dict[str, Any], stream: RunStream, directory: str) -> dict[str, Any]:
    """Return *event* with its missing members filled in from what is known of the run."""
    kind, progress, now = event["kind"], stream.progress, time.time()
    known: dict[str, Any] = {"t": max(_elapsed(stream.run_start, now), progress.time)}
    if kind == "run_start":
        known |= _beginning(now, directory, event)
    elif kind == "step":
        phase = event.get("phase")
        known["step"] = progress.next_step(phase if isinstance(phase, str) else progress.phase)
    elif kind == "run_resume":
        known |= {"from_step": progress.resume_step or 0, "resumed_at": utc_text(now)}
    elif kind == "run_end":
        known |= {"ended_at": utc_text(now), "reason": "completed", **progress.results}
    return {name: value for name, value in (known | event).items() if value is not UNSET}


def _beginning(now: float, directory: str, event: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {"schema": "toy/v1", "host": this_host()}
    # Milliseconds, because later processes measure t from here.
    known["started_at"] = f"{utc_text(now)[:-1]}.{int(now % 1 * 1000):03d}Z"
    if "run_id" not in event:
        try:
            known["run_id"] = check_run_id(os.path.basename(os.path.abspath(directory)))
        except ValueError as error:
            raise InvalidEventError(f"{error}; give another one as run_id=NAME") from error
    return known


def _elapsed(run_start: bytes, now: float) -> float:
    """Return seconds since the start of the run; 0 if the start is unknown or in the future."""
    first = msgspec.json.decode(run_start) if run_start else {}
    started = unix_seconds(first.get("started_at")) if first.get("kind") == "run_start" else None
    return 0.0 if started is None else max(0.0, round(now - started, 3))


def event_of(kind: str, words: list[str], text: str | None) -> dict[str, Any]:
    """Return the event of *kind* with the members of the JSON object *text* and of *words*, each ``name=value``.

    A name with dots reaches into objects. A value is JSON, or else a string; where the schema declares a
    string, it is always a string. Raises UsageError if they do not make an event.
    """
    event = _parsed(text) if text is not None else {}
    if event.get("kind", kind) != kind:
        raise UsageError(
            f"--json has kind {shortened(str(event['kind']))!r}, the command line {shortened(kind)!r}; give one"
        )
    event["kind"] = kind
    for word in words:
        name, sign, value = word.partition("=")
        if not name or not sign:
            raise UsageError(f"{shortened(word)!r} is not NAME=VALUE")
        _put(event, name.split("."), value, FIELDS["toy/v1"].get(kind, {}))
    return event


def unknown_members(event: dict[str, Any]) -> list[str]:
    """Return a warning for each member that the schema of the event's kind does not know, or for an unknown kind."""
    known = FIELDS["toy/v1"].get(event["kind"])
    if known is None:
        near = did_you_mean(event["kind"], FIELDS["toy/v1"])
        return [f"unknown kind {shortened(event['kind'])!r}, written anyway{near}"]
    return [
        f"unknown field {shortened(name)!r} in {event['kind']}, written anyway{did_you_mean(name, known)}"
        for name in event
        if name not in known
    ]


def _parsed(text: str) -> dict[str, Any]:
    verdict = validate(text.encode("utf-8", "surrogatepass"), first=True)
    if verdict.value is None or verdict.findings:
        finding = verdict.findings[0]
        raise UsageError(f"--json is not a JSON object: {finding.message} ({finding.rule}, byte {finding.offset})")
    return dict(verdict.value)


def _put(event: dict[str, Any], path: list[str], text: str, declared: dict[str, _Type]) -> None:
    """Set the member at *path* of *event*."""
    target, kind_of = event, declared.get(path[0])
    for at, name in enumerate(path[:-1], 1):
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"{shortened('.'.join(path))!r} reaches into {shortened('.'.join(path[:at]))!r}, which is not an object"
            )
        target, kind_of = inner, _inner_type(kind_of, path[at])
    target[path[-1]] = _value(text, kind_of)


def _inner_type(outer: _Type, name: str) -> _Type:
    constructor, part = outer if isinstance(outer, tuple) else (None, None)
    if constructor == "object":
        return part.get(name)
    return part if constructor == "map" else None


def _value(text: str, declared: _Type) -> Any:
    if declared == "string":
        return text
    if declared == "number" and text.lower().lstrip("+-") in _NOT_FINITE:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
