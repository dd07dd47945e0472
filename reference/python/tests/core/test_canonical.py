"""The canonical form: order, numbers, strings, and values of other libraries."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError, encode
from toyspec.core.format.line_validation import validate
from toyspec.core.generated import kaun_v1, metrics_v1, toy_v1
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.limits import MAX_DEPTH, MAX_LINE_BYTES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class ArrayScalar:
    """A scalar of an array library; it counts how often it is read."""

    ndim = 0

    def __init__(self, value: Any) -> None:
        self.value = value
        self.reads = 0

    def item(self) -> Any:
        """Return the value."""
        self.reads += 1
        return self.value

    tolist = item

    def __float__(self) -> float:
        self.reads += 1
        return float(self.value)


class Array:
    """An array of an array library."""

    ndim = 1

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def tolist(self) -> list[Any]:
        """Return the items."""
        return self.items

    def item(self) -> Any:
        """Refuse, as libraries do for arrays of more than one element."""
        raise ValueError("can only convert an array of size 1 to a Python scalar")


class Float64(float):
    """A subclass of float, as numpy has one."""


def step(**members: Any) -> dict[str, Any]:
    """Return a step event."""
    return {"kind": "step", "t": 0.5, "step": 1, **members}


def sorted_at_every_level(value: Any) -> bool:
    """Return whether every object in *value* has its keys in the order of their UTF-8 bytes."""
    if isinstance(value, dict):
        keys = [key.encode() for key in value]
        return keys == sorted(keys) and all(map(sorted_at_every_level, value.values()))
    return not isinstance(value, list) or all(map(sorted_at_every_level, value))


@pytest.mark.parametrize(("profile", "kind"), [(p, k) for p, kinds in FIELDS.items() for k in kinds])
def test_keys_are_in_schema_order(profile: Any, kind: str) -> None:
    """Whatever order the members are given in, they are written in the order of the schema."""
    samples: dict[Any, Any] = {"string": "x", "number": 1, "binary32": 1, "integer": 1, "boolean": True, "open": {}}
    fields = FIELDS[profile][kind]
    members = {key: samples.get(field) if isinstance(field, str) else None for key, field in reversed(fields.items())}
    line = encode(members | {"zz": 1, "aa": 2}, profile=profile, kind=kind)
    assert [*fields, "aa", "zz"] == list(msgspec.json.decode(line))


@pytest.mark.parametrize("module", [toy_v1, metrics_v1, kaun_v1])
def test_structs_and_mappings_are_written_alike(module: Any) -> None:
    """A Struct gives the bytes that the mapping of its members gives."""
    values: dict[str, Any] = {"schema": "toy/v1", "t": 1.5, "run_id": "r", "step": 3, "loss": math.nan, "value": 0.1}
    for struct_type in vars(module).values():
        if not (isinstance(struct_type, type) and issubclass(struct_type, msgspec.Struct)):
            continue
        config = struct_type.__struct_config__
        kind = config.tag or {"MetricsEntry": "entry", "RunManifest": "run"}.get(struct_type.__name__)
        profile: Any = {toy_v1: "toy/v1", metrics_v1: "metrics/v1", kaun_v1: "kaun/v1"}[module]
        if kind is None:
            continue
        fields = FIELDS[profile][str(kind)]
        members = {name: values.get(name) for name in struct_type.__struct_fields__ if fields[name] != "boolean"}
        tag = {str(config.tag_field): kind} if config.tag else {}
        event = struct_type(**members)
        required = {field.name for field in msgspec.structs.fields(struct_type) if field.required}
        members = {name: value for name, value in members.items() if value is not None or name in required}
        assert encode(members | tag, profile=profile, kind=str(kind)) == encode(event, profile=profile, kind=str(kind))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, b"1.0"),
        (0, b"0.0"),
        (-0.0, b"-0.0"),
        (2**53, b"9007199254740992.0"),
        (10**400, b"null"),
        (math.nan, b"null"),
        (-math.inf, b"null"),
        (None, b"null"),
        (Float64(0.5), b"0.5"),
        (Float64("nan"), b"null"),
        (ArrayScalar(0.1), b"0.1"),
        (ArrayScalar(3), b"3.0"),
        (Decimal("0.25"), b"0.25"),
        (Fraction(1, 4), b"0.25"),
        (Decimal("1e999"), b"null"),
    ],
)
def test_a_number_field_gets_float_text(value: Any, text: bytes) -> None:
    """Integers, scalars of libraries and non-finite values in a number field become float text or null."""
    assert b'{"kind":"step","t":0.5,"step":1,"loss":%s}' % text == encode(step(loss=value))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"loss": "0.5"}, "/loss must be a number, got '0.5'"),
        ({"loss": True}, "/loss must be a number, got True"),
        ({"loss": Array([1, 2])}, "/loss must be a number, got Array"),
        ({"step": 1.0}, "/step must be an integer, got 1.0"),
        ({"step": True}, "/step must be an integer, got True"),
        ({"step": 10**400}, "/step must be an integer within binary64, got 1000"),
        ({"phase": 3}, "/phase must be a string, got 3"),
        ({"extra": [1]}, "/extra must be an object, got list"),
        ({"extra": {"a": "x"}}, "/extra/a must be a number, got 'x'"),
        ({"other": object()}, "/other must be a value that JSON can hold, got object"),
        ({"other": {"a": [b"bytes", object()]}}, "/other/a/1 must be a value that JSON can hold, got object"),
        ({(1, 2): 1}, "the event must be an object with keys that are strings, got tuple"),
        ({"kind": 7}, "/kind must be a string, got 7"),
    ],
)
def test_a_member_that_its_field_cannot_hold_is_named(members: dict[Any, Any], message: str) -> None:
    """A value of the wrong type raises, with the pointer and the value."""
    with pytest.raises(InvalidEventError) as caught:
        encode(step() | members)
    assert str(caught.value).startswith(message)


def test_shape_of_nested_fields_is_checked() -> None:
    """Objects and arrays of the schema accept Structs, mappings, sequences and arrays of libraries, nothing else."""
    tap = {"kind": "tap", "t": 0, "step": 1, "region": "mlp", "shape": (2, 3), "gram": Array([[1, 2], [3, 4]])}
    assert b'{"kind":"tap","t":0.0,"step":1,"region":"mlp","shape":[2,3],"gram":[[1.0,2.0],[3.0,4.0]]}' == encode(tap)
    start = {"kind": "run_start", "t": 0, "host": toy_v1.Host(os="linux", name="n"), "git": {"branch": "b", "sha": "s"}}
    expected = b'{"kind":"run_start","t":0.0,"host":{"name":"n","os":"linux"},"git":{"sha":"s","branch":"b"}}'
    assert expected == encode(start)
    with pytest.raises(InvalidEventError, match="/shape must be an array, got '23'"):
        encode(tap | {"shape": "23"})
    with pytest.raises(InvalidEventError, match="/host must be an object, got list"):
        encode(start | {"host": []})
    with pytest.raises(InvalidEventError, match="/config must be an object, got list"):
        encode(start | {"config": [1]})
    with pytest.raises(InvalidEventError, match="/quality_gate/passed must be a boolean, got 1"):
        encode({"kind": "run_end", "t": 0, "reason": "completed", "quality_gate": {"passed": 1}})


def test_a_scalar_of_a_device_is_read_once() -> None:
    """A value is converted exactly once, since reading it may wait for a device."""
    scalars = [ArrayScalar(1.0), ArrayScalar(2.0), ArrayScalar(3)]
    encode(step(loss=scalars[0], extra={"a": scalars[1]}, other=scalars[2]))
    assert [1, 1, 1] == [scalar.reads for scalar in scalars]


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    """Text that UTF-8 cannot hold does not raise, in values, keys and Structs."""
    assert b'{"kind":"note","t":0.0,"text":"a\xef\xbf\xbdb"}' == encode(toy_v1.Note(t=0.0, text="a\ud800b"))
    assert b'{"kind":"note","t":0.0,"text":"\xf0\x9f\x98\x80"}' == encode(toy_v1.Note(t=0.0, text="\ud83d\ude00"))
    assert b'{"kind":"x","k\xef\xbf\xbd":"\xef\xbf\xbd"}' == encode({"kind": "x", "k\udfff": "\udc00"})


def test_an_unknown_kind_begins_with_its_tag() -> None:
    """Of a kind that is not known the tag alone has a place; all other keys are sorted."""
    event = {"zeta": 1, "alpha": {"b": 1, "a": 2.0}, "step": 4, "t": 2.0, "phase": "eval", "kind": "gpu_temp"}
    expected = b'{"kind":"gpu_temp","alpha":{"a":2.0,"b":1},"phase":"eval","step":4,"t":2.0,"zeta":1}'
    assert expected == encode(event)


def test_a_struct_of_ones_own_is_an_event() -> None:
    """A Struct that toyspec does not know is written by its members and tag."""

    class GpuTemp(msgspec.Struct, tag_field="kind", tag="gpu_temp"):
        celsius: float
        t: float
        note: str | msgspec.UnsetType = msgspec.UNSET

    assert b'{"kind":"gpu_temp","celsius":70.0,"t":0.5}' == encode(GpuTemp(celsius=70.0, t=0.5))


def test_binary32_fields_have_their_shortest_text() -> None:
    """A metrics entry holds binary32 values with their own shortest digits."""
    entry = metrics_v1.MetricsEntry(
        step=1, wall_time_ms=0.1, loss=0.1, grad_norm=1e300, throughput_samples_per_sec=16777217.0, extra={"b": 1 / 3}
    )
    expected = (
        b'{"step":1,"wall_time_ms":0.1,"loss":0.1,"grad_norm":null,'
        b'"throughput_samples_per_sec":16777216.0,"extra":{"b":0.33333334}}'
    )
    assert expected == encode(entry, profile="metrics/v1")


def nested(depth: int) -> Any:
    """Return *depth* objects and arrays inside one another, by turns."""
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def test_depth_is_limited_exactly() -> None:
    """A record at the limit is written and is readable; one level more is refused."""
    line = encode({"kind": "x", "deep": nested(MAX_DEPTH - 1)})
    assert validate(line, first=True).value
    with pytest.raises(RecordRefusedError, match="nested deeper than 64") as caught:
        encode({"kind": "x", "deep": nested(MAX_DEPTH)})
    assert "nested-too-deep" == caught.value.rule


def test_a_cycle_is_refused() -> None:
    """Settings that hold themselves end as too deep, not in a crash."""
    loop: dict[str, Any] = {}
    loop["loop"] = [loop]
    with pytest.raises(RecordRefusedError):
        encode({"kind": "run_start", "t": 0, "config": loop})


def test_length_is_limited_exactly() -> None:
    """A record of as many bytes as a line may have is written; one byte more is refused."""
    room = MAX_LINE_BYTES - len(encode(toy_v1.Note(t=0.0, text="")))
    assert MAX_LINE_BYTES == len(encode(toy_v1.Note(t=0.0, text="x" * room)))
    with pytest.raises(RecordRefusedError, match="16777217 bytes") as caught:
        encode(toy_v1.Note(t=0.0, text="x" * (room + 1)))
    assert "line-too-long" == caught.value.rule


def bits(value: Any) -> Any:
    """Return *value* with every float as its bits, and what is not finite as None."""
    if isinstance(value, float):
        return struct.pack("<d", value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: bits(member) for key, member in value.items()}
    return [bits(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_open_map_reads_back_bit_for_bit(config: dict[str, Any]) -> None:
    """What is written is readable, reads back equal to the bit, and is sorted at every level."""
    line = encode({"kind": "run_start", "t": 0.0, "config": config})
    verdict = validate(line, first=True)
    assert ("readable", []) == (verdict.status, verdict.findings)
    found = msgspec.json.decode(line)["config"]
    assert bits(config) == bits(found)
    assert sorted_at_every_level(found)
