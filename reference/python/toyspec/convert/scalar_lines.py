"""Writes many ``scalars`` records of one value each at once, in canonical form."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_encode = msgspec.json.encode
_encode_lines = msgspec.json.Encoder().encode_lines
# What is not the same in every writer of JSON.
_ODD = re.compile(r"[^ !#-\[\]-~]")
_LARGEST_STEP = 2**53
_MEMBERS = {"phase": str, "t": float, "step": int, "epoch": float}


def line_of_scalars(t: float, step: int | None, values: dict[str, float | None]) -> bytes:
    """Return the line of one record; *t* and *values* are floats, and finite or None."""
    names = sorted(values)
    members = {name: values[name] for name in names}
    if step is None:
        return _encode({"kind": "scalars", "t": t, "values": members}) + b"\n"
    return _encode({"kind": "scalars", "t": t, "step": step, "values": members}) + b"\n"


def lines_of_values(
    times: Sequence[float], steps: Sequence[int], names: Sequence[str], values: Sequence[float]
) -> bytes:
    """Return one line for each place in the columns, each with one value; times and values are floats, and finite."""
    members = zip(times, steps, names, values, strict=True)
    return _encode_lines(
        [{"kind": "scalars", "t": t, "step": step, "values": {name: value}} for t, step, name, value in members]
    )


def line_of_record(record: dict[str, Any]) -> bytes | None:
    """Return the line of *record*, a ``scalars`` record with its members in canonical order, values last and finite.

    None if a name or the step needs the canonical writer.
    """
    values = record["values"]
    names = sorted(values)
    if _ODD.search("".join(names)) or record.get("step", 0) > _LARGEST_STEP:
        return None
    record["values"] = {name: values[name] for name in names}
    return _encode(record) + b"\n"


def lines_of_records(members: dict[str, Sequence[Any]], values: dict[str, Sequence[float]]) -> bytes:
    """Return one line for each place in the columns: *members* are phase, t, step and epoch, and *values* the metrics.

    Numbers but those of steps are floats, and finite. Names have no quotes, backslashes or control characters.
    """
    present, names = tuple(name for name in _MEMBERS if name in members), tuple(sorted(values))
    record, metrics = _types(present, names)
    made = map(metrics, *(values[name] for name in names))
    return _encode_lines(map(record, *(members[name] for name in present), made))


@lru_cache(maxsize=64)
def _types(members: tuple[str, ...], names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    fields = [(f"m{index}", float, msgspec.field(name=name)) for index, name in enumerate(names)]
    metrics = msgspec.defstruct("Metrics", fields, gc=False)
    own = [*((name, _MEMBERS[name]) for name in members), ("values", metrics)]
    return msgspec.defstruct("Scalars", own, tag_field="kind", tag="scalars", gc=False), metrics
