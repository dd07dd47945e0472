"""Checks one stream, fed in pieces of any size, and the files beside it: see spec/checking.md.

Blocks of lines that are proven to have no finding are taken in at once; every other line is checked by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from toyspec.core.checker.block_proof import BlockProof, kind_of
from toyspec.core.checker.collecting import Collector, Lines, Location
from toyspec.core.checker.options import CheckOptions
from toyspec.core.checker.record_rules import NOTHING_BAD, RecordChecker
from toyspec.core.checker.sidecars import SidecarText, check_sidecars, read_sidecars
from toyspec.core.checker.stream_rules import Block, Observation, StreamFinding, StreamRules, identity
from toyspec.core.escaping import shortened
from toyspec.core.findings import FileReport, Profile
from toyspec.core.format.known_formats import is_of_another_format, look_of
from toyspec.core.format.line_validation import ValidatedLine, decode, validate_line
from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.format.profiles import EVENTS_FILE, closing_kind, detect_profile, stream_name
from toyspec.core.generated import messages, rules
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.generated.streams import STREAMS
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.records import state_of
from toyspec.core.reading.run_files import rank_of
from toyspec.core.runs.discovery import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.checker.block_proof import Proven, Taken
    from toyspec.core.findings import Finding, Fragment, State
    from toyspec.core.format.known_formats import Look


class Foreign(msgspec.Struct, frozen=True):
    """What is known of a stream without a profile."""

    place: Location
    """The first byte of its first readable record, else of its first unreadable line."""
    keys: list[str] | None
    """The keys of that record; None if there is none."""

    def report(self, head: bytes, size: int, collector: Collector) -> Look:
        """Replace all findings by the one about the format of the stream; return what it looks like.

        The stream has *size* bytes and begins with *head*.
        """
        look = look_of(head, self.keys, is_all=size <= HEAD_BYTES)
        collector.drop_findings()
        collector.add(rules.UNKNOWN_FORMAT, self.place, look.fact, advice=look.advice)
        return look


# Larger buffers would be mapped and unmapped by the system each time.
_BLOCK_BYTES = 1 << 16


# A run of records with a finding is halved down to this length, then checked record by record.
_SMALL_RUN = 16


class StreamChecker:
    """Checks a stream as it is fed.

    *path* is shown in the report. *detect* finds the profile if the options do not name it, by default from the first
    readable record alone: see ``detect_profile``. *directory* is the name that the run's id is compared with; None for
    a stream that is not in a bundle.
    """

    def __init__(
        self,
        path: str,
        *,
        options: CheckOptions | None = None,
        detect: Callable[..., Profile | None] | None = None,
        directory: str | None = None,
    ) -> None:
        self._path = path
        self._options = options or CheckOptions()
        self._detect = detect or detect_profile
        self._bundle = directory
        self._directory = directory
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
        self._foreign: Foreign | None = None
        self.look: Look | None = None
        """What a stream without a profile looks like, once it is finished; None for all others."""
        self._tag: str | None = None
        self._in_bundle(None, None)
        if self._options.profile is not None:
            self._follow_profile(self._options.profile)

    def _in_bundle(self, place: str | None, rank: int | None) -> None:
        """Take the path of the run's directory, and the rank whose stream this is; None where it is not in a bundle."""
        self._bundle_place, self._rank = place, rank
        if self._rules is not None:
            self._rules.facts.directory, self._rules.facts.rank = place, rank

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
                end = (data.find(b"\n", start) + 1 if self._rules is None else 0) or len(data)
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
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._splitter.size

    @property
    def is_foreign(self) -> bool:
        """True when a record has shown that the stream has no profile."""
        return self._foreign is not None

    @property
    def ended(self) -> bool:
        """True when the last record ends the run, and for a stream without a profile."""
        if self._foreign is not None:
            return True
        return self._last_kind is not None and self._last_kind == self._complete_kind()

    def finish(self, sidecars: Sequence[SidecarText] = ()) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        profile = self._profile
        fragment = self._splitter.fragment()
        if self._rules is None and self._foreign is None:
            profile = self._detect(None, has_gap=self._gaps > 0 or is_of_another_format(fragment))
            self._foreign = None if profile is not None else Foreign(self._first_gap, None)
        if self._foreign is not None:
            self.look = self._foreign.report(self._head, self._splitter.size, self._collector)
        else:
            self._report_end(fragment)
            check_sidecars(sidecars, profile, self._bundle, self._collector)
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
        self._tag = STREAMS[profile]["tag"]
        self._rules = StreamRules(profile)
        self._rules.facts.directory, self._rules.facts.rank = self._bundle_place, self._rank
        self._proof = None if is_own else BlockProof(profile)
        self._checker = RecordChecker(profile, self._collector)
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
        taken = self._proof.block(lines)
        self._splitter.skip(len(taken.records), 0)
        start = 0
        for index in sorted([*taken.odd, *taken.alone]):
            if index in taken.alone:
                self._report_proven(taken.alone[index], lines.place(index), lines.data[index])
                continue
            if start < index:
                self._take_run(lines, taken, start, index)
            self._check_line(lines.line(index))
            start = index + 1
        if start < len(taken.records):
            self._take_run(lines, taken, start, len(taken.records))

    def _take_run(self, lines: Lines, taken: Taken, start: int, end: int) -> None:
        """Take in the records from *start* to *end*, at once if no rule that relates records has a finding."""
        assert self._rules is not None
        run = taken.records if end - start == len(taken.records) else taken.records[start:end]
        kinds = {cls: kind_of(cls) for cls in set(map(type, run))}
        loud = {cls for cls, kind in kinds.items() if kind in self._rules.loud}
        block = Block(run, kinds, lines.number + start, lines)
        if not loud and self._rules.pass_over(block):
            self._records += len(run)
            self._last_kind = kinds[type(run[-1])]
            self._last = lines.last_place(end) if end == len(taken.records) else lines.place(end - 1)
        elif loud and len(run) > 1:
            singles = [start + index for index, item in enumerate(run) if type(item) in loud]
            self._take_around(lines, taken, start, singles, end)
        elif len(run) > _SMALL_RUN:
            middle = start + _SMALL_RUN * ((len(run) // 2 + _SMALL_RUN - 1) // _SMALL_RUN)
            self._take_run(lines, taken, start, middle)
            self._take_run(lines, taken, middle, end)
        else:
            self._observe_each(lines, taken, start, end)

    def _take_around(self, lines: Lines, taken: Taken, start: int, loud: list[int], end: int) -> None:
        """Take in the records from *start* to *end*, those at the indexes *loud* one by one."""
        for index in [*loud, end]:
            if start < index:
                self._take_run(lines, taken, start, index)
            if index < end:
                self._observe_each(lines, taken, index, index + 1)
            start = index + 1

    def _observe_each(self, lines: Lines, taken: Taken, start: int, end: int) -> None:
        for index in range(start, end):
            if self._tag is None:
                # A finding may depend on the order of the keys, which the record loses.
                self._check_line(lines.line(index))
                continue
            record = taken.records[index]
            place = lines.place(index)
            place.data = lines.data[index][:-1]
            self._take_record(
                Observation(record, getattr, kind=kind_of(type(record)), known=True, bad=NOTHING_BAD), place
            )

    def _take_record(self, seen: Observation, place: Location) -> None:
        """Take in a record."""
        self._records += 1
        self._last_kind = seen.kind
        self._observe(seen, place)

    # Checking one line.

    def _check_line(self, line: Line) -> None:
        if self._rules is None and self._foreign is None and line.data is not None:
            first = decode(line.data)
            if first is not None:
                self._begin(first, Location(line.number, line.offset))
        if self._proof is not None and line.data is not None:
            proven = self._proof.line(line.data)
            if proven is not None:
                self._take_proven(proven, Location(line.number, line.offset, 0, line.data))
                return
        validated = validate_line(line, max_line_bytes=self._options.max_line_bytes)
        start = len(self._collector.findings)
        self._report_validation(line, validated)
        if validated.value is not None and self._foreign is None:
            self._check_record(line, validated.value, start)
        elif validated.value is not None:
            self._records += 1

    def _begin(self, first: dict[str, Any], place: Location) -> None:
        """Choose the profile by the *first* record of the stream, at *place*."""
        profile = self._detect(first, has_gap=self._gaps > 0)
        if profile is not None:
            self._follow_profile(profile)
        else:
            self._foreign = Foreign(place, list(first))

    def _take_proven(self, proven: Proven, place: Location) -> None:
        """Take in a record that was proven alone."""
        self._report_proven(proven, place, place.data)
        self._take_record(Observation(proven.record, getattr, kind=proven.kind, known=True, bad=NOTHING_BAD), place)

    def _report_proven(self, proven: Proven, place: Location, data: bytes) -> None:
        """Report the whole floats of a record that was proven alone, and count its unknown keys."""
        assert self._checker is not None
        if proven.whole_floats:
            place.data = data.rstrip(b"\n")
            self._checker.report_whole_floats(proven.whole_floats, place)
        for key in proven.unknown:
            self._collector.tally_again(rules.UNKNOWN_KEY, identity(f"{proven.kind} {key}"))

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
        seen, unknown_keys = self._checker.check(value, place)
        if unknown_keys and self._proof is not None and seen.kind is not None:
            self._proof.report_unknown(seen.kind, unknown_keys)
        self._collector.arrange(start)
        self._take_record(seen, place)

    # Rules that relate records.

    def _observe(self, seen: Observation, place: Location) -> None:
        assert self._rules is not None
        seen.line = place.line
        for finding in self._rules.observe(seen):
            self._report_finding(finding, place)
        self._last = Location(place.line, place.line_offset)
        if self._directory is not None and seen.known and seen.kind == "run_start":
            self._compare_with_directory(seen, place)

    def _report_finding(self, finding: StreamFinding, place: Location) -> None:
        assert self._checker is not None
        if self._collector.wants(finding.rule):
            where = (
                self._checker.locate(place, finding.pointer)
                if finding.pointer
                else Location(place.line, place.line_offset)
            )
            self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)

    def _compare_with_directory(self, seen: Observation, place: Location) -> None:
        assert self._checker is not None
        directory, self._directory = self._directory, None
        run_id = seen.field("run_id")
        if isinstance(run_id, str) and run_id != directory:
            message = messages.run_id_mismatch(found=shortened(run_id), directory=shortened(str(directory)))
            # Findings about the bundle come after those about the stream.
            self._mismatch = self._checker.locate(place, "/run_id"), message


class PlainChecker(StreamChecker):
    """Checks the stream at a path, or a stream without one."""

    def __init__(
        self,
        path: str,
        options: CheckOptions,
        *,
        detect: Callable[..., Profile | None],
        name: str | None = None,
        own: str | None = None,
    ) -> None:
        """Check the stream at *path*; *name* is the name of its file if it has no path, then nothing is beside it.

        *own* is the profile of the user that it follows, whose streams have no bundle.
        """
        self._place: str | None = None
        self._sidecars: list[SidecarText] = []
        directory = None
        has_path = name is None and own is None and path != STANDARD_INPUT
        if has_path and stream_name(os.path.basename(path)) == EVENTS_FILE:
            self._place = os.path.dirname(path if is_address(path) else os.path.abspath(path))
            directory = os.path.basename(self._place)
        super().__init__(path, options=options, detect=detect, directory=directory)
        rank = rank_of(os.path.basename(path)) if has_path and not is_address(path) else None
        if rank is not None:
            self._in_bundle(os.path.dirname(os.path.abspath(path)), rank)
        self.read_bundle_again()
        if own is not None:
            self._follow_profile(cast("Profile", own))

    def read_bundle_again(self) -> None:
        """Read the files beside the stream again."""
        if self._place is not None:
            self._sidecars = read_sidecars(self._place, self._options.max_line_bytes)

    @property
    def is_look_settled(self) -> bool:
        """True when the stream has no profile, and more bytes would not change what it looks like."""
        return self.is_foreign and self.size > HEAD_BYTES

    @property
    def fact(self) -> str | None:
        """What a stream without a profile looks like, once it is finished; None for all others."""
        return None if self.look is None else self.look.fact

    def finish(self, sidecars: Sequence[SidecarText] | None = None) -> FileReport:
        """Return the report on everything fed and on the files beside it; call it once, last."""
        return super().finish(self._sidecars if sidecars is None else sidecars)
