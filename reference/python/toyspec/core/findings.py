"""The findings of a check, and the report on a reading, as data: nothing here prints, exits or raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.core.escaping import printable, shortened
from toyspec.core.generated.limits import EXCERPT_BYTES
from toyspec.core.generated.runs import RunEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

Severity = Literal["error", "warning", "info"]
"""An error makes a stream invalid; a warning and an info do not."""

State = Literal["complete", "torn", "damaged"]
"""The state of a stream, decided by its bytes alone."""

_REASON_CHARS = 32

Profile = Literal["toy/v1", "metrics/v1", "kaun/v1"]
"""The format that a stream follows."""


class Excerpt(msgspec.Struct, frozen=True):
    """A part of a log line around the place of a finding."""

    data: bytes
    """At most ``limits.EXCERPT_BYTES`` bytes of the line, exactly as they are in the file."""
    start: int
    """Offset of *data* from the start of the line, in bytes from 0."""
    mark: int
    """Offset of the finding's place from the start of the line, in bytes from 0."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, at its cause."""

    rule: str
    """Name of the rule, for example ``step-goes-backwards``."""
    severity: Severity
    line: int
    """Line number, counted from 1."""
    offset: int
    """Byte offset of the place from the start of the stream, counted from 0."""
    pointer: str
    """RFC 6901 JSON Pointer to the value; "" is the whole line; a missing key points at the missing member."""
    message: str
    """The fact, with the value found; log text in it is escaped and cut."""
    help: str
    """What to do about it."""
    sidecar: str | None = None
    """Name of the file beside the stream that the place is in, None for the stream itself."""
    excerpt: Excerpt | None = None
    """The place in the line, where it helps."""


Ended = RunEnded
"""Whether a run ended, as its log says it. Most logs of other programs have no mark of their end: ``unknown``."""


def state_text(state: str, ended: Ended, profile: str | None, reason: str | None = None) -> str:
    """Return the *state* of a log for people, with what is known of the end of its run and its *reason*.

    A whole log is ``complete`` only where the run says that it ended: else ``no end mark``, or ``not ended``. One of
    the *profile* toy/v1 without ``run_end`` has no end mark where its end is unknown, as an import notes. A run that
    ended otherwise than completed is called by that, ``errored``, or ``errored, damaged``.
    """
    if state == "torn" and ended == "unknown" and profile == "toy/v1":
        return "no end mark"
    if state == "complete" and ended != "yes":
        return "no end mark" if ended == "unknown" else "not ended"
    if state in ("running", "torn") or reason is None or reason == "completed":
        return state
    end = shortened(reason, _REASON_CHARS)
    return end if state == "complete" else f"{end}, {state}"


STARTS_AGAIN = "the steps start again"
"""How the note on a log begins whose steps start again."""


class DialectUse(msgspec.Struct, frozen=True, kw_only=True):
    """How the log of another program is read."""

    name: str
    """Name of the dialect."""
    step: str | None = None
    """Key of the step; None if no record has one."""
    time: str | None = None
    """Key of the time; None if no record has one."""
    epoch: str | None = None
    """Key of the epoch; None if no record has one."""
    phase: str | None = None
    """Key of the phase; None if no record has one."""
    choice: Literal["named", "recognized", "guessed"] = "recognized"
    """Named by the user, recognized by its own marks, or guessed by the names of keys."""
    ended: Ended = "unknown"
    """Whether the run ended: no where the log says how many steps were planned, and the last one was not reached."""
    planned: int | float | None = None
    """The last step that was planned, as the log says it; None where it does not."""
    notes: tuple[str, ...] = ()
    """What the user has to know of how it is read, such as numbers that are written as strings."""

    @property
    def sentence(self) -> str:
        """The choice in one line, for example ``read as: metrics-jsonl dialect, step = "iter"``."""
        keys = {"step": self.step, "time": self.time, "phase": self.phase}
        named = [f'{part} = "{shortened(key)}"' for part, key in keys.items() if key is not None]
        return "; ".join([", ".join([f"read as: {self.name} dialect", *named]), *map(printable, self.notes)])


class FileReport(msgspec.Struct, kw_only=True):
    """The report on one stream."""

    path: str
    """The path as given or found; ``-`` is standard input."""
    profile: str | None
    """Name of the profile, also of a user's own; None for a file of another format, and if there is no stream."""
    state: State | None
    """None only if there is no stream."""
    valid: bool
    """True when no finding has severity error."""
    records: int
    """Number of readable records."""
    bytes: int
    """Size of the stream in bytes."""
    findings: list[Finding]
    """In line order; at most ``limits.MAX_FINDINGS_PER_RULE`` for each rule."""
    suppressed: dict[str, int]
    """Number of further findings for each rule that are counted, not listed."""
    dialect: DialectUse | None = None
    """How the log of another program was read; None for a stream of a profile, and for an unknown format."""


class PathError(msgspec.Struct, frozen=True):
    """A path that could not be read."""

    path: str
    message: str


