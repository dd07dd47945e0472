"""Writes this sample: ``python make.py`` with pyarrow 26.0.1, in this directory; columns as in W&B's run histories."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
ROWS = [
    {
        "_step": at, "_timestamp": 1763632800.5 + at, "_runtime": float(at), "loss": loss, "val.acc": accuracy,
        "stage": "warm" if at else "cold", "done": at == 2, "grads": {"l1": 0.5, "l2": None},
        "hist": {"_type": "histogram", "values": [1, 2]},
    }
    for at, (loss, accuracy) in enumerate([(2.5, None), (float("nan"), 0.25), (2.0, 0.5)])
]  # fmt: skip
pq.write_table(pa.Table.from_pylist(ROWS[:2]), HERE / "0000.parquet")
pq.write_table(pa.Table.from_pylist(ROWS[2:]), HERE / "0001.parquet")
(HERE / "wandb-metadata.json").write_text(json.dumps({"host": "vm", "program": "train.py", "args": ["--lr", "0.1"]}))
