"""Mutants of reading: see spec/reading.md and spec/model.md."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.json_text import Value, is_integer
from conformance.oracle.reading import Reading, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from conformance.oracle.lines import Line

Message = dict[str, Any]


class GuessesTheKind(Oracle):
    """Ignores upper and lower case in a kind."""

    class reading_type(Reading):
        def kind(self, value: Value | None, profile: str | None) -> str | None:
            found = super().kind(value, profile)
            return found.lower() if found else found


class HidesTornTails(Oracle):
    """Reports a stream that ends in a fragment as complete."""

    def read(self, request: Message) -> Message:
        """Answer with the fragment hidden."""
        answer = super().read(request)
        return answer | {"state": "complete", "fragment": 0} if answer["state"] == "torn" else answer


class CallsAnyEndComplete(Oracle):
    """Reports a toy/v1 stream without a final run_end as complete."""

    class reading_type(Reading):
        def state(self, stream: Stream) -> str:
            found = super().state(stream)
            has_record = any(line.status == "readable" for line in stream.lines)
            return "complete" if found == "torn" and not stream.fragment and has_record else found


class CallsDamagedTorn(Oracle):
    """Reports a damaged stream as torn if it ends in a fragment."""

    class reading_type(Reading):
        def state(self, stream: Stream) -> str:
            return "torn" if stream.fragment else super().state(stream)


class CallsAnInvalidEndTorn(Oracle):
    """Reports a stream with an invalid run_end as torn."""

    class reading_type(Reading):
        def state(self, stream: Stream) -> str:
            found = super().state(stream)
            value = stream.lines[-1].value if stream.lines else None
            known = {"completed", "interrupted", "aborted", "errored"}
            reason = value.get("reason") if value else None
            is_invalid = stream.profile == "toy/v1" and (reason is None or reason.text not in known)
            return "torn" if found == "complete" and is_invalid else found


class DropsTheLastRecord(Oracle):
    """Leaves out the last record."""

    def read(self, request: Message) -> Message:
        """Answer without the last record."""
        answer = super().read(request)
        return answer | {"records": answer["records"][:-1]}


class DropsInvalidRecords(Oracle):
    """Leaves out records that break their schema."""

    def read(self, request: Message) -> Message:
        """Answer without invalid records."""
        invalid = {f["line"] for f in self.check(request)["findings"] if f["rule"] in {"missing-key", "wrong-type"}}
        answer = super().read(request)
        if not invalid:
            return answer
        lines = self.opened(request, self.reading(request))[0].lines
        numbers = [line.number for line in lines if line.status == "readable"]
        kept = [record for number, record in zip(numbers, answer["records"], strict=False) if number not in invalid]
        return answer | {"records": kept}


class DropsUnknownKinds(Oracle):
    """Leaves out records of unknown kind."""

    def read(self, request: Message) -> Message:
        """Answer without them."""
        answer = super().read(request)
        kept = [record for record in answer["records"] if record.get("kind") not in {"gauge", "future", "checkpoint"}]
        known = _known_kinds()
        if answer["profile"] == "toy/v1":
            kept = [record for record in answer["records"] if record.get("kind") in known]
        return answer | {"records": kept}


class DropsUnknownKeys(Oracle):
    """Leaves out unknown members."""

    class reading_type(Reading):
        def tagged(self, value: Value, schema: Mapping[str, Any], profile: str | None) -> Any:
            if value.type == "object" and "properties" in schema:
                value.members = [member for member in value.members if member.key in schema["properties"]]
            return super().tagged(value, schema, profile)


class SalvagesByDefault(Oracle):
    """Skips gaps if the request has no mode."""

    def read(self, request: Message) -> Message:
        """Answer as in mode salvage."""
        return super().read({"mode": "salvage", **request})


class TakesTornForStrict(Oracle):
    """Reads a torn stream in mode strict without failing."""

    def read(self, request: Message) -> Message:
        """Answer as in mode tail."""
        return super().read(request | {"mode": "tail"} if request.get("mode") == "strict" else request)


class SkipsGapsInModeTail(Oracle):
    """Skips gaps in mode tail."""

    def read(self, request: Message) -> Message:
        """Answer as in mode salvage."""
        return super().read(request | {"mode": "salvage"} if request.get("mode") == "tail" else request)


class GoesOnInModePrefix(Oracle):
    """Skips gaps in mode prefix."""

    def read(self, request: Message) -> Message:
        """Answer as in mode salvage."""
        return super().read(request | {"mode": "salvage"} if request.get("mode") == "prefix" else request)


class StopsInModeSalvage(Oracle):
    """Stops at the first gap in mode salvage."""

    def read(self, request: Message) -> Message:
        """Answer as in mode prefix."""
        return super().read(request | {"mode": "prefix"} if request.get("mode") == "salvage" else request)


class CountsLinesFromZero(Oracle):
    """Counts the line of an error from 0."""

    def read(self, request: Message) -> Message:
        """Answer with the line before."""
        answer = super().read(request)
        if "error" in answer:
            answer["error"] = answer["error"] | {"line": max(1, answer["error"]["line"] - 1)}
        return answer


class ForgetsTheReportOfAFailure(Oracle):
    """Reports nothing read when it fails."""

    def read(self, request: Message) -> Message:
        """Answer with zeros."""
        answer = super().read(request)
        return answer | {"count": 0, "committed": 0} if answer["outcome"] == "fails" else answer


class LosesTheLineFeedOfGaps(Oracle):
    """Does not count the LF of an unreadable line."""

    class reading_type(Reading):
        def gap(self, line: Line) -> dict[str, Any]:
            return super().gap(line) | {"length": len(line.data) or 1}


class CallsEveryGapInvalidJson(Oracle):
    """Gives invalid-json as the reason of every gap."""

    class reading_type(Reading):
        def gap(self, line: Line) -> dict[str, Any]:
            return super().gap(line) | {"reason": "invalid-json"}


class ForgetsWhatItDidNotRead(Oracle):
    """Does not report the bytes after the gap at which it stopped."""

    class reading_type(Reading):
        def reached(self, stream: Stream, mode: str | None) -> tuple[list[Line], int]:
            return super().reached(stream, mode)[0], 0


class ReadsAfterTheGap(Oracle):
    """Detects the profile by a record after the gap at which it stopped."""

    class reading_type(Reading):
        def profile(self, stream: Stream, records: list[Line]) -> str | None:
            return stream.profile


class RepairsWhatItReads(Oracle):
    """Cuts the fragment off a stream that it reads."""

    def read(self, request: Message) -> Message:
        """Answer, and change the file."""
        answer = super().read(request)
        if "directory" in request and answer["fragment"]:
            path = os.path.join(request["directory"], "events.jsonl")
            os.truncate(path, os.path.getsize(path) - answer["fragment"])
        return answer


class GivesAllAttempts(Oracle):
    """Gives abandoned steps as the latest attempt."""

    def read(self, request: Message) -> Message:
        """Answer with all records."""
        return super().read(request | {"view": "all"})


class DropsEvaluationsOfNoAttempt(Oracle):
    """Leaves records of other phases out of the latest attempt, too."""

    class reading_type(Reading):
        def is_superseded(self, value: Value | None, kind: str | None, phase: str, limit: int) -> bool:
            step = value.get("step") if value else None
            is_count = step is not None and step.type == "number" and is_integer(step.text)
            late = is_count and step is not None and int(step.text) > limit
            return kind not in {"run_start", "run_resume", "run_end"} and late


class InventsAWallTime(Oracle):
    """Gives the current time for an absent wall_time."""

    def read(self, request: Message) -> Message:
        """Answer with a time of its own."""
        answer = super().read(request)
        now = {"wall_time": {"float": "1780219800.0"}}
        records = [now | record if record.get("type") == "scalar" else record for record in answer["records"]]
        return answer | {"records": records}


class InventsExtra(Oracle):
    """Gives null for an absent extra of an entry."""

    def read(self, request: Message) -> Message:
        """Answer with null."""
        answer = super().read(request)
        if answer["profile"] == "metrics/v1":
            answer["records"] = [{"extra": None} | record for record in answer["records"]]
        return answer


class BelievesTheSidecar(Oracle):
    """Takes the phase of a run from run.json."""

    def read(self, request: Message) -> Message:
        """Answer with the phase in the sidecar."""
        answer = super().read(request)
        if "directory" in request and os.path.exists(os.path.join(request["directory"], "run.json")):
            answer["records"] = [{"phase": "eval"} | record for record in answer["records"]]
        return answer


def _known_kinds() -> frozenset[str]:
    from conformance.oracle import tables

    return frozenset(tables.kinds("toy/v1"))


class TakesThePhaseOfTheLastStart(Oracle):
    """Takes as the phase of records that name none that of the last run_start."""

    class reading_type(Reading):
        def default_phase(self, records: Iterable[Line], profile: str | None) -> str:
            starts = (line for line in reversed(list(records)) if self.kind(line.value, profile) == "run_start")
            return super().default_phase([line for line, _ in zip(starts, range(1), strict=False)], profile)


class _Retells(Oracle):
    """Gives records in other words."""

    def read(self, request: Message) -> Message:
        """Answer with changed records."""
        answer = super().read(request)
        return answer | {"records": self.told(answer["records"])} if "records" in answer else answer

    def told(self, value: Any) -> Any:
        """Return *value* with all that is in it told."""
        if isinstance(value, dict):
            return {key: self.told(item) for key, item in value.items()}
        return [self.told(item) for item in value] if isinstance(value, list) else value


class LosesEmptyKeys(_Retells):
    """Drops members whose key is empty."""

    def told(self, value: Any) -> Any:
        """Return *value* without these members."""
        told = super().told(value)
        return {key: item for key, item in told.items() if key} if isinstance(told, dict) else told


class SortsTexts(_Retells):
    """Gives arrays of texts in alphabetical order, as a set is printed."""

    def told(self, value: Any) -> Any:
        """Return *value* with sorted arrays."""
        told = super().told(value)
        return sorted(told) if isinstance(told, list) and all(isinstance(item, str) for item in told) else told


class NormalizesTexts(_Retells):
    """Gives texts in the composed form of Unicode."""

    def told(self, value: Any) -> Any:
        """Return *value* with composed texts."""
        return unicodedata.normalize("NFC", value) if isinstance(value, str) else super().told(value)


class LosesPrototypes(_Retells):
    """Drops members with the key __proto__, as assignment does in JavaScript."""

    def told(self, value: Any) -> Any:
        """Return *value* without these members."""
        told = super().told(value)
        return {key: item for key, item in told.items() if key != "__proto__"} if isinstance(told, dict) else told


class CountsNoCarriageReturns(Oracle):
    """Gives offsets of gaps as if no carriage return stood before them."""

    def read(self, request: Message) -> Message:
        """Answer with smaller offsets."""
        answer = super().read(request)
        if "stream" in request and answer["outcome"] == "read":
            for gap in answer["gaps"]:
                gap["offset"] -= request["stream"][: gap["offset"]].count(b"\r")
        return answer


def _mutant(make: type[Oracle], proves: str, reason: str, role: str = "reader", where: str = "") -> Mutant:
    return Mutant(make=make, role=role, proves=proves, reason=reason, where=where)


ALL: tuple[Mutant, ...] = (
    _mutant(TakesThePhaseOfTheLastStart, "stream/phase", "records, expected"),
    Mutant(
        make=GuessesTheKind,
        role="checker",
        proves="model/kind-from-tag",
        reason="not found: unknown-kind",
        where="rules/unknown-kind",
    ),
    _mutant(HidesTornTails, "reading/state-torn", "state is complete, expected torn"),
    _mutant(CallsAnyEndComplete, "reading/state-torn", "state is complete, expected torn"),
    _mutant(CallsDamagedTorn, "reading/state-damaged", "state is torn, expected damaged"),
    _mutant(CallsAnInvalidEndTorn, "reading/state-complete", "state is torn, expected complete"),
    _mutant(DropsTheLastRecord, "reading/every-record", "records, expected"),
    _mutant(DropsInvalidRecords, "reading/faulty-records-kept", "records, expected"),
    _mutant(DropsUnknownKinds, "reading/unknown-kept", "records, expected"),
    _mutant(DropsUnknownKeys, "reading/unknown-kept", "is missing"),
    _mutant(LosesEmptyKeys, "reading/unknown-kept", "is missing|has no member"),
    _mutant(LosesPrototypes, "reading/unknown-kept", "is missing|has no member"),
    _mutant(SortsTexts, "reading/unknown-kept", "expected", where="encoding/canonical-key-order"),
    _mutant(NormalizesTexts, "encoding/any-spelling", "expected"),
    _mutant(CountsNoCarriageReturns, "encoding/split-at-line-feed", r"gap \d+ is"),
    _mutant(SalvagesByDefault, "reading/default-mode", "outcome is read, expected fails"),
    _mutant(TakesTornForStrict, "reading/mode-strict", "outcome is read, expected fails"),
    _mutant(SkipsGapsInModeTail, "reading/mode-tail", "outcome is read, expected fails"),
    _mutant(GoesOnInModePrefix, "reading/mode-prefix", "count is"),
    _mutant(StopsInModeSalvage, "reading/mode-salvage", "count is"),
    _mutant(CountsLinesFromZero, "reading/error-located", "error is"),
    _mutant(ForgetsTheReportOfAFailure, "reading/report", "committed is 0"),
    _mutant(LosesTheLineFeedOfGaps, "reading/accounting", "gap_bytes is"),
    _mutant(CallsEveryGapInvalidJson, "reading/gap-reason", "gap 0 is"),
    _mutant(ForgetsWhatItDidNotRead, "reading/stopped", "gap_bytes is"),
    _mutant(ReadsAfterTheGap, "reading/stopped-profile", "profile is"),
    _mutant(RepairsWhatItReads, "reading/no-writes", "the file '.*' changed: "),
    _mutant(GivesAllAttempts, "reading/latest-attempt", "records, expected"),
    _mutant(DropsEvaluationsOfNoAttempt, "reading/latest-attempt", "records, expected"),
    _mutant(InventsAWallTime, "kaun/scalar/defaults", "wall_time is"),
    _mutant(InventsExtra, "metrics/entry/extra-absent", "extra is null"),
    _mutant(BelievesTheSidecar, "bundle/stream-is-truth", "phase was not expected"),
)
