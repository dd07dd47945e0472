"""Hypothesis strategies: records of every kind, right and wrong, and streams made of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from toyspec.core.generated.fields import FIELDS, REQUIRED
from toyspec.core.generated.streams import STREAMS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, 1, -1, 31, 32, 255, 256, 2**32, 2**53 - 1, 2**53, -(2**53)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.5, 1.0, -0.0, 1.001, 1.0011, 3.5e38])
    | st.text(max_size=8)
    | st.sampled_from(["train", "f16", "completed", "toy/v1", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "a/b"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

_SAMPLES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "toy/v1": {
        "schema": st.just("toy/v1"),
        "phase": st.sampled_from(["train", "eval", "decode", "serve"]),
        "run_id": st.just("run"),
        "compare_to": st.just("base"),
        "baseline_run_id": st.just("base"),
        "started_at": st.sampled_from(["2026-05-31T09:30:00Z", "2026-05-31T09:30:00.5+02:00"]),
        "ended_at": st.just("2026-05-31T09:30:00Z"),
        "resumed_at": st.just("2026-05-31T09:30:00Z"),
        "weight_type": st.sampled_from(["f32", "f16", "bf16"]),
        "verdict": st.sampled_from(["ahead", "behind", "par", "abort"]),
        "reason": st.sampled_from(["completed", "interrupted", "aborted", "errored"]),
        "histogram": st.just([1] * 32),
        "sparsity": st.floats(0, 1),
        "cos_to_init": st.floats(-1, 1),
        "exit_code": st.integers(0, 255),
    },
    "metrics/v1": {"step": st.integers(0, 2**32 - 1)},
    "kaun/v1": {"schema_version": st.just(1)},
}


def _valid(name: str, declared: Any, profile: str) -> st.SearchStrategy[Any]:
    if name in _SAMPLES[profile]:
        return _SAMPLES[profile][name]
    if isinstance(declared, tuple):
        constructor, part = declared
        if constructor == "object":
            return st.fixed_dictionaries({key: _valid(key, value, profile) for key, value in part.items()})
        inner = _valid("", part, profile)
        if constructor == "array":
            return st.lists(inner, max_size=3)
        return st.dictionaries(st.text(max_size=4), inner, max_size=3)
    return {
        "integer": st.integers(0, 10**6) | st.integers(0, 10**6).map(float),
        "number": st.floats(0, 1e6),
        "binary32": st.floats(0, 1e6, width=32),
        "string": st.text(max_size=6),
        "boolean": st.booleans(),
        "open": st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    }[declared]


def kinds(profile: str) -> list[str]:
    """Return the kinds of records of *profile*."""
    tag = STREAMS[profile]["tag"]
    return [kind for kind, fields in FIELDS[profile].items() if tag is None or tag in fields]


@st.composite
def valid_records(draw: st.DrawFn, profile: str, kind: str) -> dict[str, Any]:
    """Draw a record of *kind* without findings, with any choice of optional keys."""
    fields = FIELDS[profile][kind]
    tag = STREAMS[profile]["tag"]
    required = REQUIRED[profile][kind]
    record: dict[str, Any] = {}
    for name, declared in fields.items():
        if name == tag and kind in kinds(profile):
            record[name] = kind
        elif name in required or draw(st.booleans()):
            record[name] = draw(_valid(name, declared, profile))
    return record


@st.composite
def records(draw: st.DrawFn, profile: str, kind: str) -> dict[str, Any]:
    """Draw a record of *kind*, often with a defect or two: a key lost, changed or invented."""
    record = draw(valid_records(profile, kind))
    tag = STREAMS[profile]["tag"]
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from([*record, "extra", "bogus"]))
        if key == tag:
            continue
        action = draw(st.sampled_from(["drop", "replace", "inside"]))
        inner = record.get(key)
        if action == "inside" and isinstance(inner, dict):
            inner[draw(st.sampled_from([*inner, "bogus"]))] = draw(JSON)
        elif action == "drop":
            record.pop(key, None)
        else:
            record[key] = draw(JSON)
    return record


@st.composite
def lines(draw: st.DrawFn, profile: str = "toy/v1") -> bytes:
    """Draw one line, LF excluded: mostly a record, canonical or not, sometimes anything."""
    choice = draw(st.integers(0, 11))
    if choice == 0:
        return draw(st.binary(max_size=12)).replace(b"\n", b"")
    if choice == 1:
        return draw(st.sampled_from([b"", b" \t\r", b"[]", b"{}", b'{"kind":"x"}', b"NaN", b'{"a":NaN}', b"\x00"]))
    record = draw(records(profile, draw(st.sampled_from(kinds(profile)))))
    text = json.dumps(
        record, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    data = text.encode("utf-8", "replace")
    if choice == 2:
        data = data[: draw(st.integers(0, len(data)))]
    if choice == 3:
        data = data.replace(b"{", b'{"t":3,', 1)
    return data


@st.composite
def streams(draw: st.DrawFn, profile: str = "toy/v1") -> bytes:
    """Draw a stream: an ordinary beginning, then lines right and wrong, perhaps a fragment."""
    parts = [b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}'] if profile == "toy/v1" else []
    first, count = draw(st.integers(0, 2)), draw(st.integers(0, 6))
    if profile == "toy/v1":
        parts += [b'{"kind":"step","t":%d.5,"step":%d,"loss":1.25}' % (i, first + i) for i in range(count)]
    parts += draw(st.lists(lines(profile), max_size=6))
    if profile == "toy/v1" and draw(st.booleans()):
        parts.append(b'{"kind":"run_end","t":99.0,"reason":"completed","final_step":%d}' % (first + count - 1))
    stream = b"".join(part + b"\n" for part in parts)
    return stream[: len(stream) - draw(st.sampled_from([0, 0, 0, 1, 5]))]
