"""Runs whose files are special, and every command that is asked of them, each in a process of its own."""

from __future__ import annotations

import io
import os
import select
import signal
import socket
import sqlite3
import struct
import sys
import tarfile
import time
import traceback
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from command_matrix import SUBJECTS
from toyspec.core.command_line.commands import COMMANDS, load
from toyspec.core.command_line.main import main

SPECIAL: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "directory": lambda path: path.mkdir(),
    "loop": lambda path: path.symlink_to(path.name),
}
"""What may be in place of a file, by what puts it there."""
STREAM = b'{"kind":"run_start","t":0.0,"run_id":"a","schema":"toy/v1"}\n{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
OTHERS = {
    "mirror": "{} --to tensorboard --into out --once", "view": None, "watch": None, "mcp": None, "train": None,
    "guard": "{} --idle-timeout 0.1", "capture": None, "push": None, "pull": None, "sync": "{} copy",
    "site": "{} --out site", "emit": "{} note hello", "emitter": None, "skill": None, "conform": None,
    "completion": None, "schema": None, "explain": None, "query": "--catalog {} 'select 1'", "import": "{} --out in",
    "export": "csv {} --out out", "catalog": "build --out made {}", "tail": "--once {}", "plot": "{} --json",
    "evidence": "{} --json", "dialect": "new --dry-run {}", "repair": "--dry-run {}", "compare": "{} {}",
}  # fmt: skip
"""Arguments of commands that need more than a place; None for what reads no folder, or serves."""


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)
        made.bind(path.name)
        os.chdir(before)


SPECIAL["socket"] = _socket


DEEP = 100_000
_DOUBLED = "{0}: &{0} [*{1}, *{1}, *{1}, *{1}]\n"
ALIASES = "a: &a [1, 1]\n" + "".join(map(_DOUBLED.format, "bcdefghij", "abcdefghi"))
"""A document that says by aliases that it has a quarter of a million items."""
STORES: dict[str, bytes] = {
    "wandb/run-1-abc/run-abc.wandb": b":W&B" + struct.pack("<HB", 0xBEE1, 0) + struct.pack("<IHB", 0, 0xFFFF, 1) * 9000,
    "tb/events.out.tfevents.1700000000.host": struct.pack("<QI", 1 << 62, 0) + b"x" * 1000,
    "tb2/events.out.tfevents.1700000000.host": struct.pack("<QI", 1 << 20, 0) * 5000,
    "mlruns/0/meta.yaml": b"artifact_location: file:///etc\nexperiment_id: '0'\nlifecycle_stage: active\nname: x\n",
    "mlruns/0/r1/meta.yaml": f"run_id: ../../r1\nrun_name: {'[' * DEEP}\nstart_time: 9{'9' * DEEP}\n{ALIASES}".encode(),
    "mlruns/0/r1/metrics/loss": b"1 1 1\n" + b"9" * DEEP + b" nan inf\n-1 x\n",
    "mlruns/0/r1/params/..\\up": b"x",
    "dvclive/metrics.json": b'{"a":' * DEEP,
    "dvclive/params.yaml": ALIASES.encode(),
    "dvclive/plots/metrics/loss.tsv": b"step\tloss\n" + b"1\t" * DEEP + b"\n",
    "hf/trainer_state.json": b'{"log_history":' + b"[" * DEEP + b"]}",
    "hf2/trainer_state.json": b'{"log_history":[' + b'{"loss":1,"step":1},' * 9 + b'{"loss":"' + b"\\" * DEEP,
    "csv/log.csv": b"step,loss\n1," + b"9" * 1_000_000 + b"\n2," + b"1.1" * DEEP + b"\n" + b'"' * (DEEP - 1),
    "json/metrics.jsonl": b'{"step":1,"loss":' + b"9" * DEEP + b"}\n" + b'{"a":' * DEEP + b"\n" + b"\n" * DEEP,
    "console/train.log": b"step 1 loss " + b"1" * DEEP + b"\n" + b"step=" * 9999 + b"\n" + b"epoch 1 | " * 9999 + b"\n",
    "parquet/runs.parquet": b"PAR1" + b"\xff" * 1000 + struct.pack("<I", 1 << 31) + b"PAR1",
    "sealed/events.jsonl": STREAM,
    "sealed/SHA256SUMS": b"0" * 64 + b"  ../../outside/secret\n" + b"0" * 64 + b"  /etc/passwd\n" + b"x" * DEEP,
    "sealed/run.json": b'{"a":' * DEEP,
    "sealed/annotations.jsonl": b'{"at":"2026-01-01T00:00:00Z","name":"../../x"}\n' + b"[" * DEEP,
    "names/\x1b[31m\u202e/events.jsonl": STREAM,
}
"""Files of stores that ask for what no run has: depth, length, names elsewhere, sizes beyond the file."""


def hostile_stores(folder: Path) -> None:
    """Write ``STORES``, and a database, archives and links that lead out of *folder*."""
    for name, data in STORES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "trackio").mkdir()
    with closing(sqlite3.connect(folder / "trackio" / "project.db")) as database:
        database.execute("CREATE TABLE metrics (id INTEGER, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"
        database.execute(
            f"CREATE VIEW configs AS {endless} AS id, 'r' AS run_name, '{{}}' AS config, '' AS created_at FROM n"
        )
        for name in ("../../outside/run", "\x1b[31m", "/etc/run"):
            row = ("2026-01-01", name, 1, '{"../loss": 1.0, "deep": ' + "[" * 900 + "]" * 900 + "}")
            database.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)", row)
        database.commit()
    (folder / "archives").mkdir()
    with zipfile.ZipFile(folder / "archives" / "runs.zip", "w") as archive:
        archive.writestr("../../outside/from-zip", "x")
        archive.writestr("events.jsonl", STREAM)
    with tarfile.open(folder / "archives" / "runs.tar", "w") as archive:
        member = tarfile.TarInfo("../../outside/from-tar")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    for name in ("links/events.jsonl", "links/annotations.jsonl", "mlruns/0/r1/params/link", "links/media"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(folder.parent / "outside" / "secret")


def lines(place: str) -> list[list[str]]:
    """Return a line of each command that is asked of *place*; a new command has one without being listed.

    The commands are imported here, once for all the processes.
    """
    found = []
    for name in COMMANDS:
        load(name)
        arguments = OTHERS.get(name, "{}")
        if arguments is not None:
            found.append([name, *(word.strip("'").replace("{}", place) for word in arguments.split(" "))])
    assert {each[0] for each in found} >= set(SUBJECTS) - {"explain"}
    return found


def ended(act: Callable[[], int], seconds: float = 20.0) -> str:
    """Return how *act* ended in a process of its own: "0", its status, its traceback, or "hangs"."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 70
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1):
                os.dup2(nothing, number)
            os.setsid()
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = sys.stdout
            status = act()
        except BaseException:  # noqa: BLE001 - reported
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writer)
    try:
        limit = time.monotonic() + seconds
        if not select.select([reader], [], [], max(0.0, limit - time.monotonic()))[0]:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs"
        said = os.read(reader, 1 << 16).decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return said or str(status)
    finally:
        os.close(reader)


def run(words: list[str]) -> str:
    """Return how the command line *words* ended."""
    return ended(lambda: main(words))
