"""What importing costs: TensorBoard beside its own reader, W&B files by size, and the logs of other programs."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from measuring import Row, alternating, missing, per_call, ratio, spread
from toyspec.convert import import_runs, tensorboard_files
from toyspec.convert.protobuf import field, integer_field
from toyspec.convert.wandb_files import BLOCK_BYTES, FILE_HEADER
from toyspec.core.checker import check
from toyspec.core.reading.reader import read
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GROUP = "import"
_TAGS = ("train/loss", "train/lr", "train/grad_norm", "train/tokens_per_second", "val/loss")
_WALL = 1_790_000_000.25
_WANDB_BYTES = 100_000_000
_LEAST = 20
_ROUNDS = 3
_CHUNK_HEADER = 7
_EPOCH_ROWS = 100


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield the ratio to TensorBoard for *size* scalars, seconds for 100 MB of W&B, and microseconds a row."""
    yield from _tensorboard(folder, size)
    run = _wandb_run(folder / "run-bench.wandb")
    times = alternating({"import": lambda: _import(run, folder / "runs")}, _ROUNDS)
    yield spread(_GROUP, "100 MB of a W&B run file", "s", times["import"], most=25)
    yield from _other_logs(folder, size)


def _tensorboard(folder: Path, size: int) -> Iterator[Row]:
    name = "TensorBoard's EventAccumulator, against the import of the same scalars"
    if find_spec("tensorboard") is None:
        yield missing(_GROUP, name, "pip install tensorboard", least=_LEAST)
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    source = folder / "tb"
    source.mkdir()
    with (source / "events.out.tfevents.1790000000.bench").open("wb") as file:
        file.write(tensorboard_files.record(tensorboard_files.version_event(_WALL)))
        for step in range(size // len(_TAGS)):
            events = [tensorboard_files.scalar_event(_WALL + step, step, tag, step / 7) for tag in _TAGS]
            file.write(b"".join(map(tensorboard_files.record, events)))

    def accumulate() -> None:
        accumulator = EventAccumulator(str(source), size_guidance={"scalars": 0})
        accumulator.Reload()

    both = {"theirs": accumulate, "ours": lambda: _import(source, folder / "runs")}
    times = alternating(both, _ROUNDS)
    yield ratio(_GROUP, name, times["theirs"], times["ours"], least=_LEAST)


def _import(source: Path, out: Path) -> None:
    import_runs([source], out)
    shutil.rmtree(out)


def _read(path: Path) -> int:
    return sum(1 for _ in read(path, mode="salvage"))


def _wandb_run(path: Path) -> Path:
    """Write a run file of 100 MB: rows of ten metrics, in blocks as W&B writes them."""
    names = [f"train/metric_{number}" for number in range(10)]
    with path.open("wb") as file:
        at = file.write(FILE_HEADER)
        step = 0
        while at < _WANDB_BYTES:
            values = {**{name: step / (index + 3) for index, name in enumerate(names)}, "_step": step}
            values["_timestamp"] = _WALL + step
            items = (field(1, field(2, name) + field(16, json.dumps(value))) for name, value in values.items())
            at += _put(file.write, at, integer_field(1, step) + field(2, b"".join(items)))
            step += 1
    return path


def _put(write: Callable[[bytes], object], at: int, record: bytes) -> int:
    """Write *record* at offset *at* as one chunk or two, and return how many bytes that took."""
    left = BLOCK_BYTES - at % BLOCK_BYTES
    out = b""
    if left < _CHUNK_HEADER:
        out, left = bytes(left), BLOCK_BYTES
    room = left - _CHUNK_HEADER
    parts = [(1, record)] if len(record) <= room else [(2, record[:room]), (4, record[room:])]
    for kind, data in parts:
        chunk = bytes([kind]) + data
        out += struct.pack("<IH", zlib.crc32(chunk), len(data)) + chunk
    write(out)
    return len(out)


def _other_logs(folder: Path, size: int) -> Iterator[Row]:
    """Yield microseconds a row of logs of each form."""
    logs = {
        "JSON Lines": ("", '{{"step":{0},"timestamp":{2},"loss":{3},"lr":0.00025,"grad_norm":{4}}}'),
        "nested JSON Lines": (
            "",
            '{{"step":{0},"timestamp":{2},"train":{{"loss":{3},"lr":0.25}},"val":{{"acc":{4}}}}}',
        ),
        "CSV": ("step,epoch,loss,lr", "{0},{1},{3},0.25"),
        "TSV": ("step\tepoch\tloss\tlr", "{0}\t{1}\t{3}\t0.25"),
        # One evaluation for each epoch, as Lightning writes it.
        "CSV with blank cells": ("epoch,step,train_loss,val_acc,val_loss", "{1},{0},{3},,", "{1},{0},,0.5,{4}"),
    }
    for title, (header, *lines) in logs.items():
        path = folder / title.replace(" ", "-")
        rows = (
            lines[-1 if at % _EPOCH_ROWS == 0 else 0].format(at, at // _EPOCH_ROWS, _WALL + at, at / 7, at / 3)
            for at in range(size)
        )
        path.write_text("\n".join([*filter(None, [header]), *rows, ""]))
        goal = 5 if title == "JSON Lines" else 10
        times = alternating(
            {
                "read": partial(_read, path),
                "check": partial(check, path),
                "summarize": partial(summarize_run, str(path)),
                "import": partial(_import, path, folder / "runs"),
            },
            _ROUNDS,
        )
        for what, taken in times.items():
            yield spread(_GROUP, f"{what} a row of another program's {title}", "us", per_call(taken, size), most=goal)
