"""What a check is asked for, and its findings on one stream in bounded memory: full detail first, then counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.findings import Excerpt, Finding, Profile, Severity
from toyspec.core.format.lines import Line
from toyspec.core.format.profiles import profile_named
from toyspec.core.generated import messages, rules
from toyspec.core.generated.limits import EXCERPT_BYTES, MAX_FINDINGS_PER_RULE, MAX_LINE_BYTES
from toyspec.core.generated.rules import HELP, ORDER, SEVERITY, SEVERITY_AT_END
from toyspec.core.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.findings import Fragment
    from toyspec.core.format.line_validation import ValidatedLine

_EXCERPT_BEFORE = 60
_NO_ADVICE: Mapping[str, str] = {}


class UnknownRuleError(ToyspecError, ValueError):
    """The options name a rule that does not exist; ``name`` is the text given."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown rule {name!r}; `toyspec explain` lists all rules")
        self.name = name


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to check: which profile, which rules, which limit.

    Raises UnknownRuleError for a rule in *select* or *ignore* that does not exist, ProfileError for a directory that
    is not a profile, and ValueError for any other *profile*.
    """

    profile: str | None = None
    """The profile to check against, or the directory of a user's; None detects it from the first readable record."""
    dialect: DialectChoice | str | None = "auto"
    """The dialect to read other files by: ``auto`` recognizes it, None reads no dialects.

    A DialectChoice has dialects and profiles of the user too.
    """
    select: Iterable[str] = ()
    """Rules to report; empty means all."""
    ignore: Iterable[str] = ()
    """Rules not to report; takes precedence over *select*."""
    max_line_bytes: int = MAX_LINE_BYTES
    """Longest line that is checked, in bytes without its LF."""

    def __post_init__(self) -> None:
        for names, members in (("select", self.select), ("ignore", self.ignore)):
            # What can be read once only would be used up by the first look.
            msgspec.structs.force_setattr(self, names, frozenset(members))
        for name in sorted({*self.select, *self.ignore}):
            if name not in ORDER:
                raise UnknownRuleError(name)
        named = self.profile or (self.dialect.profile if isinstance(self.dialect, DialectChoice) else None)
        if named is not None and named not in get_args(Profile):
            from toyspec.core.format.own_profiles import loaded

            own = loaded(profile_named(named))
            named = own.directory if own else named
        msgspec.structs.force_setattr(self, "profile", named)

    @property
    def named_profile(self) -> Profile | None:
        """The profile of toyspec that was named."""
        return cast("Profile", self.profile) if self.profile in get_args(Profile) else None

    @property
    def choice(self) -> DialectChoice:
        """The dialects and the user's profiles that may be used; no dialects if a profile is named."""
        if self.profile is None:
            return DialectChoice.of(self.dialect)
        return DialectChoice(None, profile=None if self.named_profile else self.profile)

    def reports(self, rule: str) -> bool:
        """Return whether findings of *rule* are wanted."""
        return rule not in self.ignore and (not self.select or rule in self.select)


class RecordFinding(msgspec.Struct, frozen=True):
    """One finding in a record."""

    rule: str
    pointer: str
    message: str


class Location(msgspec.Struct, gc=False):
    """The place of a finding: a line, and a byte in it."""

    line: int
    """Line number, from 1."""
    line_offset: int
    """Byte offset of the line from the start of the stream, from 0."""
    byte: int = 0
    """Byte offset of the place from the start of the line, from 0."""
    data: bytes = b""
    """The line, if an excerpt of it helps; else empty."""

    def excerpt(self) -> Excerpt | None:
        """Return the part of the line around the place; None if the line is not known."""
        if not self.data:
            return None
        start = max(0, min(self.byte - _EXCERPT_BEFORE, len(self.data) - EXCERPT_BYTES))
        return Excerpt(self.data[start : start + EXCERPT_BYTES], start, self.byte)


class _Tally(msgspec.Struct):
    finding: Finding
    fact: str
    suggestion: str
    count: int = 1


