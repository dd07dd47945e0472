"""Mutants of the canonical form: see spec/encoding.md."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.oracle.writing import Writing, number_of
from conformance.tagging import to_f32

if TYPE_CHECKING:
    from collections.abc import Mapping


class WritesKeysTwice(Oracle):
    """Writes the tag a second time at the end."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            line = super().record(record)
            tag = tables.tag_key(self.profile) or "step"
            again = json.dumps({tag: json.loads(line).get(tag)})[1:].encode()
            return line[:-2] + b"," + again + b"\n"


class WritesNoExtra(Oracle):
    """Leaves out an empty extra of an entry."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b',"extra":{}', b"")


class WritesNoWallTime(Oracle):
    """Leaves out wall_time in a scalar."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return re.sub(rb',"wall_time":[^,}]*', b"", super().record(record))


class WritesMinimizeUnasked(Oracle):
    """Writes minimize in a scalar without one."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            is_scalar = record.get("type") == "scalar" and "minimize" not in record
            return super().record({**record, "minimize": False} if is_scalar else record)


class SortsNothing(Oracle):
    """Writes members in the given order."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
            inside = (
                f"{self.string(key)}:{self.value(value, named.get(key, others))}" for key, value in members.items()
            )
            return f"{{{','.join(inside)}}}"


