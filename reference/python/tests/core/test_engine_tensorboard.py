"""An import of TensorBoard's files is the same with both engines: the compiled one writes what is plainly scalars."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec import import_runs
from toyspec.convert.protobuf import double_field, field, float_field, integer_field
from toyspec.convert.tensorboard_files import (
    hparams_event,
    record,
    scalar_event,
    session_event,
    text_event,
    version_event,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("compiled_engine")

START = 1_790_000_000.25
WALLS = st.sampled_from([0.0, 0.5, 1.0, 1e-3, 400 * 86400.0, -5.0, float("nan"), 1e300]).map(START.__add__)
STEPS = st.sampled_from([0, 1, 7, 128, 2**31, 2**53, 2**53 + 1, 2**63 - 1])
TAGS = st.sampled_from(["loss", "train/lr", "a b", 'q"q', "a\\b", "verlust/\xe4", "", "x" * 2000, "tab\t"])
NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True)


def value_of(tag: str, *parts: bytes) -> bytes:
    """Return a value of a summary."""
    return field(1, field(1, tag) + b"".join(parts))


def event_of(wall: float, step: int, *values: bytes) -> bytes:
    """Return an event with several values, or none."""
    return double_field(1, wall) + integer_field(2, step) + field(5, b"".join(values))


def tensor_of(number: float, shape: bytes, kind: int, *, is_content: bool) -> bytes:
    """Return a value's tensor of one number, with the metadata of the plugin of scalars."""
    packed = struct.pack("<f" if kind == 1 else "<d", number)
    data = field(4, packed) if is_content else field(5 if kind == 1 else 6, packed)
    return field(8, integer_field(1, kind) + field(2, shape) + data) + field(9, field(1, field(1, "scalars")))


SHAPES = st.sampled_from([b"", field(2, integer_field(1, 1)), field(2, integer_field(1, 2)), b"\xff"])
TENSORS = st.builds(tensor_of, NUMBERS, SHAPES, st.sampled_from([1, 2, 3]), is_content=st.booleans())
VALUES = st.builds(value_of, TAGS, NUMBERS.map(lambda number: float_field(2, number)) | TENSORS)
EVENTS = st.one_of(
    st.builds(scalar_event, WALLS, STEPS, TAGS, NUMBERS),
    st.builds(event_of, WALLS, STEPS),
    st.builds(event_of, WALLS, STEPS, VALUES),
    st.builds(event_of, WALLS, STEPS, VALUES, VALUES),
    st.builds(text_event, WALLS, STEPS, st.sampled_from(["note", "sample"]), st.just("text")),
    st.builds(session_event, WALLS, STEPS),
    st.builds(hparams_event, WALLS, st.just({"lr": 0.5}), st.just("group")),
    st.builds(event_of, WALLS, st.just(2**64 - 5), VALUES),
    st.binary(max_size=20),
)


def imported(folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, Any]]:
    """Return the stream and the report of each run in *folder*."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    out = folder.with_name(f"{folder.name}-{engine}")
    return [
        ((out / run.run_id / "events.jsonl").read_bytes(), (run.items, run.carried, run.losses, run.notes))
        for run in import_runs([folder], out).runs
    ]


@settings(max_examples=examples(60), deadline=None)
@given(
    events=st.lists(EVENTS, min_size=1, max_size=30),
    others=st.none() | st.lists(EVENTS, max_size=9),
    flipped=st.none() | st.integers(0, 5000),
)
def test_import_is_the_same_with_both_engines(
    events: list[bytes], others: list[bytes] | None, flipped: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Times that jump, any names, folders of one run, several values, not finite ones and damage: line for line."""
    folder = tmp_path_factory.mktemp("tb") / "run"
    first = scalar_event(START, 0, "loss", 2.5)
    data = bytearray(
        b"".join(map(record, [version_event(START), first, *events, scalar_event(START + 9, 9, "loss", 1)]))
    )
    if flipped is not None:
        data[len(record(version_event(START))) + flipped % (len(data) - 60)] ^= 8
    between = [scalar_event(START + second, second, "loss", 1) for second in (1, 8)]
    files = {"" if others is None else "train": data}
    if others is not None:
        files["val"] = bytearray(b"".join(map(record, [version_event(START), between[0], *others, between[1]])))
    for part, content in files.items():
        (folder / part).mkdir(parents=True)
        (folder / part / "events.out.tfevents.1790000000.host").write_bytes(content)
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert imported(folder, "python", monkeypatch) == imported(folder, "native", monkeypatch)
