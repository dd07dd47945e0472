"""The reports that implementations publish, the tables made of them, and the workflow that makes them elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import command
from conformance.registry import ROOT
from conformance.reports.published import (
    REGISTRY,
    Entry,
    ReportError,
    read_report,
    registered,
    tables,
    tier,
    with_durable_writer,
    write_report,
)
from conformance.tests.adapters_for_tests import program

COUNTS = {"expected": 9, "passed": 9, "failed": 0, "known_failures": 0, "deviations": 0, "untestable": 0}
DURABLE = {"ok": 30, "not_ok": [], "left_out": {}}


def report(name: str = "a", at: str = "2026-01-02T03:04:05Z", durable: Any = None, **counts: int) -> dict[str, Any]:
    """Return a report of a reader."""
    corpus = {"revision": "1.3", "digest": "x", "cases": 9, "is_whole": True, "not_asked": ["without session"]}
    found = {"report": 1, "name": name, "language": "Lua", "version": "1.0", "at": at}
    found["corpus"] = corpus | {"roles": {"reader": COUNTS | counts}}
    return found | ({"durable_writer": durable} if durable else {})


@pytest.mark.parametrize(
    ("expected", "made"),
    [
        ("conforming", report()),
        ("conforming, durable, full", report(durable=DURABLE)),
        ("conforming, durable", report(durable=DURABLE, deviations=1)),
        ("conforming, durable", report(durable=DURABLE, untestable=1)),
        (
            "conforming, durable",
            report(durable=DURABLE) | {"corpus": report()["corpus"] | {"departs_from": ["stream/final-loss"]}},
        ),
        ("conforming, not durable", report(durable=DURABLE | {"not_ok": ["the disk is full"]})),
        ("does not conform", report(failed=1)),
        ("does not conform", report(known_failures=1)),
        ("does not conform", report(passed=0)),
        ("partly asked", report() | {"corpus": report()["corpus"] | {"is_whole": False}}),
        ("partly asked", report() | {"corpus": report()["corpus"] | {"roles": {}}}),
    ],
)
def test_tier_follows_from_the_report(expected: str, made: dict[str, Any]) -> None:
    """A tier is a rule."""
    assert expected == tier(made)


def test_report_of_an_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run writes a report that the tables take; what its writer does under injected failures is added to it."""
    body = "for request in ask():\n    say(oracle.answer(request) | {'id': request['id']})\n"
    path = str(tmp_path / "report.json")
    words = ["--adapter", " ".join(program(tmp_path, body)), "--select", "toy-v1/step-skipped"]
    command.main([*words, "--quiet", "--report", path, "--source", "https://example.org/a/commit/1"])
    write_report(path, with_durable_writer(path, "for-a-test", DURABLE))
    found = read_report(path)
    assert ("for-a-test", "https://example.org/a/commit/1", 30) == (
        found["name"],
        found["source"],
        found["durable_writer"]["ok"],
    )
    assert "partly asked" == tier(found)
    capsys.readouterr()
    (tmp_path / "for-a-test.toml").write_text('name = "for-a-test"\nlanguage = "Lua"\nrepository = "r"\n')
    assert 0 == command.main(["matrix", path, "--registry", str(tmp_path)])
    assert "| for-a-test (Lua), r |" in capsys.readouterr().out
    assert 0 == command.main(["matrix", path])
    assert "| for-a-test (Python), https://example.org/a/commit/1 |" in capsys.readouterr().out
    assert 0 == command.main(["matrix", path, "--registry", str(tmp_path / "none")])
    assert "for-a-test is not registered" in capsys.readouterr().err
    command.main([*words, "--quiet", "--report", path])
    assert DURABLE == read_report(path)["durable_writer"], "a second run lost what the first one has"


def test_tables_show_the_newest_report_and_the_way_there() -> None:
    """The first table has a row for each implementation, the second one every report."""
    old, new = report(at="2025-01-01T00:00:00Z", failed=2), report() | {"version": "2.0"}
    lines = list(tables([old, new, report("not-registered")], [Entry("a", "Lua", "https://example.org/<b>")]))
    first, _, second = "\n".join(lines).partition("\n\n")
    assert "| 2.0 | conforming | 1.3 | 9 of 9 |" in first
    assert "without session" in first
    assert "<b>" not in first
    assert ["2026-01-02", "2025-01-01"] == re.findall(r"\d{4}-\d\d-\d\d", second)
    assert "not-registered" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        ("is not JSON", b"{"),
        ("is not JSON", b"[" * 100_000),
        ("is not a report at \\$", b"[]"),
        ("is not a report at \\$.report", json.dumps(report() | {"report": 2}).encode()),
        ("is not a report at \\$.corpus.roles.reader.failed", json.dumps(report(failed=-1)).encode()),
        ("more than 1048576 bytes", b" " * 2_000_000),
    ],
)
def test_hostile_report_is_refused(expected: str, content: bytes, tmp_path: Path) -> None:
    """A file that is not a report is refused, with the place in it."""
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=expected):
        read_report(str(path))


