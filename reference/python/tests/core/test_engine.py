from __future__ import annotations

import ast
import gzip
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment
from toyspec import EngineError, check, check_bytes
from toyspec.core import engine
from toyspec.core.checker import CheckOptions
from toyspec.core.checker.checking import NativeThreads
from toyspec.core.findings import FileReport, PathError, Skipped
from toyspec.core.runs.discovery import Stream
from toyspec.version import __version__

DECLARATIONS = Path(__file__).resolve().parents[3] / "engine" / "toyspec_engine.pyi"
START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n'
END = b'{"kind":"run_end","t":9e9,"reason":"completed"}\n'

try:
    import toyspec_engine
except ImportError:
    pytestmark = pytest.mark.skip(reason="toyspec-engine is not installed: `make engine`")


def step(number: int) -> bytes:
    """Return one step that is without a finding."""
    return b'{"kind":"step","t":%d.5,"step":%d,"loss":1.25}\n' % (number, number)


def both(monkeypatch: pytest.MonkeyPatch, work: Any) -> tuple[Any, Any]:
    """Return what *work* returns with each engine."""
    found = []
    for name in ("native", "python"):
        monkeypatch.setenv("TOYSPEC_ENGINE", name)
        found.append(work())
    return found[0], found[1]


def test_choice_and_its_reason_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is used where it is installed, unless the environment says otherwise."""
    monkeypatch.delenv("TOYSPEC_ENGINE", raising=False)
    assert ("native", f"toyspec-engine {__version__} is installed") == engine.choice()
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")
    assert ("python", "TOYSPEC_ENGINE is python") == engine.choice()
    monkeypatch.setenv("TOYSPEC_ENGINE", "rust")
    with pytest.raises(EngineError, match=re.escape("it must be python or native")):
        check_bytes(b"")


def test_engine_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules and words may differ between versions: plain Python checks then, and a demand for the engine fails."""
    monkeypatch.setattr(toyspec_engine, "__version__", "0.0.9")
    monkeypatch.delenv("TOYSPEC_ENGINE", raising=False)
    engine._loaded.cache_clear()
    try:
        reason = f"toyspec-engine 0.0.9 is of another version than toyspec {__version__}"
        assert ("python", reason) == engine.choice()
        monkeypatch.setenv("TOYSPEC_ENGINE", "native")
        with pytest.raises(EngineError, match=re.escape(reason)):
            engine.native()
    finally:
        engine._loaded.cache_clear()


def test_engine_of_older_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clone it has the version of the package: whatever it lacks shows that it has to be built again."""
    monkeypatch.setattr(toyspec_engine, "StepBlock", type("StepBlock", (), {}))
    monkeypatch.delenv("TOYSPEC_ENGINE", raising=False)
    engine._loaded.cache_clear()
    try:
        reason = "toyspec-engine was built from older sources; build it again with `make engine`"
        assert ("python", reason) == engine.choice()
    finally:
        engine._loaded.cache_clear()


def declared_names() -> set[str]:
    """Return the classes, their members and the functions that the engine is declared to have."""
    found = set()
    for node in ast.parse(DECLARATIONS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and "TypedDict" not in map(ast.unparse, node.bases):
            functions = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {node.name, *(f"{node.name}.{name}" for name in functions if not name.startswith("_"))}
    return found


def test_names_of_the_engine_are_known() -> None:
    """It has what is declared and nothing else, and what an engine of older sources lacks is known by these names."""
    declared = declared_names()
    classes = {"": toyspec_engine} | {
        f"{name}.": value for name, value in vars(toyspec_engine).items() if type(value) is type
    }
    found = {place + name for place, value in classes.items() for name in vars(value) if not name.startswith("_")}
    assert declared == found - {"toyspec_engine"}
    assert declared == set(engine._NAMES)


def test_panic_is_an_exception_that_names_its_place() -> None:
    """A defect of the engine ends neither the process nor the engine."""
    for _ in range(2):
        with pytest.raises(toyspec_engine.EngineFailure, match=r"^engine/src/failures\.rs:\d+: asked for"):
            toyspec_engine.fail()


def test_threads_leave_to_others_what_they_do_not_read(tmp_path: Path) -> None:
    """Streams are checked on the threads; pipes, gzip files and what may be of another program are handed back."""
    (tmp_path / "run.jsonl").write_bytes(START + END)
    (tmp_path / "log.csv").write_bytes(b"step,loss\n1,2.5\n2,2.25\n")
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress(START + END))
    names = ["run.jsonl", "missing.jsonl", "log.csv", "run.jsonl.gz"]
    found = [Stream(str(tmp_path / name), 40, is_hinted=name == "log.csv") for name in names]
    found += [Stream("-", 0), Stream(str(tmp_path / "run.jsonl"), 40)]
    left: list[str] = []
    sizes: list[int] = []

    def check_elsewhere(item: Any) -> Skipped:
        left.append(Path(item.path).name)
        return Skipped(item.path, "elsewhere")

    threads = NativeThreads(toyspec_engine, CheckOptions(), 2, sizes.append)
    verdicts = [verdict for _, verdict in threads.check(found, check_elsewhere, walk="all")]
    assert ["log.csv", "run.jsonl.gz", "-"] == left
    kinds = [FileReport, PathError, Skipped, Skipped, Skipped, FileReport]
    assert kinds == [type(verdict) for verdict in verdicts]
    assert "No such file or directory" == getattr(verdicts[1], "message", None)
    # A file that is handed back counts with its size once it is done.
    assert 2 * len(START + END) + 80 == sizes[-1]
    alone = NativeThreads(toyspec_engine, CheckOptions(dialect="csv"), 2, sizes.append)
    assert [Skipped] == [type(verdict) for _, verdict in alone.check(found[:1], lambda *_: Skipped("", ""), walk="all")]


@pytest.mark.posix
def test_paths_that_are_not_text_are_checked_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path of any bytes, a missing file and a directory that cannot be read give the same words."""
    run = Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe"))
    run.mkdir()
    (run / "events.jsonl").write_bytes(START + END)
    (tmp_path / "loop").symlink_to("loop")
    paths = [run, tmp_path / "missing", tmp_path / "loop", run / "events.jsonl" / "x"]
    native, python = both(monkeypatch, lambda: check(*paths))
    assert native == python
    assert (1, 3) == (len(native.files), len(native.errors))


