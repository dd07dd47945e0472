"""Tests interoperability: every reader reads the output of every writer, and canonical bytes are equal."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.adapters import AdapterError
from conformance.comparing import record_differences
from conformance.corpus import selected
from conformance.format_facts import BINARY32_LIMIT
from conformance.probes.expected import is_own, with_defaults
from conformance.probes.writers import is_clean
from conformance.running import Channel
from conformance.tagging import f32_text, float_text, to_f32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.adapters import Adapter
    from conformance.cases import Case

BATCH = 100
_SHOWN = 10
# A binary32 number with this many digits always reads back.
_F32_DIGITS = range(1, 10)


@dataclass
class Interop:
    """What readers found in the output of writers."""

    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of streams that were read correctly, by writer and reader."""
    errors: list[str] = field(default_factory=list)
    streams: int = 0
    """Number of distinct streams."""


def read_one_another(adapters: Sequence[Adapter]) -> Interop:
    """Let every reader among *adapters* read what every writer writes for the clean cases of the corpus."""
    found = Interop()
    cases = [case for case in selected(()) if "#" not in case.name and is_clean(case)]
    channels = {str(adapter.hello["name"]): Channel(adapter) for adapter in adapters}
    hellos = {str(adapter.hello["name"]): adapter.hello for adapter in adapters}
    try:
        for case in cases:
            try:
                _read_one(case, channels, hellos, found)
            except AdapterError as error:
                found.errors.append(f"{case.name}: {error}")
    finally:
        for channel in channels.values():
            channel.close()
    return found


def _read_one(
    case: Case, channels: Mapping[str, Channel], hellos: Mapping[str, Mapping[str, Any]], found: Interop
) -> None:
    records = with_defaults(case.records, case.profile)
    is_plain = not any(is_own(record, case.profile or "") for record in records)
    written: dict[bytes, list[str]] = {}
    for name, hello in hellos.items():
        if "writer" not in hello["roles"] or not (is_plain or "own_kinds" in hello.get("capabilities", [])):
            continue
        answer = channels[name].ask({"role": "writer", "profile": case.profile, "records": records})
        if answer.get("outcome") == "written":
            written.setdefault(answer["stream"], []).append(name)
        elif "untestable" not in answer:
            found.errors.append(f"{name} does not write {case.name}: {answer.get('reason') or answer.get('error')}")
    found.streams += len(written)
    for stream, writers in written.items():
        for reader in (name for name, hello in hellos.items() if "reader" in hello["roles"]):
            request = {"role": "reader", "stream": stream, "mode": "salvage", "profile": case.profile}
            answer = channels[reader].ask(request)
            differences = list(_differences(records, answer.get("records", []), case.profile))
            for writer in writers:
                found.pairs[writer, reader] = found.pairs.get((writer, reader), 0) + (not differences)
            if differences:
                found.errors.append(f"{reader} reads {case.name} as {writers[0]} writes it: {differences[0]}")


def _differences(expected: list[Any], given: list[Any], profile: str | None) -> Iterator[str]:
    actual = with_defaults(given, profile)
    if len(actual) == len(expected) + 1 and actual[-1].get("kind") == "run_end":
        actual.pop()  # a writer ends the run when it is closed
    for one, other in zip(expected, actual, strict=False):
        if "t" not in one and "kind" in other:
            other.pop("t", None)
    yield from record_differences(expected, actual)


def interop_lines(found: Interop) -> Iterator[str]:
    """Yield a table in Markdown of writers by readers, and the first errors."""
    writers = sorted({writer for writer, _ in found.pairs})
    readers = sorted({reader for _, reader in found.pairs})
    yield f"| written by | {' | '.join(f'read by {reader}' for reader in readers)} |"
    yield f"|---|{'---|' * len(readers)}"
    for writer in writers:
        yield f"| {writer} | {' | '.join(str(found.pairs.get((writer, reader), 0)) for reader in readers)} |"
    yield from found.errors[:_SHOWN]
    if len(found.errors) > _SHOWN:
        yield f"and {len(found.errors) - _SHOWN} more"


