"""Faults H and S: streams that are made to hurt whoever reads or shows them."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import toyspec
from conformance.escaping import markup
from faults.hostile import HOSTILE, START
from faults.methods import TESTS
from faults.tally import IS_LONG, count, scaled
from files import in_subprocess
from toyspec.core.command_line.main import main
from toyspec.core.reading.reader import read

LIMIT_MIB = 1024
WAYS = ["read+repair", "check"] if IS_LONG else ["read+repair+check+show"]
PACKAGE = Path(toyspec.__file__).parent

PAYLOADS = [
    "\x1b[2J\x1b]52;c;ZWNobw==\x07\x1b]8;;http://x\x07",
    "\u009b31m\x7f\x00\r\u202e\u2066\u200b\u2028\u2029\u00ad\ufeff",
    "\n::error::boo\n::add-mask::x\n##vso[task.setvariable]x\n",
    "::set-output name=x::y",
    "=HYPERLINK(1)",
    "+1-1",
    "@SUM(A1)",
    "</script><img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "../../../../etc/passwd",
    "%0A::warning::x",
]
# What may not reach any output: controls but LF, C1, and what reorders or hides text.
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


@pytest.mark.parametrize("name", HOSTILE)
def test_h20_s10_s01_memory_is_bounded_for_every_hostile_stream(name: str, tmp_path: Path) -> None:
    """Under a hard limit of memory, each stream is read, checked, shown and looked at for a repair, to its end."""
    stream = tmp_path / "events.jsonl"
    with stream.open("wb") as file:
        file.writelines(HOSTILE[name]())
    for way in WAYS:
        command = [sys.executable, "-m", "faults.probe", str(LIMIT_MIB), way, str(stream)]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        count("inputs fuzzed")
        assert 0 == done.returncode, (way, done.stderr[-400:])


@pytest.fixture(scope="module")
def hostile_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with runs whose every text, key, kind and name is made to break out."""
    root = tmp_path_factory.mktemp("runs")
    for number, payload in enumerate(PAYLOADS):
        name = f"{number}-{payload}".replace("/", "_").replace("\x00", "")[:80]
        (root / name).mkdir()
        values = {payload: payload, "a": [payload, 1e5], "b": {payload: 1.5}}
        records = [
            {
                "kind": "run_start",
                "schema": "toy/v1",
                "t": 0.0,
                "run_id": payload,
                "config": values,
                "model": {"arch": payload},
            },
            {"kind": "step", "t": 1.0, "step": 1, "loss": 0.5, "extra": {payload: 1.0}, payload: payload},
            {"kind": payload, "t": 1.0},
            {"kind": "note", "t": 2.0, "text": payload},
            {"kind": "sample", "t": 2.0, "prompt": payload, "text": payload, "step": 1},
            {"kind": "eval", "t": 2.0, "name": payload, "step": 1, "loss": 1.0, "extra": {payload: 2}},
            {"kind": "run_end", "t": 3.0, "reason": payload, "error": payload},
        ]
        lines = [json.dumps(record, ensure_ascii=number % 2 == 0).encode("utf-8", "replace") for record in records]
        broken = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
        (root / name / "events.jsonl").write_bytes(b"\n".join([*lines, b"{" + broken, broken, broken]))
        (root / name / "run.json").write_bytes(b"{" + broken)
    return root


