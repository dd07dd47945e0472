"""What a case is, as data: exact bytes, and what a right implementation finds in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from conformance.format_facts import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

Profile = Literal["toy/v1", "metrics/v1", "kaun/v1"]
"""The format that a stream follows."""

State = Literal["complete", "torn", "damaged"]
"""The state of a stream, decided by its bytes alone."""

PROFILES: tuple[Profile, ...] = ("toy/v1", "metrics/v1", "kaun/v1")
STATES: tuple[State, ...] = ("complete", "torn", "damaged")
STREAMS = ("events.jsonl", "metrics.jsonl")
"""Names that a stream can have; a folder holds at most one of them."""


class CaseError(ValueError):
    """A case is not well formed; the message names the file, the place in it and the fault."""

    def __init__(self, path: str, place: str, fault: str) -> None:
        super().__init__(f"{path}: {place or 'the file'} {fault}")
        self.path = path
        self.place = place


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault at one place; two findings are the same when all four parts are."""

    rule: str
    line: int
    """Line number, counted from 1, in the stream or in the sidecar."""
    pointer: str
    """RFC 6901 JSON Pointer; "" is the whole line."""
    sidecar: str | None = None
    """Name of the file beside the stream that the place is in, None for the stream."""

    def __str__(self) -> str:
        where = f"{self.sidecar or 'line'} {self.line}" if self.sidecar is None else f"{self.sidecar}:{self.line}"
        return f"{self.rule} at {where}, {self.pointer or 'the whole line'}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the implementation is told besides the bytes."""

    profile: Profile | None = None
    """The profile to follow; None lets it follow from the stream."""
    name: str | None = None
    """The name of the file that is told; None for the name that the stream has here."""
    max_line_bytes: int = MAX_LINE_BYTES
    """The limit of a line in bytes, LF excluded."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case: a folder, or one member of a family."""

    name: str
    """Path of the folder below ``cases/``, with ``#`` and the member's name for a member of a family."""
    folder: str
    """The folder itself, as a path that can be opened."""
    why: str
    files: Mapping[str, bytes]
    """The bytes of every file of the case by its name, case.json left out."""
    stream: str | None
    """Name of the stream in *files*; None only in a bundle without stream and in a follower case."""
    profile: Profile | None
    state: State | None
    records: tuple[Any, ...]
    """Every readable record in order, as tagged values."""
    findings: tuple[Finding, ...]
    """All findings in order, infos included."""
    gaps: tuple[Finding, ...] = ()
    """The unreadable lines of a stream without profile, in which no finding names them."""
    suppressed: Mapping[str, int] = field(default_factory=dict)
    """Number of findings for each rule beyond those that are listed."""
    accepts: tuple[str, ...] = ()
    """Requirements, and rules, that are kept here though they could seem broken."""
    rejects: tuple[str, ...] = ()
    """Requirements, and rules, that are broken here."""
    options: Options = field(default_factory=Options)
    form: Literal["any", "canonical"] = "any"
    """Canonical: each line is the one spelling that a canonical writer gives its record."""
    scope: Literal["stream", "bundle"] = "stream"
    """Bundle: the folder is judged as the directory of a run, sidecars included."""
    summary: Mapping[str, Any] | None = None
    """The views of the run that the case spells out, as one tagged value; they follow from the rest: see views.py."""
    modes: Mapping[str, Any] = field(default_factory=dict)
    """The report of reading in each mode that the case spells out."""
    follow: tuple[Mapping[str, Any], ...] = ()
    """What happens to a file that is followed, and what the follower has to tell."""

    @property
    def data(self) -> bytes:
        """The bytes of the stream; empty where there is none."""
        return self.files[self.stream] if self.stream else b""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A compact description of many cases that follow one rule."""

    kind: str
    """Name of the rule, one of ``families.KINDS``."""
    base: Case
    """The stream that the members are made from, with its own expectations."""
    parameters: Mapping[str, Any]
    """What the rule needs to know further."""
    path: str
    """The file family.json."""
