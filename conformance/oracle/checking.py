"""Checks streams and bundles: see spec/checking.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.oracle import tables
from conformance.oracle.record_rules import RecordRules
from conformance.oracle.sealing import SEAL
from conformance.oracle.stream_rules import RULES_OF, Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.json_text import Problem, Value
    from conformance.oracle.lines import Line, Lines
    from conformance.oracle.reading import Reading, Stream
    from conformance.oracle.sealing import Sealing
    from conformance.oracle.stream_rules import StreamRules

MAX_LISTED = 100
SIDECARS = ("run.json", "flow.json")
_HARMLESS = frozenset({"unsafe-integer", "integer-as-float"})
"""Rules of records whose findings do not exclude a field from the rules that relate records."""


def _is_harmless(problem: Problem) -> bool:
    """Return whether *problem* leaves the field it is in to the rules; an unknown key is not a field of the record."""
    return problem.rule in _HARMLESS or (problem.rule == "unknown-key" and problem.pointer.count("/") > 1)


@dataclass
class Findings:
    """Findings of one stream: the first ones of each rule listed, all others counted."""

    profile: str
    directory: str | None = None
    """Name of the bundle, None if there is none."""
    listed: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    names: set[tuple[str, ...]] = field(default_factory=set)
    has_error: bool = False
    mismatch: tuple[int, int] | None = None
    """Line and offset of a run_id that is not the name of the directory."""

    def add(self, rule: str, line: int, offset: int, pointer: str = "", *, at_end: bool = False, **rest: str) -> None:
        """List a finding, or count it."""
        severity = tables.severity(rule, self.profile, at_end=at_end)
        self.has_error = self.has_error or severity == "error"
        self.counts[rule] += 1
        if self.counts[rule] <= MAX_LISTED:
            self.listed.append(
                {"rule": rule, "severity": severity, "line": line, "offset": offset, "pointer": pointer, **rest}
            )

    def arrange(self, line: int) -> None:
        """Put the findings of the line *line*, the last one checked, in the order of their places."""
        start = next((i for i, finding in enumerate(self.listed) if finding["line"] == line), len(self.listed))
        self.listed[start:] = sorted(
            self.listed[start:], key=lambda finding: (finding["offset"], tables.RULE_ORDER[finding["rule"]])
        )

    def is_new(self, *name: str) -> bool:
        """Return whether *name* was not reported before."""
        known = name in self.names
        self.names.add(name)
        return not known

    def suppressed(self) -> dict[str, int]:
        """Return the number of findings of each rule that are not listed."""
        return {rule: count - MAX_LISTED for rule, count in self.counts.items() if count > MAX_LISTED}


class Checking:
    """Checks streams. Each step is a method that a mutant can override."""

    record_rules: type[RecordRules] = RecordRules
    rules_of: Mapping[str, type[StreamRules]] = RULES_OF

    def __init__(self, lines: Lines, reading: Reading) -> None:
        self.lines = lines
        self.reading = reading

    def check(
        self,
        stream: Stream,
        directory: str | None = None,
        sidecars: Mapping[str, bytes | None] | None = None,
        sealing: Sealing | None = None,
        place: tuple[str | None, str] = (None, ""),
    ) -> dict[str, Any]:
        """Return the answer of a checker; *directory* is the name of the bundle, *sealing* knows its seal.

        *place* is the path of the bundle and the name of the file in it.
        """
        if stream.profile is None:
            return self.unknown(stream, sealing)
        found = Findings(stream.profile, directory)
        rules = self.rules_of[stream.profile]()
        rules.directory, rules.file = place
        records = self.record_rules(stream.profile)
        last, has_return = None, False
        for line in stream.lines:
            self.line_validation(line, found, has_return=has_return)
            has_return = has_return or self.has_return(line)
            if line.status == "gap":
                rules.gap()
            elif line.value is not None:
                last = line
                self.record(line, line.value, records, rules, found)
        self.end(stream, last, rules, found)
        if found.mismatch is not None:
            found.add("run-id-mismatch", *found.mismatch, "/run_id")
        for name, data in sidecars.items() if sidecars else ():
            self.sidecar(name, data, found)
        self.seal(sealing, found)
        return {
            "profile": stream.profile,
            "state": self.reading.state(stream),
            "valid": not found.has_error,
            "findings": found.listed,
            "suppressed": found.suppressed(),
        }

    def unknown(self, stream: Stream, sealing: Sealing | None) -> dict[str, Any]:
        """Return the answer of a checker about a stream without profile."""
        found = Findings("")
        readable = (line for line in stream.lines if line.status == "readable")
        gaps = (line for line in stream.lines if line.status == "gap")
        line = next(readable, None) or next(gaps)
        found.add("unknown-format", line.number, line.offset)
        self.seal(sealing, found)
        state = self.reading.state(stream)
        suppressed = found.suppressed()
        return {"profile": None, "state": state, "valid": False, "findings": found.listed, "suppressed": suppressed}

    def missing(self) -> dict[str, Any]:
        """Return the answer of a checker about a directory without a stream."""
        found = Findings("toy/v1")
        found.add("stream-missing", 1, 0)
        return {"profile": None, "state": None, "valid": False, "findings": found.listed, "suppressed": {}}

    def seal(self, sealing: Sealing | None, found: Findings) -> None:
        """Report what differs from the seal."""
        for line, offset in sealing.problems() if sealing is not None else ():
            found.add("seal-broken", line, offset, sidecar=SEAL)

    def line_validation(self, line: Line, found: Findings, *, has_return: bool) -> None:
        """Report the errors of the bytes and JSON layers of a line."""
        for rule, start, pointer in line.problems:
            found.add(rule, line.number, line.offset + start, pointer)
        if not has_return and self.has_return(line):
            found.add("carriage-return", line.number, line.offset + line.data.index(b"\r"))

    def has_return(self, line: Line) -> bool:
        """Return whether a line has a CR that is reported."""
        return line.status != "gap" and b"\r" in line.data

    def record(self, line: Line, value: Value, records: RecordRules, rules: StreamRules, found: Findings) -> None:
        """Report the errors of a record and its line in the order of their places, then those of its position."""
        kind = self.reading.kind(value, found.profile)
        known = kind in tables.kinds(found.profile)
        invalid: frozenset[str] = frozenset()
        if known:
            assert kind is not None
            invalid = self.known(kind, line, records.problems(kind, value), found)
        else:
            self.tag(kind, line, value, found)
        found.arrange(line.number)
        for rule, pointer in rules.record(Seen(kind, known, value, invalid)):
            found.add(rule, line.number, line.byte(place(value, pointer)), pointer)
        if kind == "run_start" and known and found.directory is not None and found.is_new("run_start"):
            found.mismatch = self.run_start_id(line, value, invalid, found.directory)

    def known(self, kind: str, line: Line, problems: list[Problem], found: Findings) -> frozenset[str]:
        """Report the errors of a record of a known kind; return the fields that later rules ignore."""
        for problem in problems:
            if self.is_reported(found, kind, problem):
                found.add(problem.rule, line.number, line.byte(problem.start), problem.pointer)
        return frozenset(problem.pointer.split("/")[1] for problem in problems if not _is_harmless(problem))

    def is_reported(self, found: Findings, kind: str, problem: Problem) -> bool:
        """Return whether an error of a record is reported here or was reported before."""
        if problem.rule == "unknown-key":
            return self.is_new_key(found, kind, problem.path)
        return problem.rule != "integer-as-float" or found.is_new(problem.rule)

    def is_new_key(self, found: Findings, kind: str, path: tuple[str, ...]) -> bool:
        """Return whether an unknown key is reported here."""
        return found.is_new("key", kind, *path)

    def tag(self, kind: str | None, line: Line, value: Value, found: Findings) -> None:
        """Report the error in the tag of a record without a known kind."""
        key = tables.tag_key(found.profile)
        assert key is not None
        pointer = f"/{key}"
        offset = line.byte(place(value, pointer))
        if kind is not None:
            if found.is_new("kind", kind):
                found.add("unknown-kind", line.number, offset, pointer)
        else:
            found.add("missing-key" if value.get(key) is None else "wrong-type", line.number, offset, pointer)

    def end(self, stream: Stream, last: Line | None, rules: StreamRules, found: Findings) -> None:
        """Report the errors at the end of a stream."""
        if stream.fragment:
            number, offset = len(stream.lines) + 1, len(stream.data) - len(stream.fragment)
            if any(stream.fragment):
                found.add("unterminated-line", number, offset)
            else:
                found.add("nul-bytes", number, offset, at_end=True)
        elif all(line.status == "blank" for line in stream.lines):
            found.add("stream-empty", 1, 0)
        elif last is not None:
            for rule, pointer in rules.end():
                found.add(rule, last.number, last.offset, pointer)

    def run_start_id(self, line: Line, value: Value, invalid: frozenset[str], directory: str) -> tuple[int, int] | None:
        """Return the place of a run_id that is not the name of the directory, None if there is none."""
        if "run_id" in invalid:
            return None
        run_id = value.get("run_id")
        assert run_id is not None
        return None if run_id.text == directory else (line.number, line.byte(run_id.start))

    def sidecar(self, name: str, data: bytes | None, found: Findings) -> None:
        """Report the errors of a sidecar; *data* is None if it cannot be read."""
        data = data or b""
        line = self.lines.text(data)
        if line.value is None:
            is_blank = not data.strip(b" \t\r\n")
            start = 0 if is_blank else next(start for rule, start, _ in line.problems if rule == line.reason)
            found.add("sidecar-unreadable", data.count(b"\n", 0, start) + 1, start, sidecar=name)
            return
        if found.profile == "kaun/v1" and name == "run.json":
            self.manifest(line, line.value, found)

    def manifest(self, line: Line, value: Value, found: Findings) -> None:
        """Report the errors of the manifest of a kaun/v1 bundle."""
        problems = self.record_rules(found.profile).problems("run", value)
        as_floats = [problem for problem in problems if problem.rule == "integer-as-float"]
        reported = [problem for problem in problems if problem not in as_floats[1:]]
        places = [(problem.rule, problem.start, problem.pointer) for problem in reported]
        run_id = value.get("run_id")
        if run_id and run_id.text != found.directory and not any(problem.pointer == "/run_id" for problem in problems):
            places.append(("run-id-mismatch", run_id.start, "/run_id"))
        for rule, start, pointer in places:
            offset = line.byte(start)
            found.add(rule, line.data.count(b"\n", 0, offset) + 1, offset, pointer, sidecar="run.json")


def place(value: Value, pointer: str) -> int:
    """Return the index of the value at *pointer* in a record, or of the object that lacks it."""
    at = value
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        inner = at.get(key)
        if inner is None:
            return at.start
        at = inner
    return at.start if pointer else 0