@pytest.mark.parametrize(
    ("expected", "name", "content"),
    [
        ("is not TOML", "a.toml", "="),
        ("exactly the texts language, name, repository", "a.toml", 'name = "a"\n'),
        ("named after its implementation: b.toml", "a.toml", 'name = "b"\nlanguage = "Lua"\nrepository = "r"\n'),
    ],
)
def test_wrong_entry_is_refused(expected: str, name: str, content: str, tmp_path: Path) -> None:
    """An entry of the registry has three texts, and the name of its file."""
    (tmp_path / name).write_text(content)
    with pytest.raises(ReportError, match=expected):
        registered(str(tmp_path))


def test_page_has_the_published_reports() -> None:
    """The page of the site is what `toyspec conform matrix` makes of the registry."""
    reports = [read_report(str(path)) for path in sorted(Path(REGISTRY).glob("*.json"))]
    page = Path(ROOT, "docs/reference/conformance.md").read_text(encoding="utf-8")
    part = page.partition("<!-- generated:published -->\n\n")[2].partition("\n\n<!-- /generated -->")[0]
    assert "\n".join(tables(reports, registered())) == part, "run `nox -s published`"


def run_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the workflow that an outsider calls, in *folder*."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load(Path(ROOT, ".github/workflows/conformance.yml").read_text(encoding="utf-8"))
    (script,) = (step["run"] for step in workflow["jobs"]["conformance"]["steps"] if step.get("name") == name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "SPECIFICATION": ROOT, "PATH": path, **inputs}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.slow
def test_workflow_in_the_repository_of_an_outsider(tmp_path: Path) -> None:
    """In a fresh repository with the C++ emitter the steps of the workflow leave a report that the matrix takes."""
    if shutil.which("g++") is None or shutil.which("strace") is None:
        assert "CI" not in os.environ, "g++ and strace are needed: apt install g++ strace"
        pytest.skip("no g++ or strace: apt install g++ strace")
    emitters = Path(ROOT, "reference/emitters")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "src").mkdir()
    shutil.copy(emitters / "toyspec_emitter.hpp", tmp_path)
    shutil.copy(emitters / "conform/cpp_writer.cpp", tmp_path / "src")
    inputs = {
        "BUILD": "g++ -std=c++17 -O1 -o lab-writer src/cpp_writer.cpp",
        "PROGRAM": "./lab-writer",
        "LACKS": "interrupt=no exception arrives inside a call\n",
        "NAME": "report",
        "SOURCE": "https://example.org/commit/1",
    }
    for name in ("build", "inject failures"):
        done = run_step(name, tmp_path, **inputs)
        assert 0 == done.returncode, done.stdout + done.stderr
    (tmp_path / "lab-writer.toml").write_text('name = "lab-writer"\nlanguage = "C++"\nrepository = "r"\n')
    found = read_report(str(tmp_path / "report.json"))
    assert ("durable alone", "https://example.org/commit/1") == (tier(found), found["source"])
    (row,) = (line for line in tables([found], registered(str(tmp_path))) if "lab-writer" in line)
    assert ("| durable alone |" in row, row.endswith("| the corpus |")) == (True, True)


@pytest.mark.slow
def test_workflow_asks_the_corpus(tmp_path: Path) -> None:
    """The step that asks leaves the report, the badge and the results for CI, also for an adapter that fails."""
    adapter = program(tmp_path, "for request in ask():\n    say({'id': request['id'], 'untestable': 'all'})\n")
    source = "https://example.org/lab/commit/1"
    run_step("ask the corpus", tmp_path, ADAPTER=" ".join(adapter), REVISION="1.2", SOURCE=source, NAME="lab")
    assert {"lab.json", "lab.svg", "lab.xml"} <= {path.name for path in tmp_path.iterdir()}
    assert "does not conform" == tier(read_report(str(tmp_path / "lab.json")))