class LineFinding(msgspec.Struct, frozen=True):
    """One finding of the bytes or JSON layer in one line."""

    rule: str
    """Name of the rule, for example ``invalid-json``."""
    offset: int
    """Byte offset of the place in the line, counted from 0; the line's length when it ends too early."""
    pointer: str
    """RFC 6901 JSON Pointer; "" is the whole line. Half a surrogate pair shows as U+FFFD."""
    message: str
    """The fact, with the value found; log text in it is escaped and cut."""


class Skipped(msgspec.Struct, frozen=True):
    """A file below a directory that was searched for runs: it has the name of a stream and another format."""

    path: str
    message: str
    """What the file looks like."""


class Report(msgspec.Struct, kw_only=True):
    """The report on all paths of a check."""

    files: list[FileReport]
    errors: list[PathError]

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it: the streams, then the findings, then what could not be read."""
        files = [
            (each.path, each.state, each.profile, each.records, len(each.findings) + sum(each.suppressed.values()))
            for each in self.files
        ]
        found = [
            (f"{each.path}:{one.line}", one.severity, one.rule, one.message, one.help)
            for each in self.files
            for one in each.findings
        ]
        errors = [(each.path, each.message) for each in self.errors]
        unlisted = sum(count for each in self.files for count in each.suppressed.values())
        return (
            _html_table(("stream", "state", "profile", "records", "findings"), files)
            + _html_table(("place", "severity", "rule", "message", "help"), found, unlisted)
            + _html_table(("path", "not read"), errors)
        )


HEAD_BYTES = EXCERPT_BYTES
"""Number of bytes that are kept of a line that is too long."""


class Fragment(msgspec.Struct, frozen=True):
    """The bytes after the last LF: a record that was never committed."""

    number: int
    """Number of the line that the fragment begins, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0 at the start of the stream."""
    length: int
    """Number of bytes; at least 1."""
    all_nul: bool
    """True when every byte is NUL, as a power loss leaves them."""
    head: bytes
    """Its first bytes, at most ``HEAD_BYTES``."""


class Gap(msgspec.Struct, frozen=True):
    """Bytes of a stream that are not records."""

    line: int
    """Number of its first line, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0 at the start of the stream."""
    length: int
    """Number of bytes, the LF of an unreadable line included."""
    reason: str
    """Name of the rule that the line breaks, or ``stopped`` for what was left unread."""
    message: str
    """The fact, with the value found; log text in it is escaped and cut."""


class ReadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one reading. Always: committed_bytes + fragment_bytes + gap_bytes = size."""

    state: State
    profile: Profile | None
    """The profile of the stream; None for a file of another format."""
    records: int
    """Number of records that were read, superseded ones included."""
    committed_bytes: int
    """Bytes in readable and blank lines, their LFs included."""
    fragment: Fragment | None
    """The bytes after the last LF; None when there are none, or when reading stopped before them."""
    uncommitted: dict[str, Any] | None
    """The object in the fragment, when only its LF is missing; None otherwise. It was never committed."""
    gaps: list[Gap]
    """The first ``limits.MAX_FINDINGS_PER_RULE`` unreadable lines, in order.

    What was left unread comes last, with the reason ``stopped``.
    """
    unlisted_gaps: int
    """Number of further gaps, which are counted only."""
    gap_bytes: int
    """Bytes in all gaps, listed or not."""
    size: int
    """Size of the stream in bytes; of a pipe, the number of bytes received."""
    dialect: DialectUse | None = None
    """How the log of another program was read; None for a stream of a profile, and for an unknown format."""

    @property
    def fragment_bytes(self) -> int:
        """Number of bytes after the last LF."""
        return 0 if self.fragment is None else self.fragment.length

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it: what became of the bytes, and each gap."""
        names = ("state", "profile", "records", "size", "committed_bytes", "fragment_bytes", "gap_bytes")
        gaps = [(each.line, each.length, each.reason, each.message) for each in self.gaps]
        return _html_table(names, [tuple(getattr(self, name) for name in names)]) + _html_table(
            ("line", "bytes", "reason", "message"), gaps, self.unlisted_gaps
        )


_MOST_ROWS = 200
"""Rows of a table in a notebook, which keeps them."""


def _html_table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]], more: int = 0) -> str:
    """Return *rows* as HTML, all text in it escaped; *more* are counted beside them. Without rows there is no table."""
    from html import escape  # the module is needed in notebooks alone

    if not rows:
        return ""
    lines = [head, *rows[:_MOST_ROWS]]
    cells = [["-" if cell is None else escape(printable(str(cell))) for cell in line] for line in lines]
    table = "".join(f"<tr><td>{'</td><td>'.join(line)}</td></tr>" for line in cells[1:])
    left = more + len(rows) - len(cells[1:])
    rest = f"<p>{left} more</p>" if left else ""
    return f"<table><thead><tr><th>{'</th><th>'.join(cells[0])}</th></tr></thead><tbody>{table}</tbody></table>{rest}"