def test_compressed_streams_are_checked_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whole, cut off and damaged gzip data give the same reports and the same words."""
    packed = gzip.compress(START + b"".join(map(step, range(1, 5000))) + END)
    for name, data in (("whole", packed), ("cut", packed[:-9]), ("broken", packed[:500] + b"\xff" * 9 + packed[509:])):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(data)
    native, python = both(monkeypatch, lambda: check(*sorted(tmp_path.iterdir()), workers=2))
    assert native == python
    assert (1, 2) == (len(native.files), len(native.errors))


def test_threads_on_one_file_change_no_report(tmp_path: Path) -> None:
    """A large file is divided: its findings, with their order, counts and places, are those of one thread."""
    odd = {30_000: 5, 30_001: 30_001, 77_777: 77_780, 200_000: 200_000}
    lines = [step(odd.get(number, number)) for number in range(1, 640_000)]
    for at in (3, 6_000, 6_001, 300_000, 500_000):
        lines[at] = lines[at].replace(b"}", b',"mine":"\xc3\xa9"}')
    lines[400_000] = b"{" * 300_000 + b"\n"
    lines[450_000] = b"\xff\n"
    path = tmp_path / "events.jsonl"
    path.write_bytes(START + b"".join(lines) + b'{"kind"')
    assert path.stat().st_size > 1 << 25
    alone = check(path)
    assert alone == check(path, workers=3)
    assert {"step-goes-backwards", "step-skipped", "unknown-key"} <= {each.rule for each in alone.files[0].findings}


@pytest.mark.posix
def test_interrupt_ends_a_check_of_a_file_without_end(tmp_path: Path) -> None:
    """Ctrl-C is noticed even if a file never ends."""
    fifo = tmp_path / "events.jsonl"
    os.mkfifo(fifo)
    process = subprocess.Popen(command("check", str(fifo)), stderr=subprocess.PIPE, env=environment())
    with open(fifo, "wb", buffering=0):
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert (130, b"") == (process.returncode, errors)


def test_lock_of_python_is_free_meanwhile() -> None:
    """A thread of Python goes on while a stream is checked."""
    script = (
        "import threading, time, toyspec, sys\n"
        "data = sys.stdin.buffer.read() * 400\n"
        "turns = 0\n"
        "thread = threading.Thread(target=toyspec.check_bytes, args=(data,))\n"
        "thread.start()\n"
        "while thread.is_alive():\n"
        "    turns += 1\n"
        "    time.sleep(0.001)\n"
        "print(turns)\n"
    )
    lines = START + b"".join(map(step, range(1, 2000)))
    done = subprocess.run([sys.executable, "-c", script], input=lines, capture_output=True, check=True)
    assert int(done.stdout) > 10


def test_versions_are_pinned() -> None:
    """The package asks for the engine of its own version."""
    root = Path(__file__).resolve().parents[4]
    package = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    crate = tomllib.loads((root / "reference/engine/Cargo.toml").read_text(encoding="utf-8"))
    assert [f"toyspec-engine=={__version__}"] == package["project"]["optional-dependencies"]["fast"]
    assert __version__ == crate["package"]["version"]


def test_mutated_streams_are_checked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of the corpus with bytes replaced give equal reports, words included."""
    chance = random.Random(5)
    root = Path(__file__).resolve().parents[4]
    streams = [path.read_bytes()[:4096] for path in sorted((root / "conformance/cases").rglob("*.jsonl"))]
    for _ in range(int(os.environ.get("TOYSPEC_MUTATED", "1000"))):
        data = bytearray(chance.choice(streams))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        native, python = both(monkeypatch, lambda data=bytes(data): check_bytes(data, name="events.jsonl"))
        assert native == python, bytes(data)
