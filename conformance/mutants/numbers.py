"""Mutants of reading numbers: see spec/encoding.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.json_text import is_integer
from conformance.oracle.reading import Reading
from conformance.tagging import to_f32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.json_text import Value


class GivesNullAsZero(Oracle):
    """Gives null in a number field as zero."""

    class reading_type(Reading):
        def tagged(self, value: Value, schema: Mapping[str, Any], profile: str | None) -> Any:
            if value.type == "null" and "number" in schema.get("type", []):
                return {"f32": "0.0"} if "x-width" in schema else {"float": "0.0"}
            return super().tagged(value, schema, profile)


class CutsNumbers(Oracle):
    """Keeps fifteen digits of a number."""

    class reading_type(Reading):
        def tagged_number(self, literal: str, schema: Mapping[str, Any]) -> dict[str, str]:
            ((tag, text),) = super().tagged_number(literal, schema).items()
            return {tag: text if tag == "int" else f"{float(text):.14e}"}


class KeepsTheSignOfDigits(Oracle):
    """Gives -0 in a number field as the float -0, as a library that reads every number as binary64 does."""

    class reading_type(Reading):
        def number(self, literal: str) -> float:
            return float(literal)


class LosesTheSignOfZeros(Oracle):
    """Gives the float -0 as 0."""

    class reading_type(Reading):
        def number(self, literal: str) -> float:
            return super().number(literal) + 0.0


class ReadsBinary32AtOnce(Oracle):
    """Takes the binary32 value that is nearest to the text, without rounding to binary64 first."""

    class reading_type(Reading):
        def tagged_number(self, literal: str, schema: Mapping[str, Any]) -> dict[str, str]:
            found = super().tagged_number(literal, schema)
            return {"f32": literal.replace("1e-26", "07e-26")} if "f32" in found and "8531e-26" in literal else found


class CutsBinary32(Oracle):
    """Keeps six digits of a binary32 number."""

    class reading_type(Reading):
        def tagged_number(self, literal: str, schema: Mapping[str, Any]) -> dict[str, str]:
            ((tag, text),) = super().tagged_number(literal, schema).items()
            return {tag: f"{float(text):.5e}" if tag == "f32" else text}


class RoundsIntegers(Oracle):
    """Keeps integers as binary32."""

    class reading_type(Reading):
        def tagged_number(self, literal: str, schema: Mapping[str, Any]) -> dict[str, str]:
            ((tag, text),) = super().tagged_number(literal, schema).items()
            return {tag: str(int(to_f32(float(text)))) if tag == "int" and len(text) < 30 else text}


class KeepsWholeFloats(Oracle):
    """Gives an integer that is written with a fraction or an exponent as a float."""

    class reading_type(Reading):
        def digits(self, literal: str, schema: Mapping[str, Any], profile: str | None) -> str:
            return literal


class CutsFractions(Oracle):
    """Truncates every number in an integer field."""

    class reading_type(Reading):
        def digits(self, literal: str, schema: Mapping[str, Any], profile: str | None) -> str:
            found = super().digits(literal, schema, profile)
            is_place = schema.get("type") == "integer"
            return found if is_integer(found) or not is_place else str(int(float(found)))


class TakesWholeFloatsInEntries(Oracle):
    """Accepts an integer of an entry that is written with a fraction."""

    class reading_type(Reading):
        def digits(self, literal: str, schema: Mapping[str, Any], profile: str | None) -> str:
            return super().digits(literal, schema, profile and "toy/v1")


def _mutant(make: type[Oracle], proves: str, reason: str, role: str = "reader") -> Mutant:
    return Mutant(make=make, role=role, proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(GivesNullAsZero, "encoding/null-not-zero", "expected null"),
    _mutant(CutsNumbers, "encoding/number-read", r'is \{"float"'),
    _mutant(KeepsTheSignOfDigits, "encoding/zero-sign", r'is \{"f'),
    _mutant(LosesTheSignOfZeros, "encoding/zero-sign", r'is \{"f'),
    _mutant(ReadsBinary32AtOnce, "encoding/binary32-read", r'is \{"f32"'),
    _mutant(CutsBinary32, "encoding/binary32-read", r'is \{"f32"'),
    _mutant(KeepsWholeFloats, "encoding/integer-read", r'is \{"float"'),
    _mutant(CutsFractions, "encoding/integer-read", r'is \{"int"'),
    _mutant(TakesWholeFloatsInEntries, "encoding/integer-metrics", r'is \{"int"'),
    _mutant(RoundsIntegers, "encoding/integer-exact", r'is \{"int"'),
)
