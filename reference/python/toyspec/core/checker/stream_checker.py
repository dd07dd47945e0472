"""Checks one stream, fed in pieces of any size, and the files beside it: see spec/checking.md.

Blocks of lines that are proven to have no finding are taken in at once; every other line is checked by itself.
A line that decodes into the strict type of its kind has known keys, right values and safe integers. What remains is
that no key repeats: a decoder keeps the last value only. Encoding what was decoded writes each key once. If the result
is the same bytes, or has as many ``":``, no key was lost.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Union, get_args

import msgspec

from toyspec.core.checker.collecting import CheckOptions, Collector, Lines, Location
from toyspec.core.checker.record_rules import RecordChecker, beyond_schema
from toyspec.core.checker.sidecars import SidecarText, check_sidecars, read_sidecars
from toyspec.core.checker.stream_rules import Block, Observation, StreamRules
from toyspec.core.escaping import shortened
from toyspec.core.findings import FileReport, Profile
from toyspec.core.format.date_times import is_date_time
from toyspec.core.format.decoding import typed_decoder
from toyspec.core.format.known_formats import is_of_another_format, look_of
from toyspec.core.format.line_validation import decode_plain, hides_keys, validate_line
from toyspec.core.format.lines import Line, LineSplitter
from toyspec.core.format.profiles import EVENTS_FILE, detect_profile, stream_name, tag_of
from toyspec.core.generated import messages, rules
from toyspec.core.generated.fields import DATE_TIMES, FIELDS
from toyspec.core.generated.looks import HEAD_BYTES
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.records import state_of
from toyspec.core.reading.run_files import rank_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from toyspec.core.findings import Fragment


# Larger buffers would be mapped and unmapped by the system each time.
_BLOCK_BYTES = 1 << 16
# A run of records with a finding is halved down to this length, then checked record by record.
_SMALL_RUN = 16
# Raised by decoding if the bytes are not a regular record.
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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
        if self._place is not None:
            self._sidecars = read_sidecars(self._place, self._options.max_line_bytes)
        if self._options.named_profile is not None:
            self._follow_profile(self._options.named_profile)

    def feed(self, data: bytes) -> None:
        """Check the lines that *data* commits."""
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        start = 0
        while start < len(data):
            end = len(data)
            if self._proof is not None:
                end = start + _BLOCK_BYTES
                self._feed_block(data[start:end])
            else:
                # The first record decides the profile; that of a user has no types that prove a block.
                if self._rules is None and self._foreign is None:
                    end = data.find(b"\n", data.find(b"{", start)) + 1 or end
                self._check_lines(data[start:end])
            start = end

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
            self._collector = Collector(self._options)
            self._collector.add(rules.UNKNOWN_FORMAT, place, look.fact, advice=look.advice)
            self.fact = look.fact
        else:
            self._report_end(fragment)
            check_sidecars(self._sidecars, profile, self._place and os.path.basename(self._place), self._collector)
        last = (self._last_kind,) if self._records else None
        return FileReport(
            path=self._path,
            profile=profile,
            state=state_of(self._profile, last, has_gap=bool(self._gaps), is_open=fragment is not None),
            valid=self._collector.valid,
            records=self._records,
            bytes=self._splitter.size,
            findings=self._collector.findings,
            suppressed=dict(sorted(self._collector.suppressed.items())),
        )

    def _report_end(self, fragment: Fragment | None) -> None:
        """Report the findings that depend on the end of the stream; they come last, whatever their place."""
        self._collector.settle()
        if fragment is not None:
            self._collector.add_fragment(fragment)
        elif not self._records and not self._gaps:
            message = messages.stream_empty(size=self._splitter.size)
            self._collector.add(rules.STREAM_EMPTY, Location(1, 0), message)
        elif self._records and self._rules is not None:
            for finding in self._rules.finish():
                self._collector.add(finding.rule, self._last, finding.message)
        if self._mismatch is not None:
            self._collector.add(rules.RUN_ID_MISMATCH, *self._mismatch, pointer="/run_id")

    def _follow_profile(self, profile: Profile) -> None:
        is_own = profile not in get_args(Profile)
        self._profile = profile
        # The severities of the user's profiles are those of toy/v1.
        self._collector.profile = "toy/v1" if is_own else profile
        self._rules = StreamRules(profile)
        self._rules.facts.directory, self._rules.facts.rank = self._directory, self._rank
        self._proof = None if is_own else BlockProof(profile, self._rules.loud)
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
        """Take in the runs of lines that are proven, and check every other line."""
        assert self._proof is not None
        records, singles = self._proof.block(lines)
        self._splitter.skip(len(records), 0)
        start = 0
        for index in [*singles, len(records)]:
            if start < index:
                self._take_run(lines, records, start, index)
            if index < len(records):
                self._check_line(lines.line(index))
            start = index + 1

    def _take_run(self, lines: Lines, records: list[Any], start: int, end: int) -> None:
        """Take in the records from *start* to *end*, at once if no rule that relates records has a finding."""
        assert self._rules is not None
        run = records if end - start == len(records) else records[start:end]
        kinds = {cls: kind_of(cls) for cls in set(map(type, run))}
        if self._rules.pass_over(Block(run, kinds, lines.number + start, lines)):
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
            # The first record chooses the profile.
            profile = self._detect(value, has_gap=self._gaps > 0)
            if profile is None:
                self._foreign = Location(line.number, line.offset), list(value)
            else:
                self._follow_profile(profile)
        start = len(self._collector.findings)
        if validated is not None:
            self._collector.add_validation(line, validated)
            if validated.status == "unreadable":
                self._take_gap(line)
        if value is not None and self._foreign is not None:
            self._records += 1
        elif value is not None:
            assert self._checker is not None
            place = Location(line.number, line.offset, 0, line.data or b"")
            seen = self._checker.check(value, place)
            self._collector.arrange(start)
            self._observe(seen, place)

    def _take_gap(self, line: Line) -> None:
        if not self._gaps:
            self._first_gap = Location(line.number, line.offset)
        self._gaps += 1
        if self._rules is not None:
            self._rules.gap()

    def _observe(self, seen: Observation, place: Location) -> None:
        """Take in a record that was checked."""
        assert self._rules is not None
        assert self._checker is not None
        self._records += 1
        self._last_kind = seen.kind
        seen.line = place.line
        self._last = Location(place.line, place.line_offset)
        for finding in self._rules.observe(seen):
            if self._collector.wants(finding.rule):
                where = self._checker.locate(place, finding.pointer) if finding.pointer else self._last
                self._collector.add(finding.rule, where, finding.message, pointer=finding.pointer)
        if self._run_id is not None and seen.known and seen.kind == "run_start":
            run_id, directory, self._run_id = seen.field("run_id"), self._run_id, None
            if isinstance(run_id, str) and run_id != directory:
                message = messages.run_id_mismatch(found=shortened(run_id), directory=shortened(directory))
                # Findings about the bundle come after those about the stream.
                self._mismatch = self._checker.locate(place, "/run_id"), message


class BlockProof:
    """Proves the lines of one stream, so that only the others take the exact path."""

    def __init__(self, profile: Profile, loud: Collection[str] = ()) -> None:
        """Leave records of the kinds in *loud* to be checked each by itself, proven or not."""
        self._profile = profile
        self._types = _types(profile)
        self._unsettled = _unsettled(profile)
        self._singles = self._unsettled.union(self._types[kind] for kind in loud if kind in self._types)
        self._decoder = _decoder(profile)
        self._encoder = msgspec.json.Encoder()

    def block(self, lines: Lines) -> tuple[list[Any], list[int]]:
        """Return the records of *lines*, and the indexes of those that are to be checked each by itself.

        No line is too long, or has a carriage return to report.
        """
        try:
            found = self._decoder.decode_lines(lines.together)
            is_canonical = self._encoder.encode_lines(found) == lines.together
        except _REFUSED:
            is_canonical = False
        found, odd = (found, []) if is_canonical else self._each(lines.data)
        if not self._singles.isdisjoint(map(type, found)):
            odd += [at for at, record in enumerate(found) if type(record) in self._singles]
        return found, sorted(set(odd))

    def fits(self, kind: str, value: dict[str, Any]) -> bool:
        """Return whether *value*, its integers ints, has nothing to report as a record of *kind*."""
        try:
            record: Any = msgspec.convert(value, self._types[kind])
        except msgspec.ValidationError:
            return False
        if type(record) not in self._unsettled:
            return True
        # The type does not check date-times and open maps.
        dates = (getattr(record, name) for name in DATE_TIMES[self._profile].get(kind, ()))
        return all(text is msgspec.UNSET or is_date_time(text) for text in dates) and not any(
            beyond_schema(value, ("object", FIELDS[self._profile][kind]))
        )

    def _each(self, lines: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        """Return the records of *lines*, decoded one by one and compared together, and the indexes of other lines."""
        found: list[Any] = []
        odd: list[int] = []
        rest = map(self._decoder.decode, lines)
        while len(found) < len(lines):
            try:
                found.extend(rest)
            except _REFUSED:
                odd.append(len(found))
                found.append(None)
        good = sorted(set(range(len(found))).difference(odd))
        if not self._is_whole(b"".join([lines[index] for index in good]), [found[index] for index in good]):
            odd += [index for index in good if not self._is_whole(lines[index], [found[index]])]
        return found, odd

    def _is_whole(self, data: bytes, records: list[Any]) -> bool:
        """Return whether no key of the lines *data* was lost when they were decoded into *records*."""
        encoded = self._encoder.encode_lines(records)
        return encoded == data or (not hides_keys(data) and encoded.count(b'":') == data.count(b'":'))


def kind_of(cls: Any) -> str:
    """Return the kind of the records of a strict type."""
    return str(cls.__struct_config__.tag or "entry")


@cache
def _types(profile: Profile) -> dict[str, type[msgspec.Struct]]:
    module = import_module(f"toyspec.core.generated.strict_{profile.replace('/', '_')}")
    types = get_args(module.StrictRecord) or (module.StrictRecord,)
    return {kind_of(cls): cls for cls in types}


@cache
def _decoder(profile: Profile) -> msgspec.json.Decoder[Any]:
    types = tuple(_types(profile).values())
    tag = tag_of(profile)
    if tag is None:
        return typed_decoder(types[0])
    # Only a union requires the tag; no line has this one.
    unused = msgspec.defstruct("Unused", [], tag_field=tag, tag="\0")
    return typed_decoder(Union[(*types, unused)])


@cache
def _unsettled(profile: Profile) -> frozenset[type]:
    """Return the types that do not check all of a record: each such line is checked by itself."""
    fields, dated = FIELDS[profile], DATE_TIMES[profile]
    return frozenset(cls for kind, cls in _types(profile).items() if kind in dated or "open" in fields[kind].values())
