"""Tests interoperability: every reader reads the output of every writer, and canonical bytes are equal."""

from __future__ import annotations

import random
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.adapters import AdapterError
from conformance.comparing import record_differences
from conformance.corpus import selected
from conformance.format_facts import BINARY32_LIMIT
from conformance.probes.expected import is_own, with_defaults
from conformance.probes.question import capabilities_of
from conformance.probes.writers import declared, is_clean
from conformance.running import Channel
from conformance.tagging import f32_text, float_text, to_f32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.adapters import Adapter
    from conformance.cases import Case

BATCH = 100
_SHOWN = 10
# The modes that read a stream of a run which has not ended.
_LENIENT = ("salvage", "tail", "prefix")
# A binary32 number with this many digits always reads back.
_F32_DIGITS = range(1, 10)


@dataclass
class Interop:
    """What readers found in the output of writers."""

    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of streams that were read correctly, by writer and reader."""
    errors: list[str] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    """Number of streams that each writer wrote."""
    streams: int = 0
    """Number of distinct streams."""


def read_one_another(adapters: Sequence[Adapter]) -> Interop:
    """Let every reader among *adapters* read what every writer writes for the clean cases of the corpus.

    An adapter is asked about the profiles that its hello names. Raise AdapterError if two have the same name.
    """
    found = Interop()
    names = Counter(str(adapter.hello["name"]) for adapter in adapters)
    for name, count in names.items():
        if count > 1:
            raise AdapterError(f"{count} adapters have the name {name!r}; give yours another name in its hello")
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
    profile = case.profile or ""
    records = [declared(record) for record in with_defaults(case.records, profile)]
    is_plain = not any(is_own(record, profile) for record in records)
    written: dict[bytes, list[str]] = {}
    for name, hello in hellos.items():
        if not _takes(hello, "writer", profile) or not (is_plain or "own_kinds" in capabilities_of(hello, "writer")):
            continue
        answer = _answer(name, channels, {"role": "writer", "profile": profile, "records": records})
        if answer.get("outcome") == "written":
            written.setdefault(answer["stream"], []).append(name)
            found.written[name] = found.written.get(name, 0) + 1
        elif "untestable" not in answer:
            found.errors.append(f"{name} does not write {case.name}: {answer.get('reason') or answer.get('error')}")
    found.streams += len(written)
    for stream, writers in written.items():
        for reader, hello in hellos.items():
            mode = next((mode for mode in _LENIENT if mode in hello.get("modes", _LENIENT)), None)
            if mode is None or not _takes(hello, "reader", profile):
                continue
            request = {"role": "reader", "stream": stream, "mode": mode, "profile": profile}
            answer = _answer(reader, channels, request)
            differences = list(_differences(records, answer.get("records", []), profile))
            for writer in writers:
                found.pairs[writer, reader] = found.pairs.get((writer, reader), 0) + (not differences)
            if differences:
                found.errors.append(f"{reader} reads {case.name} as {writers[0]} writes it: {differences[0]}")


def _takes(hello: Mapping[str, Any], role: str, profile: str) -> bool:
    return role in hello["roles"] and profile in hello["profiles"]


def _answer(name: str, channels: Mapping[str, Channel], request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return channels[name].ask(request)
    except AdapterError as error:
        raise AdapterError(f"{name} as {request['role']}: {error}") from None


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
    writers = sorted(found.written)
    readers = sorted({reader for _, reader in found.pairs})
    yield f"| written by | streams | {' | '.join(f'read by {reader}' for reader in readers)} |"
    yield f"|---|{'---|' * (len(readers) + 1)}"
    for writer in writers:
        cells = (str(found.pairs.get((writer, reader), "-")) for reader in readers)
        yield f"| {writer} | {found.written[writer]} | {' | '.join(cells)} |"
    yield ""
    yield "streams  clean cases of the corpus that the writer wrote"
    yield "read by  those that the reader read unchanged; -: it reads none of these profiles"
    yield from found.errors[:_SHOWN]
    if len(found.errors) > _SHOWN:
        yield f"and {len(found.errors) - _SHOWN} more"


def compare_numbers(adapters: Sequence[Adapter], count: int) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Return how many numbers each canonical writer spelled correctly and how many it was asked, and the first errors.

    *count* numbers of each width are drawn; all bit patterns of finite numbers are equally likely.
    """
    scores: dict[str, tuple[int, int]] = {}
    errors: list[str] = []
    writers = [adapter for adapter in adapters if "canonical-writer" in adapter.hello["roles"]]
    for adapter in writers:
        name = str(adapter.hello["name"])
        right = asked = 0
        channel = Channel(adapter)
        try:
            for request, expected in _batches(count):
                if request["profile"] not in adapter.hello["profiles"]:
                    continue
                asked += BATCH
                error = _misspelled(channel, request, expected)
                right += 0 if error else BATCH
                if error and sum(shown.startswith(f"{name}:") for shown in errors) < _SHOWN:
                    errors.append(f"{name}: {error}")
        finally:
            channel.close()
        scores[name] = right, asked
    return scores, errors


def _misspelled(channel: Channel, request: Mapping[str, Any], expected: bytes) -> str | None:
    """Return how the answer to *request* differs from *expected*, None if it does not."""
    try:
        answer = channel.ask(request)
    except AdapterError as error:
        return str(error)
    if "stream" not in answer:
        return f"wrote nothing: {answer.get('reason') or answer.get('error') or answer.get('untestable')}"
    return None if answer["stream"] == expected else _first_difference(answer["stream"], expected)


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
