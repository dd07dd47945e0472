"""Checks one stream, fed in pieces of any size, and the files beside it: see spec/checking.md.

Blocks of lines that are proven to have no finding are taken in at once; every other line is checked by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from toyspec.core.checker.block_proof import BlockProof, kind_of
from toyspec.core.checker.collecting import Collector, Lines, Location, RecordFinding
from toyspec.core.checker.options import CheckOptions
from toyspec.core.checker.record_rules import RecordChecker
from toyspec.core.checker.sidecars import SidecarText, check_sidecars, read_sidecars
from toyspec.core.checker.stream_rules import Block, Observation, StreamRules
from toyspec.core.escaping import shortened
from toyspec.core.findings import FileReport, Profile
from toyspec.core.format.known_formats import is_of_another_format, look_of
from toyspec.core.format.line_validation import ValidatedLine, decode_plain, validate_line
from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.format.profiles import EVENTS_FILE, closing_kind, detect_profile, stream_name
from toyspec.core.generated import messages, rules
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.records import state_of
from toyspec.core.reading.run_files import rank_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.findings import Finding, Fragment, State


# Larger buffers would be mapped and unmapped by the system each time.
_BLOCK_BYTES = 1 << 16


# A run of records with a finding is halved down to this length, then checked record by record.
_SMALL_RUN = 16


class StreamChecker:
    """Checks a stream as it is fed.

    *path* is shown in the report. *detect* finds the profile if the options do not name it, by default from the first
    readable record alone: see ``detect_profile``. A stream that is *beside* other files is in a bundle: the names of
    its directory and its file count, and the files are checked too.
    """

    def __init__(
        self,
        path: str,
        *,
        options: CheckOptions | None = None,
        detect: Callable[..., Profile | None] | None = None,
        beside: bool = False,
    ) -> None:
        self._path = path
        self._options = options or CheckOptions()
        self._detect = detect or detect_profile
        name = os.path.basename(path)
        directory = os.path.dirname(path if is_address(path) else os.path.abspath(path))
        self._place = directory if beside and stream_name(name) == EVENTS_FILE else None
        self._sidecars: list[SidecarText] = []
        self._rank = rank_of(name) if beside and not is_address(path) else None
        self._directory = None if self._rank is None else directory
        self._run_id: str | None = None if self._place is None else os.path.basename(directory)
        self._mismatch: tuple[Location, str] | None = None
        self._collector = Collector(self._options)
        self._profile: Profile | None = None
        self._splitter = LineSplitter(max_line_bytes=self._options.max_line_bytes)
        self._head = b""
        self._taken = 0
        self._records = 0
        self._gaps = 0
        self._first_gap = Location(1, 0)
        self._last = Location(1, 0)
        self._last_kind: str | None = None
        self._proof: BlockProof | None = None
        self._rules: StreamRules | None = None
        self._checker: RecordChecker | None = None
        # Of a stream without a profile: its first record, else its first unreadable line, and the keys of the record.
        self._foreign: tuple[Location, list[str] | None] | None = None
        self.fact: str | None = None
        """What a stream without a profile looks like, once it is finished; None for all others."""
        self.read_bundle_again()
        if self._options.profile is not None:
            self._follow_profile(self._options.profile)

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""
        if self._place is not None:
            self._sidecars = read_sidecars(self._place, self._options.max_line_bytes)

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits."""
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        start = 0
        while start < len(data):
            if self._foreign is not None:
                end = len(data)
                self._check_lines(data[start:])
            elif self._proof is None:
                # The first record decides the profile; that of a user has no types that prove a block.
                end = (data.find(b"\n", data.find(b"{", start)) + 1 if self._rules is None else 0) or len(data)
                self._check_lines(data[start:end])
            else:
                end = start + _BLOCK_BYTES
                self._feed_block(data[start:end])
            start = end

    def take(self) -> list[Finding]:
        """Return the findings that were listed since the last call; counts in their messages may still grow.

        There are none as long as the stream may turn out to have no profile.
        """
        if self._rules is None:
            return []
        new = self._collector.findings[self._taken :]
        self._taken = len(self._collector.findings)
        return new

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""
        return self._foreign is not None and self._splitter.size > HEAD_BYTES

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""
        if self._foreign is not None:
            return True
        return self._last_kind is not None and self._last_kind == self._complete_kind()

    def finish(self) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        profile = self._profile
        fragment = self._splitter.fragment()
        if self._rules is None and self._foreign is None:
            profile = self._detect(None, has_gap=self._gaps > 0 or is_of_another_format(fragment))
            self._foreign = None if profile is not None else (self._first_gap, None)
        if self._foreign is not None:
            place, keys = self._foreign
            look = look_of(self._head, keys, is_all=self._splitter.size <= HEAD_BYTES)
            self._collector.drop_findings()
            self._collector.add(rules.UNKNOWN_FORMAT, place, look.fact, advice=look.advice)
            self.fact = look.fact
        else:
            self._report_end(fragment)
            check_sidecars(self._sidecars, profile, self._place and os.path.basename(self._place), self._collector)
        return FileReport(
            path=self._path,
            profile=profile,
            state=self._state(fragment),
            valid=self._collector.valid,
            records=self._records,
            bytes=self._splitter.size,
            findings=self._collector.findings,
            suppressed=dict(sorted(self._collector.suppressed.items())),
        )

    def _report_end(self, fragment: Fragment | None) -> None:
        """Report the findings that depend on the end of the stream; they come last, whatever their place."""
        self._collector.settle()
        self._collector.findings.sort(key=lambda finding: finding.line)
        if fragment is not None:
            self._collector.add_fragment(fragment)
        elif not self._records and not self._gaps:
            place = Location(1, 0)
            self._collector.add(rules.STREAM_EMPTY, place, messages.stream_empty(size=self._splitter.size))
        elif self._records and self._rules is not None:
            for finding in self._rules.finish():
                self._collector.add(finding.rule, self._last, finding.message)
        if self._mismatch is not None:
            self._collector.add(rules.RUN_ID_MISMATCH, *self._mismatch, pointer="/run_id")

    def _state(self, fragment: Fragment | None) -> State:
        last = (self._last_kind,) if self._records else None
        return state_of(self._profile, last, has_gap=bool(self._gaps), is_open=fragment is not None)

    def _complete_kind(self) -> str | None:
        """Return the kind that ends a complete stream; None if every stream that ends with LF is complete."""
        return closing_kind(self._profile) if self._profile is not None else None

    def _follow_profile(self, profile: Profile) -> None:
        is_own = profile not in get_args(Profile)
        self._profile = profile
        # The severities of the user's profiles are those of toy/v1.
        self._collector.profile = "toy/v1" if is_own else profile
        self._rules = StreamRules(profile)
        self._rules.facts.directory, self._rules.facts.rank = self._directory, self._rank
        self._proof = None if is_own else BlockProof(profile)
        self._checker = RecordChecker(profile, self._collector, self._proof)
        if self._gaps:
            self._rules.gap()

    # Taking in bytes.

    def _feed_block(self, data: bytes) -> None:
        """Prove the lines at once where that is possible, else check each."""
        # The first carriage return must be reported; later ones are white space.
        unsure = not self._collector.has_carriage_return and (b"\r" in data or self._splitter.holds(b"\r"))
        number, offset = self._splitter.position
        lines = None if unsure else self._splitter.cut_together(data)
        if lines is None:
            self._check_lines(data)
        elif lines:
            self._take_in(Lines(lines, number=number, offset=offset))

    def _check_lines(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._check_line(line)

    def _take_in(self, lines: Lines) -> None:
        """Take in the lines that are proven, and check every other line."""
        assert self._proof is not None
        records, odd = self._proof.block(lines)
        self._splitter.skip(len(records), 0)
        self._take_around(lines, records, 0, [*odd, len(records)])

    def _take_around(self, lines: Lines, records: list[Any], start: int, singles: list[int]) -> None:
        """Take in the records from *start* to the last of *singles*; check the lines of the other *singles*."""
        end = singles[-1]
        for index in singles:
            if start < index:
                self._take_run(lines, records, start, index)
            if index < end:
                self._check_line(lines.line(index))
            start = index + 1

    def _take_run(self, lines: Lines, records: list[Any], start: int, end: int) -> None:
        """Take in the records from *start* to *end*, at once if no rule that relates records has a finding."""
        assert self._rules is not None
        run = records if end - start == len(records) else records[start:end]
        kinds = {cls: kind_of(cls) for cls in set(map(type, run))}
        loud = {cls for cls, kind in kinds.items() if kind in self._rules.loud}
        if loud:
            singles = [start + index for index, item in enumerate(run) if type(item) in loud]
            self._take_around(lines, records, start, [*singles, end])
        elif self._rules.pass_over(Block(run, kinds, lines.number + start, lines)):
            self._records += len(run)
            self._last_kind = kinds[type(run[-1])]
            self._last = lines.last_place(end) if end == len(records) else lines.place(end - 1)
        elif len(run) > _SMALL_RUN:
            middle = start + _SMALL_RUN * ((len(run) // 2 + _SMALL_RUN - 1) // _SMALL_RUN)
            self._take_run(lines, records, start, middle)
            self._take_run(lines, records, middle, end)
        else:
            for index in range(start, end):
                self._observe_proven(lines, index, records[index])

    def _observe_proven(self, lines: Lines, index: int, record: Any) -> None:
        if self._profile == "metrics/v1":
            # A finding may depend on the order of the keys, which the record loses.
            self._check_line(lines.line(index))
            return
        place = lines.place(index)
        place.data = lines.data[index][:-1]
        self._observe(Observation(msgspec.to_builtins(record), kind=kind_of(type(record)), known=True), place)

    # Checking one line.

    def _check_line(self, line: Line) -> None:
        if line.data == b"":
            return
        value = None if line.data is None else decode_plain(line.data)
        validated = validate_line(line, max_line_bytes=self._options.max_line_bytes) if value is None else None
        if validated is not None:
            value = validated.value
        if value is not None and self._rules is None and self._foreign is None:
            self._begin(value, Location(line.number, line.offset))
        start = len(self._collector.findings)
        if validated is not None:
            self._report_validation(line, validated)
        if value is not None and self._foreign is None:
            self._check_record(line, value, start)
        elif value is not None:
            self._records += 1

    def _begin(self, first: dict[str, Any], place: Location) -> None:
        """Choose the profile by the *first* record of the stream, at *place*."""
        profile = self._detect(first, has_gap=self._gaps > 0)
        if profile is not None:
            self._follow_profile(profile)
        else:
            self._foreign = place, list(first)

    def _report_validation(self, line: Line, validated: ValidatedLine) -> None:
        self._collector.add_validation(line, validated)
        if validated.status == "unreadable":
            if not self._gaps:
                self._first_gap = Location(line.number, line.offset)
            self._gaps += 1
            if self._rules is not None:
                self._rules.gap()

    def _check_record(self, line: Line, value: dict[str, Any], start: int) -> None:
        """Check a record, sort the findings of its line, from index *start* on, and observe it."""
        assert self._checker is not None
        place = Location(line.number, line.offset, 0, line.data or b"")
        seen = self._checker.check(value, place)
        self._collector.arrange(start)
        self._observe(seen, place)

    def _observe(self, seen: Observation, place: Location) -> None:
        """Take in a record that was checked."""
        assert self._rules is not None
        self._records += 1
        self._last_kind = seen.kind
        seen.line = place.line
        for finding in self._rules.observe(seen):
            self._report_finding(finding, place)
        self._last = Location(place.line, place.line_offset)
        if self._run_id is not None and seen.known and seen.kind == "run_start":
            self._compare_run_id(seen, place)

    def _report_finding(self, finding: RecordFinding, place: Location) -> None:
        assert self._checker is not None
        if self._collector.wants(finding.rule):
            where = (
                self._checker.locate(place, finding.pointer)
                if finding.pointer
                else Location(place.line, place.line_offset)
            )
            self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)

    def _compare_run_id(self, seen: Observation, place: Location) -> None:
        assert self._checker is not None
        directory, self._run_id = self._run_id, None
        run_id = seen.field("run_id")
        if isinstance(run_id, str) and run_id != directory:
            message = messages.run_id_mismatch(found=shortened(run_id), directory=shortened(str(directory)))
            # Findings about the bundle come after those about the stream.
            self._mismatch = self._checker.locate(place, "/run_id"), message
