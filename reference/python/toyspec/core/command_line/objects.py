"""Findings and verdicts as plain objects, with the keys of the report schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.escaping import encodable

if TYPE_CHECKING:
    from toyspec.core.findings import DialectUse, FileReport, Finding
    from toyspec.core.runs.run_facts import RunFacts

_OUTSIDE = re.compile("[^\x00-\x7e]")


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return *finding* as an object; the excerpt is for people alone."""
    made = msgspec.structs.asdict(finding)
    return {name: value for name, value in made.items() if name != "excerpt" and value is not None}


def dialect_object(use: DialectUse) -> dict[str, Any]:
    """Return how the log of another program was read as an object of the report schema."""
    keys = {"step": use.step, "time": use.time, "epoch": use.epoch, "phase": use.phase}
    notes = {"notes": list(use.notes)} if use.notes else {}
    ended: dict[str, Any] = {"ended": use.ended} if use.ended != "unknown" else {}
    ended |= {} if use.planned is None else {"planned": use.planned}
    return {"name": use.name, "choice": use.choice, **keys, **ended, **notes}


def run_object(facts: RunFacts) -> dict[str, Any]:
    """Return what a run comes to, as ``schemas/answers/v1/show.json`` describes it."""
    found: dict[str, Any] = msgspec.to_builtins(facts)
    return found if facts.dialect is None else found | {"dialect": dialect_object(facts.dialect)}


def file_object(report: FileReport) -> dict[str, Any]:
    """Return *report* as an object of the report schema."""
    return {
        "path": report.path,
        "profile": report.profile,
        **({} if report.dialect is None else {"dialect": dialect_object(report.dialect)}),
        "state": report.state,
        "valid": report.valid,
        "records": report.records,
        "bytes": report.bytes,
        "findings": [finding_object(finding) for finding in report.findings],
        "suppressed": report.suppressed,
    }


def inert_json(value: Any) -> str:
    r"""Return *value* as JSON on one line; all that is not printable ASCII becomes a ``\u`` escape.

    Such characters occur only inside strings, so that a parser returns exactly the same value. No
    terminal obeys the text, and a console with another encoding than UTF-8 does not spoil it.
    """
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = msgspec.json.encode(_encodable(msgspec.to_builtins(value))).decode()
    return _OUTSIDE.sub(_escape, text)


def _encodable(value: Any) -> Any:
    """Return *value*, in whose texts a byte of a path that is not part of UTF-8 is an escape."""
    if isinstance(value, dict):
        return {_encodable(name): _encodable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_encodable(member) for member in value]
    return encodable(value) if isinstance(value, str) else value


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
