"""Writes this sample: ``python make.py`` with pyarrow 26.0.1, in this directory; the schema of neptune-exporter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
MOMENT = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("project_id", "run_id", "attribute_path", "attribute_type")),
    ("step", pa.decimal128(18, 6)), ("timestamp", MOMENT), ("int_value", pa.int64()), ("float_value", pa.float64()),
    ("string_value", pa.string()), ("bool_value", pa.bool_()), ("datetime_value", MOMENT),
    ("string_set_value", pa.list_(pa.string())), ("file_value", pa.struct([("path", pa.string())])),
    ("histogram_value", pa.struct([
        ("type", pa.string()), ("edges", pa.list_(pa.float64())), ("values", pa.list_(pa.float64())),
    ])),
])  # fmt: skip
START = datetime(2026, 2, 1, 12, tzinfo=UTC)


def row(
    run: str, path: str, kind: str, *, step: float | None = None, seconds: float | None = None, **value: Any
) -> Any:
    """Return a row; *value* has the value by the name of its column."""
    made: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    made |= {"project_id": f"ws/{run.partition('-')[0].lower()}", "run_id": run, "attribute_path": path}
    made |= {"attribute_type": kind, "step": None if step is None else Decimal(str(step))}
    return made | {"timestamp": None if seconds is None else START + timedelta(seconds=seconds)} | value


def attributes(run: str, *, failed: bool) -> list[Any]:
    """Return the rows of what does not change while a run trains."""
    return [
        row(run, "parameters/lr", "float", float_value=0.1),
        row(run, "parameters/layers", "int", int_value=2),
        row(run, "parameters/amp", "bool", bool_value=True),
        row(run, "sys/name", "string", string_value="first try"),
        row(run, "sys/tags", "string_set", string_set_value=["a", "b"]),
        row(run, "sys/creation_time", "datetime", datetime_value=START - timedelta(seconds=1)),
        row(run, "sys/failed", "bool", bool_value=failed),
        row(run, "source/main.py", "file", file_value={"path": "demo/main.py"}),
    ]


def series(run: str) -> list[Any]:
    """Return the rows of series of every type."""
    losses = [2.5, 2.25, float("nan"), 2.0]
    found = [
        row(run, "train/loss", "float_series", step=at, seconds=at, float_value=each) for at, each in enumerate(losses)
    ]
    return [
        *found,
        row(run, "train/half", "float_series", step=1.5, seconds=1.5, float_value=1.0),
        row(run, "train/ok", "bool_series", step=1, seconds=1, bool_value=True),
        row(run, "out", "string_series", step=1, seconds=1, string_value="epoch 1"),
        row(
            run, "weights", "histogram_series", step=2, seconds=2,
            histogram_value={"type": "COUNTING", "edges": [0.0, 0.5, 1.0], "values": [3.0, 4.0]},
        ),
        row(run, "samples", "file_series", step=3, seconds=3, file_value={"path": "demo/missing.png"}),
    ]  # fmt: skip


def write(name: str, rows: list[Any]) -> None:
    """Write a part."""
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), HERE / "data" / name)


(HERE / "files/demo/main.py").write_text('"""Trains nothing."""\n')
write("demo/DEMO-1_part_0.parquet", [*attributes("DEMO-1", failed=False), *series("DEMO-1")])
second = [row("DEMO-1", "val/acc", "float_series", step=at, seconds=at, float_value=at / 4) for at in (1, 3)]
write("demo/DEMO-1_part_1.parquet", second)
(HERE / "data/other").mkdir(exist_ok=True)
write("other/OTHER-1_part_0.parquet", [*attributes("OTHER-1", failed=True), *series("OTHER-1")[:2]])
