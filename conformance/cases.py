"""A case as data: exact bytes, and what an implementation must find in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from conformance.format_facts import MAX_LINE_BYTES
from conformance.revisions import FIRST_LISTED

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
    """A case is not well formed; the message names the file, the place in it and the error."""

    def __init__(self, path: str, place: str, error: str) -> None:
        super().__init__(f"{path}: {place or 'the file'} {error}")
        self.path = path
        self.place = place


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding; two findings are equal when all four members are."""

    rule: str
    line: int
    """Line number, counted from 1, in the stream or in the sidecar."""
    pointer: str
    """RFC 6901 JSON Pointer; "" is the whole line."""
    sidecar: str | None = None
    """Name of the sidecar that the place is in, None for the stream."""

    def __str__(self) -> str:
        where = f"{self.sidecar or 'line'} {self.line}" if self.sidecar is None else f"{self.sidecar}:{self.line}"
        return f"{self.rule} at {where}, {self.pointer or 'the whole line'}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that the implementation gets besides the bytes."""

    profile: Profile | None = None
    """The profile to use; None to detect it from the stream."""
    name: str | None = None
    """The file name in the request; None for the name of the stream in the case."""
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
    since: str = FIRST_LISTED
    """The revision that added the case."""
    until: str | None = None
    """The last revision in which the case holds; None if it holds in the newest."""
    files: Mapping[str, bytes]
    """The bytes of every file of the case by its path from the folder, without case.json."""
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the directory has beside *files*, by path: see placing.py."""
    stream: str | None
    """Name of the stream in *files*; None only in a bundle without stream and in a follower case."""
    profile: Profile | None
    state: State | None
    records: tuple[Any, ...]
    """Every readable record in order, as tagged values."""
    findings: tuple[Finding, ...]
    """All findings in order, infos included."""
    gaps: tuple[Finding, ...] = ()
    """The unreadable lines of a stream without profile, which has no findings about them."""
    suppressed: Mapping[str, int] = field(default_factory=dict)
    """Number of findings of each rule beyond the listed ones."""
    accepts: tuple[str, ...] = ()
    """Statements that an implementation that is too strict breaks here."""
    rejects: tuple[str, ...] = ()
    """Statements that an implementation that is too lax breaks here."""
    options: Options = field(default_factory=Options)
    form: Literal["any", "canonical"] = "any"
    """Canonical: each line is exactly what a canonical writer writes for its record."""
    scope: Literal["stream", "bundle"] = "stream"
    """Bundle: the folder is checked as the directory of a run, sidecars included."""
    summary: Mapping[str, Any] | None = None
    """The views of the run, as one tagged value, if the case lists them; they follow from the rest: see views.py."""
    modes: Mapping[str, Any] = field(default_factory=dict)
    """The report of reading in each mode that the case lists."""
    follow: tuple[Mapping[str, Any], ...] = ()
    """Changes to a followed file, and what the follower must report."""

    @property
    def regular_files(self) -> dict[str, bytes]:
        """The bytes of every regular file of the directory, by its path."""
        texts = {name: entry["text"].encode() for name, entry in self.entries.items() if "text" in entry}
        return {**self.files, **texts}

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
    """Further parameters of the rule."""
    path: str
    """The file family.json."""
