"""Tests of importing W&B run files."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conversions import imported, losses, records, scalars
from toyspec.convert.protobuf import double_field, field, integer_field
from toyspec.convert.wandb_files import FILE_HEADER


def chunk(kind: int, data: bytes) -> bytes:
    """Return one chunk of a record."""
    body = bytes([kind]) + data
    return struct.pack("<IH", zlib.crc32(body), len(data)) + body


def written(records: Sequence[bytes], block: int = 32768) -> tuple[bytes, list[int]]:
    """Return a run file with *records* in blocks of this size, and where each ends."""
    out, ends = bytearray(FILE_HEADER), []
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            left = block - len(out) % block
            if left < 7:
                out += bytes(left)
                left = block
            part, rest = rest[: left - 7], rest[left - 7 :]
            out += chunk((1 if is_first else 4) if not rest else 2 if is_first else 3, part)
            is_first = False
        ends.append(len(out))
    return bytes(out), ends


def run_file(path: Path, *messages: bytes) -> Path:
    """Write a run file with *messages*."""
    path.write_bytes(written(messages)[0])
    return path


def item(name: str, value: str) -> bytes:
    """Return an item of a history."""
    return field(1, field(2, name) + field(16, value))


def row(step: int, **values: Any) -> bytes:
    """Return a history record."""
    items = {**values, "_step": step, "_timestamp": 1790000000.5 + step}
    return integer_field(1, step) + field(2, b"".join(item(name, json.dumps(value)) for name, value in items.items()))


@pytest.mark.parametrize(
    ("code", "end", "lost"),
    [
        (0, {"reason": "completed", "exit_code": 0}, {}),
        (255, {"reason": "errored", "exit_code": 255}, {}),
        (256, {"reason": "errored"}, {"part-dropped": 1}),
        (2**64 - 1, {"reason": "errored"}, {"part-dropped": 1}),
    ],
)
def test_exit_code_is_kept_where_one_can_be(
    tmp_path: Path, code: int, end: dict[str, Any], lost: dict[str, int]
) -> None:
    """A process ends with 0 to 255: any other number, -1 among them, is reported, and the run errored."""
    file = run_file(tmp_path / "run-a.wandb", field(2, row(1, loss=1.0)), field(18, integer_field(1, code)))
    (run,) = imported(file, tmp_path / "runs").runs
    last = records(run.target)[-1]
    assert (end, lost) == ({name: last[name] for name in ("reason", "exit_code") if name in last}, losses(run))


@given(st.data())
def test_any_history_arrives(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Values of every kind and length, in text or in typed fields, arrive or are in the report."""
    tmp_path = tmp_path_factory.mktemp("wandb")
    numbers = st.floats() | st.integers(-(2**70), 2**70)
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200).filter(lambda name: name[0] != "_")
    rows = data.draw(st.lists(st.dictionaries(names.filter(lambda name: "._type" not in name), numbers, max_size=4)))
    typed = data.draw(st.booleans())
    messages = []
    for step, values in enumerate(rows):
        made = b""
        for name, value in values.items():
            if typed and isinstance(value, float):
                made += field(1, field(1, name) + double_field(6, value))
            else:
                made += item(name, json.dumps(value))
        messages.append(field(2, made + item("_step", str(step))))
    (run,) = imported(run_file(tmp_path / "run-a.wandb", *messages), tmp_path / "runs").runs
    expected = []
    for step, values in enumerate(rows):
        for name, value in sorted(values.items()):
            number = float(value)
            expected.append((name, step, number if number - number == 0.0 else None))
    assert expected == scalars(run.target)
    assert sum(map(len, rows)) == run.items


def test_flipped_byte_costs_one_record(tmp_path: Path) -> None:
    """Wherever a byte is flipped in a file of many blocks, at most one row is missing."""
    file = run_file(tmp_path / "run-a.wandb", *(row(step, loss=step / 7, note="x" * 90) for step in range(400)))
    data = file.read_bytes()
    assert len(data) > 2 * 32768
    for place in range(7, len(data), 997):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        (run,) = imported(file, tmp_path / f"runs{place}").runs
        assert 399 <= len(scalars(run.target)) <= 400
        assert run.has_damage == (len(scalars(run.target)) == 399)


@given(st.binary(max_size=300))
@example(b"\x10\x00")
def test_any_bytes_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Hostile bytes in records crash nothing."""
    tmp_path = tmp_path_factory.mktemp("wandb")
    file = run_file(tmp_path / "run-a.wandb", data, *(field(number, data) for number in (2, 17, 3, 18, 12)))
    imported(file, tmp_path / "runs", "wandb")


def test_each_process_of_a_resumed_run_is_a_run(tmp_path: Path) -> None:
    """Each has the rows of its file, and the second one's name says that it is another run of that id."""
    for clock in (1, 2):
        directory = tmp_path / "wandb" / f"offline-run-20260922_08000{clock}-a"
        directory.mkdir(parents=True)
        run_file(directory / "run-a.wandb", field(2, item("loss", str(clock)) + item("_step", "0")))
    first, second = imported(tmp_path / "wandb", tmp_path / "runs").runs
    assert ["a", "a-2"] == [first.run_id, second.run_id]
    assert [[("loss", 0, 1.0)], [("loss", 0, 2.0)]] == [scalars(run.target) for run in (first, second)]


def test_tables_of_completions_are_samples(tmp_path: Path) -> None:
    """Each row once, of a table that grows too; a table that is none, outside of the run or gone is counted by name."""
    first = ["p", "c", 3, None, float("nan")]
    tables = [[first], [first, ["q", "d", 4, 0.5, 2]], [["p", "c", 5, "word", 1]], None]
    rows = []
    for step, data in enumerate(tables):
        path = f"{'../' * (step == 2)}media/table/{step}.json"
        file = tmp_path / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        columns = ["prompt", "completion", "step", "advantage", "exact"]
        if data is not None:
            file.write_text(json.dumps({"columns": columns, "data": data}))
        rows.append(row(step, t={"_type": "table-file", "path": path}))
    (run,) = imported(run_file(tmp_path / "run-a.wandb", *rows), tmp_path / "runs").runs
    made = records(run.target)
    assert [
        {"step": 3, "prompt": "p", "text": "c", "rewards": {"exact": None}},
        {"step": 4, "prompt": "q", "text": "d", "rewards": {"exact": 2.0}, "advantage": 0.5},
    ] == [{key: each[key] for key in each if key not in {"kind", "t"}} for each in made if each["kind"] == "sample"]
    assert [{"t": 2}] == [each["left_out"] for each in made if "left_out" in each]
