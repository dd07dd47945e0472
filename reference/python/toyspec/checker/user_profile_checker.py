"""Checks a stream of a user's profile: bytes, JSON, each record by its schema, and the rules of its stream.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from toyspec.checker.collecting import Collector, Location
from toyspec.checker.record_rules import RecordChecker
from toyspec.checker.stream_rules import StreamRules
from toyspec.findings import FileReport, Finding
from toyspec.format.line_validation import validate_line
from toyspec.format.lines import Line, LineSplitter
from toyspec.format.profiles import closing_kind
from toyspec.generated import messages, rules
from toyspec.reading.records import state_of

if TYPE_CHECKING:
    from toyspec.checker.options import CheckOptions
    from toyspec.findings import Profile, State


class OwnChecker:
    """Checks a stream as it is fed; the interface is that of ``Checker``. Severities are those of toy/v1."""

    def __init__(self, path: str, options: CheckOptions, profile: str) -> None:
        self._path = path
        self._options = options
        self._profile: Any = profile
        self._collector = Collector(options)
        self._collector.profile = "toy/v1"
        self._splitter = LineSplitter(max_line_bytes=options.max_line_bytes)
        self._rules = StreamRules(self._profile)
        self._records_checker = RecordChecker(cast("Profile", self._profile), self._collector)
        self._records = 0
        self._gaps = 0
        self._last = Location(1, 0)
        self._last_kind: str | None = None
        self._taken = 0
        self.is_look_settled = False
        """False: the format is known."""
        self.fact: str | None = None
        """None: the format is known."""

    def feed(self, data: bytes, /) -> None:
        """Check the lines that *data* commits."""
        for line in self._splitter.feed(data):
            self._check(line)

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call."""
        new = self._collector.findings[self._taken :]
        self._taken = len(self._collector.findings)
        return new

    @property
    def ended(self) -> bool:
        """True when the last record is of the kind that completes a stream."""
        return self._last_kind is not None and self._last_kind == self._closing_kind

    def read_bundle_again(self) -> None:
        """Do nothing: no file beside the stream belongs to it."""

    def finish(self) -> FileReport:
        """Return the report on everything fed; call it once, last."""
        self._collector.settle()
        self._collector.findings.sort(key=lambda finding: finding.line)
        fragment = self._splitter.fragment()
        if fragment is not None:
            self._collector.add_fragment(fragment)
        elif not self._records and not self._gaps:
            self._collector.add(rules.STREAM_EMPTY, Location(1, 0), messages.stream_empty(size=self._splitter.size))
        elif self._records:
            for finding in self._rules.finish():
                self._collector.add(finding.rule, self._last, finding.message)
        return FileReport(
            path=self._path,
            profile=self._profile,
            state=self._state(has_fragment=fragment is not None),
            valid=self._collector.valid,
            records=self._records,
            bytes=self._splitter.size,
            findings=self._collector.findings,
            suppressed=self._collector.suppressed,
        )

    @property
    def _closing_kind(self) -> str | None:
        profile: Profile = self._profile
        return closing_kind(profile)

    def _state(self, *, has_fragment: bool) -> State:
        profile: Any = self._profile
        last = (self._last_kind,) if self._records else None
        return state_of(profile, last, has_gap=bool(self._gaps), is_open=has_fragment)

    def _check(self, line: Line) -> None:
        verdict = validate_line(line, max_line_bytes=self._options.max_line_bytes)
        start = len(self._collector.findings)
        self._collector.add_validation(line, verdict)
        if verdict.status == "unreadable":
            self._gaps += 1
            self._rules.gap()
        elif verdict.value is not None:
            self._check_record(line, verdict.value, start)

    def _check_record(self, line: Line, value: dict[str, Any], start: int) -> None:
        place = Location(line.number, line.offset, 0, line.data or b"")
        self._records += 1
        seen, _ = self._records_checker.check(value, place)
        self._last_kind = seen.kind
        self._collector.arrange(start)
        seen.line = line.number
        for finding in self._rules.observe(seen):
            where = Location(line.number, line.offset)
            if finding.pointer:
                where = self._records_checker.locate(place, finding.pointer)
            self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)
        self._last = Location(line.number, line.offset)