class Collector:
    """Keeps at most ``MAX_FINDINGS_PER_RULE`` findings for each rule and counts the rest."""

    def __init__(self, options: CheckOptions) -> None:
        self.findings: list[Finding] = []
        self.suppressed: dict[str, int] = {}
        self.profile = options.named_profile
        self.valid = True
        """Whether no finding, listed or suppressed, is an error."""
        self.has_carriage_return = False
        """Whether one was reported: later ones are white space."""
        self._options = options
        self._listed: dict[str, int] = {}
        self._tallies: dict[tuple[str, str | int], _Tally] = {}

    def wants(self, rule: str) -> bool:
        """Return whether a finding of *rule* would be listed; if not, count it."""
        if not self._options.reports(rule):
            return False
        if self._listed.get(rule, 0) < MAX_FINDINGS_PER_RULE:
            return True
        self.count(rule)
        return False

    def add(  # noqa: PLR0913  (each names one part of a finding)
        self,
        rule: str,
        place: Location,
        message: str,
        *,
        pointer: str = "",
        at_end: bool = False,
        sidecar: str | None = None,
        advice: str | None = None,
    ) -> None:
        """List a finding if it is wanted: see :meth:`wants`. *advice* replaces the rule's own help."""
        if not self.wants(rule):
            return
        severity = severity_of(rule, self.profile, at_end=at_end)
        self._listed[rule] = self._listed.get(rule, 0) + 1
        self.valid = self.valid and severity != "error"
        self.findings.append(
            Finding(
                rule=rule,
                severity=severity,
                line=place.line,
                offset=place.line_offset + place.byte,
                pointer=pointer,
                message=message,
                help=advice or _in_profile(HELP[rule], self.profile),
                sidecar=sidecar,
                excerpt=place.excerpt(),
            )
        )

    def add_validation(self, line: Line, validated: ValidatedLine, advice: Mapping[str, str] = _NO_ADVICE) -> None:
        """Add what is wrong with the bytes of *line*; *advice* replaces the help of some rules."""
        for finding in validated.findings:
            place = Location(line.number, line.offset, finding.offset, line.data or line.head)
            self.add(finding.rule, place, finding.message, pointer=finding.pointer, advice=advice.get(finding.rule))
        for rule, count in validated.unlisted.items():
            self.count(rule, count)
        if validated.has_carriage_return:
            self.add_carriage_return(line)

    def add_carriage_return(self, line: Line) -> None:
        """Add that *line* has a carriage return, which is reported once for a stream."""
        if not self.has_carriage_return:
            self.has_carriage_return = True
            place = Location(line.number, line.offset, (line.data or b"").find(b"\r"))
            self.add(rules.CARRIAGE_RETURN, place, messages.CARRIAGE_RETURN)

    def add_fragment(self, fragment: Fragment, advice: Mapping[str, str] = _NO_ADVICE) -> None:
        """List the finding about the bytes after the last LF; *advice* replaces the help of some rules."""
        rule, fact = rules.UNTERMINATED_LINE, messages.unterminated_line(count=fragment.length)
        if fragment.all_nul:
            rule, fact = rules.NUL_BYTES, messages.nul_bytes_at_end(count=fragment.length)
        place = Location(fragment.number, fragment.offset)
        self.add(rule, place, fact, at_end=fragment.all_nul, advice=advice.get(rule))

    def tally(self, found: RecordFinding, key: str | int, place: Location, suggestion: str) -> None:
        """Count a finding that is listed once for each *key*, its count between its message and *suggestion*."""
        if not self.tallied(found.rule, key):
            # Only listed keys are kept, so that a log full of invented keys takes no memory.
            self.add(found.rule, place, found.message + suggestion, pointer=found.pointer)
            self._tallies[found.rule, key] = _Tally(self.findings[-1], found.message, suggestion)

    def tallied(self, rule: str, key: str | int) -> bool:
        """Count one more finding of *key*; return False, and count nothing, if it is to be listed."""
        known = self._tallies.get((rule, key))
        if known is None:
            return not self.wants(rule)
        known.count += 1
        return True

    def settle(self) -> None:
        """Write the final counts into the messages of tallied findings, and sort all by line."""
        grown = {}
        for each in self._tallies.values():
            times = "" if each.count == 1 else messages.times(count=each.count)
            message = each.fact + times + each.suggestion
            grown[id(each.finding)] = msgspec.structs.replace(each.finding, message=message)
        self.findings[:] = [grown.get(id(finding), finding) for finding in self.findings]
        self.findings.sort(key=lambda finding: finding.line)

    def arrange(self, start: int) -> None:
        """Sort the findings from index *start* on, all of one line, by place and rule."""
        self.findings[start:] = sorted(self.findings[start:], key=lambda finding: (finding.offset, ORDER[finding.rule]))

    def count(self, rule: str, number: int = 1) -> None:
        """Count *number* findings of *rule* that are not listed."""
        if self._options.reports(rule):
            self.suppressed[rule] = self.suppressed.get(rule, 0) + number
            self.valid = self.valid and severity_of(rule, self.profile) != "error"


def severity_of(rule: str, profile: Profile | None, *, at_end: bool = False) -> Severity:
    """Return the severity of *rule* in *profile*; *at_end* is the one for bytes after the last LF."""
    found = SEVERITY_AT_END.get(rule, SEVERITY[rule]) if at_end else SEVERITY[rule]
    return cast("Severity", _in_profile(found, profile))


def _in_profile(value: str | dict[str, str], profile: Profile | None) -> str:
    return value[profile or "toy/v1"] if isinstance(value, dict) else value


class Lines:
    """Whole lines that follow each other in a stream: the first is *number* at *offset*."""

    def __init__(self, together: bytes, *, number: int, offset: int) -> None:
        self.together = together
        """The bytes of all lines, with their LFs."""
        self.number = number
        self._offset = offset

    @cached_property
    def data(self) -> list[bytes]:
        """The bytes of each line, with its LF."""
        # Splitting compares byte by byte; reading lines searches for LF as fast as the machine can.
        return BytesIO(self.together).readlines()

    def last_place(self, number: int) -> Location:
        """Return the place of the last of *number* lines, which are all that there are."""
        return Location(self.number + number - 1, self._offset + self.together.rfind(b"\n", 0, -1) + 1)

    def place(self, index: int) -> Location:
        """Return the place of a line's first byte."""
        return Location(self.number + index, self._starts[index])

    def line(self, index: int) -> Line:
        """Return a line in the form that the exact path takes."""
        data = self.data[index][:-1]
        return Line(self.number + index, self._starts[index], len(data), data, b"")

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.data), initial=self._offset))


def and_parent(pointer: str) -> tuple[str, str]:
    """Return *pointer* and that of the value around it."""
    return pointer, pointer.rpartition("/")[0]


def offset_at(pointer: str, places: dict[str, int]) -> int:
    """Return the byte offset of the value at *pointer*; if it is missing, of the object around it."""
    own, parent = and_parent(pointer)
    return places.get(own, places.get(parent, 0))


def by_place(finding: Any, places: dict[str, int]) -> tuple[int, int]:
    """Return the sort key of a finding in one line: its place, then the order of its rule."""
    return offset_at(finding.pointer, places), ORDER[finding.rule]