COMMANDS = [
    *(["check", "-v", "--format", style] for style in ("text", "json", "github")),
    ["ls"],
    ["ls", "--json"],
    ["show"],
    ["compare"],
    ["tail", "--once", "-n", "9999"],
    ["repair", "--dry-run"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_h30_h31_h32_no_text_of_a_log_gets_out_of_an_output(
    command: list[str], hostile_runs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, GitHub and JSON output has no control character, command or formula of a log."""
    monkeypatch.chdir(hostile_runs)
    runs = [f"./{run.name}" for run in hostile_runs.iterdir()]
    several = command[0] in {"check", "ls", "compare", "repair"}
    for paths in [runs] if several else [[run] for run in runs]:
        main([*command, *paths])
    out, err = capfd.readouterr()
    assert out, err
    count("inputs fuzzed", len(runs))
    assert None is FORBIDDEN.search(out + err)
    assert "Traceback" not in err
    commands = [line for line in out.splitlines() if line.lstrip().startswith(("::", "##"))]
    own = re.compile(r"::(error|warning|notice|debug) (file|title)=[^\n]*::|::(stop|error|warning|notice)")
    assert "github" in command or not [line for line in commands if line.startswith(("::", "##vso"))]
    assert all(own.match(line) for line in commands if "github" in command)


def test_h37_h38_s03_no_code_from_data_no_network_no_mapping() -> None:
    """The package has no way to run data, to reach another machine, or to map a file that may be cut."""
    wrong = {
        "pickle",
        "marshal",
        "shelve",
        "yaml",
        "mmap",
        "socket",
        "ssl",
        "urllib.request",
        "http.client",
        "requests",
    }
    # The viewer's server accepts connections, and opens none; a Ray cluster is one that the user has named.
    # One module reads YAML, by a loader that makes no objects of Python.
    allowed = {
        "view": {"socket"},
        "ray_cluster.py": {"socket"},
        "dvclive_files.py": {"yaml"},
    }
    loaders = re.findall(r"\w*Loader\b", (PACKAGE / "convert" / "dvclive_files.py").read_text())
    assert {"Loader", "SafeLoader"} >= set(loaders)
    for path in PACKAGE.rglob("*.py"):
        rooms = set(path.relative_to(PACKAGE).parts)
        if {"trainer", "tracker"} & rooms:
            continue
        wrong_here = wrong.difference(*(allowed[room] for room in rooms & allowed.keys()))
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [node.func.id] if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else []
            assert not {"eval", "exec", "compile", *wrong_here} & set(names), path


def test_h38_h37_h29_reading_asks_the_system_for_nothing_but_files(hostile_runs: Path) -> None:
    """While it checks, reads and shows hostile runs, the library opens no connection, program or file to write."""
    program = """
import sys
import toyspec.core.checker, toyspec.core.commands.check, toyspec.core.commands.show, toyspec.core.command_line.main
found = []
def watch(event, arguments):
    if event.split(".")[0] in ("socket", "subprocess", "ctypes", "urllib", "ftplib", "smtplib") or event in (
        "os.system", "os.exec", "os.fork", "os.remove", "os.rename", "os.truncate", "os.mkdir", "pickle.find_class"):
        found.append(event)
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & 3 and "/dev" not in str(arguments[0]):
        found.append(f"{event} {arguments[0]}")
sys.addaudithook(watch)
sys.dont_write_bytecode = True
from toyspec.core.command_line.main import main
for path in sys.argv[1:]:
    main(["check", path]); main(["show", path]); main(["tail", "--once", path])
print(found)
"""
    runs = [str(run) for run in hostile_runs.iterdir()]
    done = in_subprocess(program, *runs, check=True)
    assert "[]" == done.stdout.splitlines()[-1]


def test_s07_one_rotten_run_among_thousands_hides_none(tmp_path: Path) -> None:
    """Among many runs, what is damaged, empty, a directory or out of reach is reported, and the rest is checked."""
    runs = scaled(300, 1500)
    for number in range(runs):
        run = tmp_path / f"{number:06}"
        run.mkdir()
        end = START.replace(b"hostile", run.name.encode()) + b'{"kind":"run_end","t":1.0,"reason":"completed"}\n'
        (run / "events.jsonl").write_bytes(end)
    (tmp_path / "000003/events.jsonl").write_bytes(b"\xff\n")
    (tmp_path / "000004/events.jsonl").write_bytes(b"")
    (tmp_path / "000005/events.jsonl").unlink()
    (tmp_path / "000005/events.jsonl").mkdir()
    (tmp_path / "000006/events.jsonl").unlink()
    (tmp_path / "000006/events.jsonl").symlink_to("nowhere")
    (tmp_path / "000007/events.jsonl").unlink()
    os.mkfifo(tmp_path / "000007/events.jsonl")
    report = toyspec.check(tmp_path)
    states = [file.state for file in report.files if os.path.dirname(file.path)[-6:] > "000007"]
    assert ["complete"] * (runs - 8) == states
    told = {os.path.dirname(file.path)[-6:] for file in report.files if file.state != "complete"}
    assert {"000003", "000004"} <= told


@pytest.mark.parametrize("way", ["read", "check"])
def test_h25_a_compressed_bomb_is_not_let_off(way: str, tmp_path: Path) -> None:
    """Compressed bytes are not a record: a stream of a million lines in 3 KB is checked within 256 MiB."""
    stream = tmp_path / "events.jsonl"
    stream.write_bytes(gzip.compress(gzip.compress(START * 1_000_000)))
    command = [sys.executable, "-m", "faults.probe", "256", way, str(stream)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False, timeout=300
    )
    count("inputs fuzzed")
    assert 0 == done.returncode, done.stderr[-400:]
    assert 0 == read(stream, mode="salvage").report.records


def test_h26_a_torn_gzip_member_gives_no_record() -> None:
    """Wherever a compressed log is cut, nothing of it is taken for a record, and every byte is accounted for."""
    packed = gzip.compress(START * 20, mtime=0) + bytes(10)
    for cut in range(len(packed) + 1):
        report = read(packed[:cut], mode="salvage").report
        count("inputs fuzzed")
        assert (0, cut) == (report.records, report.fragment_bytes + report.gap_bytes + report.committed_bytes)


@pytest.mark.parametrize("payload", [*PAYLOADS, "".join(map(chr, range(32))), "]]>", "\ud800", "\ufffe"])
def test_h35_text_in_a_report_in_xml_leaves_it_xml(payload: str) -> None:
    """What an adapter says may hold characters that XML cannot: the report of the corpus is XML all the same."""
    count("inputs fuzzed")
    text = f'<?xml version="1.0" encoding="UTF-8"?><failure message="{markup(payload)}">{markup(payload)}</failure>'
    root = ET.fromstring(text.encode())
    shown = (root.text or "") + root.attrib["message"]
    assert all(character.isprintable() for character in shown)
