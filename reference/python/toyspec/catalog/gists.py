"""Reduces a stream to a few of its lines that leave the checker in the same state.

The checker remembers little of what it has read: the first record, what was reported once, the last value of some
fields, and the regions that are open. The lines that set these are the gist of a stream. What follows has the same
findings after the gist as after the whole stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from toyspec.checker.stream_rules import StreamRules
from toyspec.generated import rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.findings import Finding, Profile

_ORDER = frozenset(
    [rules.STEP_SKIPPED, rules.STEP_GOES_BACKWARDS, rules.TIME_GOES_BACKWARDS, rules.WALL_TIME_GOES_BACKWARDS]
)
"""What is reported of a record by the one before alone: such a line is like one without a finding."""
_ENTER, _EXIT = "region_enter", "region_exit"
# What follows these depends on more than the gist has: other attempts, and the end.
_TOO_MUCH = frozenset(["run_end", "run_resume"])
_MOST_BYTES = 1 << 18


class GistError(Exception):
    """The stream cannot be reduced."""


class _Head(msgspec.Struct):
    """The fields that rules relate to later records, and those that say to which; any values."""

    kind: Any = UNSET
    phase: Any = UNSET
    region: Any = UNSET
    t: Any = UNSET
    step: Any = UNSET
    loss: Any = UNSET
    wall_time_ms: Any = UNSET


_decoder = msgspec.json.Decoder(_Head)


class Gist:
    """The lines of a stream that count for what follows, as it is read."""

    def __init__(self) -> None:
        self._lines = 0
        self._fixed: dict[int, bytes] = {}
        self._last: dict[Any, tuple[int, bytes]] = {}
        self._open: list[tuple[Any, int, bytes]] = []
        self._pair: dict[int, bytes] = {}
        self._loud: frozenset[str] | None = None

    def take(self, block: bytes, findings: Iterable[Finding], profile: Profile) -> None:
        """Take in whole lines with their *findings*; raise GistError."""
        lines = block.split(b"\n")
        lines.pop()
        if self._loud is None:
            self._loud = StreamRules(profile).loud
        reported = {finding.line - self._lines - 1 for finding in findings if finding.rule not in _ORDER}
        if any(not 0 <= at < len(lines) for at in reported):
            raise GistError("a finding about another line")
        is_by_kind = profile == "toy/v1"
        for at, (line, head) in enumerate(zip(lines, _heads(lines, block), strict=True)):
            number = self._lines + at
            if at in reported or head is None or not self._fixed:
                self._fixed[number] = line
            if head is None:
                continue
            if is_by_kind and type(head.kind) is str and (head.kind in self._loud or head.kind in (_ENTER, _EXIT)):
                self._take_loud(head, number, line, is_reported=at in reported)
            elif at not in reported:
                # What a record leaves behind depends on the fields that it has.
                key = (
                    head.kind, head.phase, head.t is UNSET, head.step is UNSET, head.loss is UNSET,
                    head.wall_time_ms is UNSET,
                )  # fmt: skip
                try:
                    self._last[key] = number, line
                except TypeError:
                    self._fixed[number] = line
        self._lines += len(lines)
        if sum(map(len, self._kept().values())) > _MOST_BYTES:
            raise GistError("too many lines count")

    def _take_loud(self, head: _Head, number: int, line: bytes, *, is_reported: bool) -> None:
        if head.kind in _TOO_MUCH:
            raise GistError(head.kind)
        if head.kind not in (_ENTER, _EXIT):
            self._fixed[number] = line
        elif is_reported or type(head.region) is not str:
            raise GistError("a region with a finding")
        elif head.kind == _ENTER:
            self._open.append((head.region, number, line))
        else:
            if not self._open or self._open[-1][0] != head.region:
                raise GistError("a region that is not nested")
            _, begin, entered = self._open.pop()
            # Half of a pair would open or close another region.
            self._pair = {begin: entered, number: line}

    def _kept(self) -> dict[int, bytes]:
        opened = {number: line for _, number, line in self._open}
        return self._fixed | dict(self._last.values()) | opened | self._pair

    def text(self) -> bytes:
        """Return the gist: some of the lines, in order."""
        return b"".join(line + b"\n" for _, line in sorted(self._kept().items()))


def is_reducible(suppressed: Iterable[str]) -> bool:
    """Return whether the lines are known of all findings that count, if those of the rules *suppressed* are not."""
    return _ORDER.issuperset(suppressed)


def _heads(lines: Sequence[bytes], block: bytes) -> Sequence[_Head | None]:
    """Return the head of each line; None for what is not an object or has none."""
    heads: list[_Head]
    try:
        heads = _decoder.decode_lines(block)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        heads = []
    return [*heads] if len(heads) == len(lines) else list(map(_head, lines))


def _head(line: bytes) -> _Head | None:
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
