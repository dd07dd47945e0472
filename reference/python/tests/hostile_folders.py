"""Runs whose files are special, and every command that is asked of them, each in a process of its own."""

from __future__ import annotations

import inspect
import io
import os
import select
import shlex
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tarfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from command_line import command, environment
from command_matrix import SUBJECTS
from toyspec.agents.run_tools import RunTools
from toyspec.core.command_line.commands import COMMANDS, load
from toyspec.core.errors import ToyspecError
from toyspec.view.server import ViewHandler
from view_client import served

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
    "mirror": "{} --to tensorboard --into out --backfill --patience 1", "view": None, "watch": None, "mcp": None,
    "train": None, "guard": "{} --idle-timeout 0.1", "capture": None, "sync": "{} copy",
    "report": "{} -o out.html", "emitter": None, "skill": None, "conform": None, "run": None, "dialect": None,
    "completion": None, "schema": None, "explain": None, "query": "--catalog {} 'select 1'", "import": "{} --out in",
    "export": "tensorboard {} --out out", "catalog": "build --out made {}", "tail": "--once {}",
    "plot": "{} -o out.svg", "repair": "--dry-run {}", "compare": "{} {}", "bisect": "{} {}", "expect": "write {}",
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
            found.append([name, *(word.replace("{}", place) for word in shlex.split(arguments))])
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


def found_by(kind: str, attacks: Mapping[str, Callable[[], int]], seconds: float = 20.0) -> list[str]:
    """Return the *attacks* that found something: an internal error or no end; print how many were tried and refused."""
    ends = {name: ended(act, seconds) for name, act in attacks.items()}
    found = [f"{name}: {end}" for name, end in ends.items() if end not in ("0", "1", "2")]
    refused = sum(end == "2" for end in ends.values())
    say_count(kind, len(ends), refused, len(found))
    return found


def status_of(words: list[str]) -> int:
    """Return the status of a command in a program of its own; raise AssertionError if it printed a traceback."""
    done = subprocess.run(
        [sys.executable, "-P", *command(*words)[1:]], env=environment(), capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode


def say_count(kind: str, tried: int, refused: int, found: int) -> None:
    """Print how many attacks there were; ``nox -s attacks`` shows it."""
    sys.stderr.write(f"\nattacks, {kind}: {tried} tried, {refused} refused, {found} found\n")


ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "folder": str, "run": str, "runs": lambda place: [place],
}  # fmt: skip
"""What each argument of a tool is when a place is asked about; others have defaults."""


def tool_questions(root: Path, places: Iterable[str]) -> dict[str, Callable[[], int]]:
    """Return a question of each tool of an agent about each of *places*; a new tool is asked without being listed.

    It ends with 2 where it is refused, and fails if the answer has what is outside of *root*.
    """
    tools = RunTools(str(root))
    asked: dict[str, Callable[[], int]] = {}
    for name, tool in inspect.getmembers(tools, inspect.ismethod):
        if name.startswith("_"):
            continue
        needed = [key for key, each in inspect.signature(tool).parameters.items() if each.default is each.empty]
        names = needed or ["folder"]
        for place in places:
            arguments = {key: ARGUMENTS[key](place) for key in names}
            asked[f"{name} {place[:40]!r}"] = partial(_answered, tool, arguments)
    return asked


def _answered(tool: Callable[..., str], arguments: dict[str, Any]) -> int:
    try:
        answer = tool(**arguments)
    except (ToyspecError, ValueError, OSError, ImportError):
        return 2
    assert '"outside"' not in answer
    assert answer.isascii() or "digest" in tool.__name__
    return 0


VALUES = (
    "",
    "\0",
    "../outside/secret",
    "/etc/passwd",
    "9" * 400,
    "-1",
    "nan",
    "1e999",
    "loss",
    "events.jsonl",
    "x" * 5000,
)
"""What each parameter of a request is, besides what it should be."""
PARAMETERS = {
    "run": "", "metric": "loss", "x": "step", "buckets": "100", "from": "0", "to": "9", "at": "1",
    "path": "events.jsonl", "sha256": "0" * 64, "type": "image/png", "since": "1", "seen": "a", "count": "alerts",
}  # fmt: skip
"""The parameters of requests to the viewer, with a value that fits."""


def attack_viewer(root: Path, cache: Path) -> int:
    """Ask each request of the viewer about each run below *root*, and with each value of each parameter.

    Return 0; raise AssertionError unless each is answered within 20 s, none by an internal error, and none with what is
    outside of *root*.
    """
    paths = [each for each in (*ViewHandler._answers, *ViewHandler._routes) if each != "/api/changes"]
    tried = refused = 0
    with served(root, cache, token=None) as client:
        runs = [*client.settled_rows(), "../outside", "outside/secret", "\udcff", "x" * 5000]
        queries = [PARAMETERS | {"run": run} for run in runs]
        for name in PARAMETERS:
            queries += [PARAMETERS | {"run": runs[0], name: value} for value in VALUES]
        for path in paths:
            for query in queries:
                began = time.monotonic()
                status, _, body = client.get(f"{path}?{urlencode(query, errors='surrogateescape')}")
                assert status < 500, (path, query, body)
                assert time.monotonic() - began < 20, (path, query)
                assert b'"outside"' not in body or b"outside" in query["run"].encode(), (path, query)
                tried += 1
                refused += status >= 400
    say_count("requests of the viewer", tried, refused, 0)
    return 0
