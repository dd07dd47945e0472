"""Mutants of writing: see spec/encoding.md and spec/writing.md."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.writing import RefusedError, Writing, number_of, unwrapped
from conformance.tagging import TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BEGIN = time.time()


class WritesLatin1(Oracle):
    """Encodes records in Latin-1."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).decode().encode("latin-1", "replace")


class WritesAMark(Oracle):
    """Begins a stream with a byte order mark."""

    class writing_type(Writing):
        def stream(self, records: Iterable[Any]) -> bytes:
            return b"\xef\xbb\xbf" + super().stream(records)


class WritesNulBytes(Oracle):
    """Writes U+0000 in a string unescaped."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b"\\u0000", b"\0")


class WritesPrettily(Oracle):
    """Spreads a record over several lines."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b"{", b"{\n ", 1)


class WritesNoLineFeedAtTheEnd(Oracle):
    """Writes an LF between records, and none after the last."""

    class writing_type(Writing):
        def stream(self, records: Iterable[Any]) -> bytes:
            return super().stream(records).removesuffix(b"\n")


class WritesCarriageReturns(Oracle):
    """Ends lines in CR LF."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b"\n", b"\r\n")


class WritesAnArray(Oracle):
    """Writes each record inside an array."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return b"[" + super().record(record).replace(b"\n", b"]\n")


class WritesNaN(Oracle):
    """Writes NaN for numbers that are not finite, as the JSON library of Python does."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b"null", b"NaN")


class WritesZeroForNaN(Oracle):
    """Writes 0.0 for numbers that are not finite."""

    class writing_type(Writing):
        def not_finite(self) -> str:
            return "0.0"


class LeavesOutWhatIsNotFinite(Oracle):
    """Leaves out a member that is not finite."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record({key: item for key, item in record.items() if not _is_wild(item)})


class WritesWholeNumbersAsFloats(Oracle):
    """Writes integers with a fraction."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            line = super().record(record)
            step = unwrapped(record).get("step")
            text = step["int"].encode() if isinstance(step, dict) and "int" in step else b"?"
            return line.replace(b'"step":' + text, b'"step":' + text + b".0")


class WritesOverflow(Oracle):
    """Writes a number beyond binary64 for infinity."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b"null", b"1e999")


class DropsOwnKeys(Oracle):
    """Leaves out unknown members."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            named = schema.get("properties")
            kept = members if named is None else {key: item for key, item in members.items() if key in named}
            return super().object(kept, schema)


class WritesAnything(Oracle):
    """Writes invalid records, in any order."""

    class writing_type(Writing):
        def validate(self, line: bytes) -> None:
            pass


class DropsWhatItRefuses(Oracle):
    """Leaves out an invalid record, and answers that it was written."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            try:
                return super().record(record)
            except RefusedError:
                return b""


class _Lax(Writing):
    allowed = ""

    def validate(self, line: bytes) -> None:
        try:
            super().validate(line)
        except RefusedError as error:
            if str(error) != self.allowed:
                raise


class StartsWithAnything(Oracle):
    """Writes a first record of any kind."""

    class writing_type(_Lax):
        allowed = "run-start-missing"


class StartsTwice(Oracle):
    """Writes a second run_start."""

    class writing_type(_Lax):
        allowed = "run-start-repeated"


class WritesAfterTheEnd(Oracle):
    """Writes records after run_end."""

    class writing_type(_Lax):
        allowed = "event-after-run-end"


class StepsBack(Oracle):
    """Writes steps that go backwards."""

    class writing_type(_Lax):
        allowed = "step-goes-backwards"


class BelievesTheClock(Oracle):
    """Writes t from the clock even if the clock jumps back."""

    class writing_type(_Lax):
        allowed = "time-goes-backwards"

        def forward_in_time(self, members: dict[str, Any]) -> dict[str, Any]:
            return members


class LeavesTheTimeToItsCaller(Oracle):
    """Writes wall_time in a scalar only if it is given."""

    class writing_type(Writing):
        def with_always_written(self, members: dict[str, Any]) -> dict[str, Any]:
            return members if members.get("type") == "scalar" else super().with_always_written(members)


class WritesMilliseconds(Oracle):
    """Writes as wall_time milliseconds since the Unix epoch."""

    class writing_type(Writing):
        def with_always_written(self, members: dict[str, Any]) -> dict[str, Any]:
            with_time = super().with_always_written(members)
            is_own_time = with_time.keys() != members.keys() and "wall_time" in with_time
            return {**with_time, "wall_time": {"float": "1780219812500"}} if is_own_time else with_time


class StopsItsClock(Oracle):
    """Writes as wall_time the moment at which the program started."""

    class writing_type(Writing):
        def with_always_written(self, members: dict[str, Any]) -> dict[str, Any]:
            if members.get("type") == "scalar":
                members = {"wall_time": {"float": repr(_BEGIN)}, **members}
            return super().with_always_written(members)


def _is_wild(value: Any) -> bool:
    is_tag = isinstance(value, dict) and len(value) == 1 and TAGS.issuperset(value) and "object" not in value
    return is_tag and number_of(value) - number_of(value) != 0


def _mutant(make: type[Oracle], proves: str, reason: str, where: str = "") -> Mutant:
    return Mutant(make=make, role="writer", proves=proves, reason=reason, where=where)


# Every clean stream shows the defect; these cases have clean streams of every kind.
_ANY = "writing/schema-valid"

ALL: tuple[Mutant, ...] = (
    _mutant(WritesLatin1, "encoding/utf-8", "unreadable line|is '"),
    _mutant(WritesAMark, "encoding/no-byte-order-mark", "byte-order-mark", _ANY),
    _mutant(WritesNulBytes, "encoding/no-nul-bytes", "nul-bytes"),
    _mutant(WritesPrettily, "encoding/one-line-per-record", "unreadable line"),
    _mutant(WritesNoLineFeedAtTheEnd, "encoding/one-line-per-record", "after the last LF"),
    _mutant(WritesCarriageReturns, "encoding/no-carriage-return", "carriage return"),
    _mutant(WritesAnArray, "encoding/json-object", "not-an-object", _ANY),
    _mutant(WritesNaN, "encoding/no-non-finite", "non-finite-number"),
    _mutant(WritesOverflow, "encoding/no-non-finite", "non-finite-number"),
    _mutant(WritesZeroForNaN, "encoding/non-finite-null", "expected null"),
    _mutant(LeavesOutWhatIsNotFinite, "encoding/non-finite-null", "is missing"),
    _mutant(WritesWholeNumbersAsFloats, "encoding/integer-form", "wrote integer-as-float"),
    _mutant(DropsOwnKeys, "writing/own-kinds-and-keys", "is missing", "reading/unknown-kept"),
    _mutant(WritesAnything, "writing/schema-valid", "wrote (missing-key|wrong-type|out-of-range|bad-format)"),
    _mutant(DropsWhatItRefuses, "writing/schema-valid", "answered written, and wrote"),
    _mutant(StartsWithAnything, "stream/run-start-first", "wrote run-start-missing"),
    _mutant(StartsTwice, "stream/run-start-once", "wrote run-start-repeated"),
    _mutant(WritesAfterTheEnd, "stream/run-end-last", "wrote event-after-run-end"),
    _mutant(StepsBack, "stream/steps-forward", "wrote step-goes-backwards"),
    _mutant(BelievesTheClock, "stream/time-forward", "wrote time-goes-backwards"),
    _mutant(LeavesTheTimeToItsCaller, "kaun/scalar/written", "/wall_time is missing"),
    _mutant(StopsItsClock, "kaun/scalar/written", "/wall_time does not change|expected the current time"),
    _mutant(WritesMilliseconds, "kaun/scalar/written", "expected the current time"),
)