def compare_numbers(adapters: Sequence[Adapter], count: int) -> tuple[dict[str, int], list[str]]:
    """Return how many numbers each canonical writer spelled correctly, and its first errors.

    *count* numbers of each width are drawn; all bit patterns of finite numbers are equally likely.
    """
    right: dict[str, int] = {}
    errors: list[str] = []
    writers = [adapter for adapter in adapters if "canonical-writer" in adapter.hello["roles"]]
    for adapter in writers:
        name = str(adapter.hello["name"])
        right[name] = 0
        channel = Channel(adapter)
        try:
            for request, expected in _batches(count):
                stream = _stream_of(channel, request)
                if stream == expected:
                    right[name] += BATCH
                elif sum(error.startswith(f"{name}:") for error in errors) < _SHOWN:
                    errors.append(f"{name}: {_first_difference(stream, expected)}")
        finally:
            channel.close()
    return right, errors


def _stream_of(channel: Channel, request: Mapping[str, Any]) -> bytes:
    try:
        stream: bytes = channel.ask(request).get("stream", b"")
    except AdapterError:
        return b""  # an adapter that crashes has written none of the numbers
    return stream


def _batches(count: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    # A fixed seed: every run draws the same numbers, so an error can be reproduced.
    source = random.Random(20260531)  # noqa: S311  (not used for security)
    for _ in range(-(-count // BATCH)):
        yield _doubles([_finite(source, "<d", 8) for _ in range(BATCH)])
        yield _floats([_finite(source, "<f", 4) for _ in range(BATCH)])


def _doubles(numbers: list[float]) -> tuple[dict[str, Any], bytes]:
    tagged = [{"float": repr(number)} for number in numbers]
    start = {"kind": "run_start", "schema": "toy/v1", "t": {"float": "0.0"}, "run_id": "numbers"}
    tap = {"kind": "tap", "t": {"float": "1.0"}, "step": {"int": "1"}, "region": "x", "per_head_l2": tagged}
    expected = (
        '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"numbers"}\n'
        '{"kind":"tap","t":1.0,"step":1,"region":"x","per_head_l2":[' + ",".join(map(float_text, numbers)) + "]}\n"
    )
    return {"role": "canonical-writer", "profile": "toy/v1", "records": [start, tap]}, expected.encode()


def _floats(numbers: list[float]) -> tuple[dict[str, Any], bytes]:
    keys = [f"n{index:02}" for index in range(len(numbers))]
    entry: dict[str, Any] = {
        "step": {"int": "1"},
        "wall_time_ms": {"float": "1.0"},
        "loss": {"f32": "1.0"},
        "grad_norm": {"f32": "1.0"},
        "throughput_samples_per_sec": {"f32": "1.0"},
        "extra": {key: {"f32": repr(number)} for key, number in zip(keys, numbers, strict=True)},
    }
    inside = ",".join(f'"{key}":{_quick_f32(number)}' for key, number in zip(keys, numbers, strict=True))
    expected = (
        '{"step":1,"wall_time_ms":1.0,"loss":1.0,"grad_norm":1.0,"throughput_samples_per_sec":1.0,"extra":{' + inside
    )
    return {"role": "canonical-writer", "profile": "metrics/v1", "records": [entry]}, f"{expected}}}}}\n".encode()


def _quick_f32(number: float) -> str:
    """Return the same as ``f32_text``, but use its slow method only for powers of two, which need it."""
    mantissa = struct.unpack("<I", struct.pack("<f", number))[0] & 0x7FFFFF
    if mantissa == 0:
        return f32_text(number)
    for digits in _F32_DIGITS:
        text = f"{number:.{digits - 1}e}"
        # The nearest decimal of few digits can lie beyond the largest number.
        if abs(float(text)) < BINARY32_LIMIT and to_f32(float(text)) == number:
            return float_text(float(text))
    raise AssertionError(f"{number!r} cannot be written with nine digits")


def _finite(source: random.Random, form: str, size: int) -> float:
    while True:
        number: float = struct.unpack(form, source.randbytes(size))[0]
        if number - number == 0:
            return number


def _first_difference(actual: bytes, expected: bytes) -> str:
    at = next((i for i, (one, other) in enumerate(zip(actual, expected, strict=False)) if one != other), 0)
    start = max(expected.rfind(b",", 0, at), expected.rfind(b"[", 0, at)) + 1
    return f"wrote {ascii(actual[start : start + 30])[1:]}, expected {ascii(expected[start : start + 30])[1:]}"