class SortsTheTagOfUnknownKinds(Oracle):
    """Sorts the tag of a record of unknown kind among its other keys."""

    class writing_type(Writing):
        def schema(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
            schema = super().schema(members)
            return schema if "type" in schema else {}


class WritesSpaces(Oracle):
    """Writes a space after colons and commas."""

    class writing_type(Writing):
        def record(self, record: Mapping[str, Any]) -> bytes:
            return super().record(record).replace(b'":', b'": ').replace(b',"', b', "')


class SortsAllKeys(Oracle):
    """Sorts every key, even those that the schema names."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            named = schema.get("properties")
            sorted_schema = schema if named is None else {**schema, "properties": dict(sorted(named.items()))}
            return super().object(members, sorted_schema)


class KeepsTheOrderOfOpenMaps(Oracle):
    """Writes the keys of open maps in the given order."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            if "properties" in schema:
                return super().object(members, schema)
            others = schema.get("additionalProperties", {})
            inside = (f"{self.string(key)}:{self.value(members[key], others)}" for key in reversed(list(members)))
            return f"{{{','.join(inside)}}}"


class SortsByCharacters(Oracle):
    """Sorts keys by UTF-16, as JavaScript and Java do."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            if "properties" in schema:
                return super().object(members, schema)
            others = schema.get("additionalProperties", {})
            keys = sorted(members, key=lambda key: key.encode("utf-16-be"))
            return f"{{{','.join(f'{self.string(key)}:{self.value(members[key], others)}' for key in keys)}}}"


class WritesAbsentAsNull(Oracle):
    """Writes null for members that have no value."""

    class writing_type(Writing):
        def object(self, members: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
            if "loss" in schema.get("properties", {}) and "loss" not in members:
                members = {**members, "loss": None}
            return super().object(members, schema)


class EscapesTooMuch(Oracle):
    """Escapes everything beyond ASCII."""

    class writing_type(Writing):
        def string(self, text: str) -> str:
            return json.dumps(text)


class EscapesSlashes(Oracle):
    """Escapes slashes."""

    class writing_type(Writing):
        def string(self, text: str) -> str:
            return super().string(text).replace("/", "\\/")


class EscapesInCapitals(Oracle):
    """Writes escapes with capital digits."""

    class writing_type(Writing):
        def string(self, text: str) -> str:
            shown = super().string(text)
            for code in range(32):
                shown = shown.replace(f"\\u{code:04x}", f"\\u{code:04X}")
            return shown


class KeepsMinusZeroIntegers(Oracle):
    """Writes the integer zero with the given sign."""

    class writing_type(Writing):
        def number(self, tagged: Mapping[str, str], schema: Mapping[str, Any]) -> str:
            return tagged["int"] if tagged.get("int") == "-0" else super().number(tagged, schema)


class WritesWholeFloatsAsIntegers(Oracle):
    """Writes whole numbers without a fraction, as JavaScript does."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            return super().binary64(number).removesuffix(".0")


class PrintsSeventeenDigits(Oracle):
    """Prints numbers with seventeen digits."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            text = f"{number:.17g}"
            return text if "." in text or "e" in text else f"{text}.0"


class TriesPrecisions(Oracle):
    """Prints with growing precision until the text reads back, which misses some powers of two."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            shortest = super().binary64(number)
            tried = next(f"{number:.{digits}e}" for digits in range(17) if float(f"{number:.{digits}e}") == number)
            return (
                shortest if float(tried) == float(shortest) and len(_digits(tried)) <= len(_digits(shortest)) else tried
            )


class WritesPlusInExponents(Oracle):
    """Writes exponents as C does: with a sign and two digits."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            return repr(number)


class SwitchesAtTwentyOne(Oracle):
    """Writes plain decimals up to 10 to the power of 21, as JavaScript does."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            is_plain = 1e16 <= abs(number) < 1e21 and number.is_integer()
            return f"{int(number)}.0" if is_plain else super().binary64(number)


class LosesTheSignOfZero(Oracle):
    """Writes minus zero as zero."""

    class writing_type(Writing):
        def binary64(self, number: float) -> str:
            return super().binary64(number + 0.0)


class WidensF32(Oracle):
    """Writes binary32 numbers with the digits of their binary64 value."""

    class writing_type(Writing):
        def binary32(self, number: float) -> str:
            return self.binary64(to_f32(number))


class BreaksTiesUpwards(Oracle):
    """Writes the odd one of two equally close binary32 texts, as rounding away from zero does."""

    class writing_type(Writing):
        def binary32(self, number: float) -> str:
            text = super().binary32(number)
            longer = f"{to_f32(number):.{len(_digits(text))}e}"
            is_tie = _digits(longer).endswith("5") and float(longer) == to_f32(number)
            return f"{text[:-1]}{int(text[-1]) + 1}" if is_tie and "." in text and "e" not in text else text


class TakesTheDigitsOfBinary32Alone(Oracle):
    """Writes binary32 digits that read back directly, but not by way of binary64."""

    class writing_type(Writing):
        def binary32(self, number: float) -> str:
            text = super().binary32(number)
            alone = {"7.038531e-26": "7.0385313e-26", "7.0385307e-26": "7.038531e-26"}
            return text[: -len(text.lstrip("-"))] + alone.get(text.lstrip("-"), text.lstrip("-"))


class KeepsBinary64InF32(Oracle):
    """Does not round numbers of a binary32 field."""

    class writing_type(Writing):
        def number(self, tagged: Mapping[str, str], schema: Mapping[str, Any]) -> str:
            if schema.get("x-width") == 32 and "float" in tagged and number_of(tagged) - number_of(tagged) == 0:
                return self.binary64(number_of(tagged))
            return super().number(tagged, schema)


def _digits(text: str) -> str:
    return "".join(c for c in text.partition("e")[0] if c.isdigit()).strip("0")


def _mutant(make: type[Oracle], proves: str, reason: str, where: str = "") -> Mutant:
    return Mutant(make=make, role="canonical-writer", proves=proves, reason=reason, where=where)


ALL: tuple[Mutant, ...] = (
    _mutant(WritesKeysTwice, "encoding/unique-keys", "wrote", "encoding/canonical-key-order"),
    _mutant(WritesNoExtra, "metrics/entry/extra-written", "wrote"),
    _mutant(WritesMinimizeUnasked, "kaun/scalar/minimize-written", "wrote"),
    _mutant(WritesNoWallTime, "kaun/scalar/written", "wrote"),
    _mutant(SortsNothing, "encoding/canonical-key-order", "wrote"),
    _mutant(WritesSpaces, "encoding/canonical-no-space", "wrote"),
    _mutant(SortsAllKeys, "encoding/canonical-key-order", "wrote"),
    _mutant(SortsTheTagOfUnknownKinds, "encoding/canonical-key-order", "wrote"),
    _mutant(KeepsTheOrderOfOpenMaps, "encoding/canonical-open-maps", "wrote"),
    _mutant(SortsByCharacters, "encoding/canonical-open-maps", "wrote"),
    _mutant(WritesAbsentAsNull, "encoding/canonical-absent", "wrote"),
    _mutant(EscapesTooMuch, "encoding/canonical-strings", "wrote"),
    _mutant(EscapesSlashes, "encoding/canonical-strings", "wrote"),
    _mutant(EscapesInCapitals, "encoding/canonical-strings", "wrote"),
    _mutant(KeepsMinusZeroIntegers, "encoding/canonical-integers", "wrote"),
    _mutant(WritesWholeFloatsAsIntegers, "encoding/canonical-number-fields", "wrote"),
    _mutant(PrintsSeventeenDigits, "encoding/canonical-digits", "wrote"),
    _mutant(TriesPrecisions, "encoding/canonical-digits", "wrote"),
    _mutant(WritesPlusInExponents, "encoding/canonical-layout", "wrote"),
    _mutant(SwitchesAtTwentyOne, "encoding/canonical-layout", "wrote"),
    _mutant(LosesTheSignOfZero, "encoding/canonical-layout", "wrote", "encoding/canonical-number-fields"),
    _mutant(BreaksTiesUpwards, "encoding/canonical-binary32", "wrote"),
    _mutant(KeepsBinary64InF32, "encoding/non-finite-null", "refused|wrote", "encoding/canonical-open-maps"),
    _mutant(TakesTheDigitsOfBinary32Alone, "encoding/canonical-binary32", "wrote"),
    _mutant(WidensF32, "encoding/canonical-binary32", "wrote"),
)
