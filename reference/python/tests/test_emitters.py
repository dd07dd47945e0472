"""The emitters to copy keep the promises of a durable writer, and what they write passes `check`."""

from __future__ import annotations

import errno
import math
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.files import resource_path

ROOT = Path(__file__).parents[3]
EMITTER = resource_path("reference/emitters", "toyspec_emitter.py")


@pytest.fixture(scope="module")
def emitter() -> Any:
    """Return the Python emitter as a module."""
    spec = spec_from_file_location("toyspec_emitter", EMITTER)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_run_of_the_emitter_has_no_findings(emitter: Any, tmp_path: Path) -> None:
    """A run that is started, killed and resumed is complete, and nothing in it is reported."""
    first = emitter.Run(tmp_path / "demo")
    assert first.start(config={"lr": 0.5})
    assert first.step(1, loss=2.5, accuracy=0.5)
    assert first.step(2, loss=math.nan, score=math.inf)
    assert first.log({"val/acc": 0.25}, step=2)
    first.close()
    again = emitter.Run(tmp_path / "demo", exist="resume")
    assert again.resume()
    assert again.step(3, loss=1.5)
    assert again.end()
    (report,) = toyspec.check(tmp_path / "demo").files
    assert ("complete", []) == (report.state, list(report.findings))
    records = list(toyspec.read(tmp_path / "demo"))
    assert {"loss": "nan", "extra/score": "inf"} == records[2]["nonfinite"]
    assert {"accuracy": 0.5} == records[1]["extra"]


def test_emitter_raises_nothing(emitter: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A call that cannot write returns False, says why, and the run goes on."""
    run = emitter.Run(tmp_path / "demo")
    assert run.start()
    for record in ({"kind": "step", "step": "1"}, {"kind": "mine", "x": object()}, {"kind": "note", "text": "\ud800"}):
        assert not run.write(record)
        assert str(tmp_path) in run.error
    assert 1 == capsys.readouterr().err.count("toyspec:")
    assert run.step(1, loss=0.5)
    assert not emitter.Run(tmp_path / "demo").start()


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("cpp", "toyspec_emitter.hpp"),
        ("csharp", "ToyspecEmitter.cs"),
        ("java", "ToyspecEmitter.java"),
        ("javascript", "toyspec_emitter.mjs"),
        ("lua", "toyspec_emitter.lua"),
        ("python", "toyspec_emitter.py"),
    ],
)
def test_command_prints_the_emitter(language: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What `toyspec emitter` prints is the file."""
    assert 0 == main(["emitter", language])
    assert Path(resource_path("reference/emitters", name)).read_text() == capsys.readouterr().out


def cpp_program(folder: Path) -> str:
    """Return the command of the C++ program, which is built in *folder* with sanitizers."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        assert "CI" not in os.environ, "no C++ compiler: apt install g++"
        pytest.skip("no C++ compiler: apt install g++")
    program = folder / "cpp_writer"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    source = ROOT / "reference/emitters/conform/cpp_writer.cpp"
    subprocess.run([compiler, *options, "-o", str(program), str(source)], check=True, timeout=300)
    return str(program)


def java_program(folder: Path) -> str:
    """Return the command of the Java program, which is built in *folder*."""
    if shutil.which("javac") is None:
        assert "CI" not in os.environ, "no Java compiler: apt install default-jdk-headless"
        pytest.skip("no Java compiler: apt install default-jdk-headless")
    sources = [ROOT / "reference/emitters" / name for name in ("ToyspecEmitter.java", "conform/JavaWriter.java")]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(folder), *map(str, sources)], check=True, timeout=300)
    return f"java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {folder} JavaWriter"


def javascript_program(_: Path) -> str:
    """Return the command of the JavaScript program."""
    if shutil.which("node") is None:
        assert "CI" not in os.environ, "no Node: apt install nodejs"
        pytest.skip("no Node: apt install nodejs")
    return f"node {ROOT / 'reference/emitters/conform/javascript_writer.mjs'}"


def deno_program(_: Path) -> str:
    """Return the command of the JavaScript program in Deno, which CI does not have."""
    if shutil.which("deno") is None:
        pytest.skip("no Deno: npm install --global deno")
    return f"deno run --quiet --allow-all {ROOT / 'reference/emitters/conform/javascript_writer.mjs'}"


def python_program(_: Path) -> str:
    """Return the command of the Python program."""
    return f"{sys.executable} {ROOT / 'reference/emitters/conform/python_writer.py'}"


def lua_program(_: Path) -> str:
    """Return the command of the Lua program."""
    if shutil.which("luajit") is None:
        assert "CI" not in os.environ, "no LuaJIT: apt install luajit"
        pytest.skip("no LuaJIT: apt install luajit")
    return f"luajit {ROOT / 'reference/emitters/conform/lua_writer.lua'}"


def csharp_program(folder: Path) -> str:
    """Return the command of the C# program, which is built in *folder*."""
    if shutil.which("mcs") is None or shutil.which("mono") is None:
        assert "CI" not in os.environ, "no C# compiler: apt install mono-mcs mono-runtime"
        pytest.skip("no C# compiler: apt install mono-mcs mono-runtime")
    program = folder / "writer.exe"
    sources = [ROOT / "reference/emitters" / name for name in ("ToyspecEmitter.cs", "conform/CsharpWriter.cs")]
    subprocess.run(["mcs", "-warn:4", "-warnaserror", f"-out:{program}", *map(str, sources)], check=True, timeout=300)
    # Mono itself makes a file in shared memory, which a limit of file size does not let it.
    return f"env MONO_DISABLE_SHARED_AREA=1 mono {program}"


NO_EXCEPTION = "interrupt=no exception arrives inside a call"
NO_LOCKS = "locks=JavaScript has no file locks"
PROGRAMS = {
    "cpp": (cpp_program, [NO_EXCEPTION]),
    "csharp": (csharp_program, [NO_EXCEPTION]),
    "deno": (deno_program, [NO_EXCEPTION, NO_LOCKS, "count=Deno repeats a write that takes nothing"]),
    "java": (java_program, [NO_EXCEPTION, "flock=Java has record locks alone"]),
    "javascript": (javascript_program, [NO_EXCEPTION, NO_LOCKS]),
    "lua": (lua_program, []),
    "python": (python_program, []),
}
"""How each program is started, and what its language cannot do."""
KNOWN: dict[str, tuple[str, ...]] = {
    "deno": ("a part of a line cannot be removed",),  # a limit ends Deno under strace before it runs the program
}
"""Failures that a language cannot help."""


@pytest.mark.slow
@pytest.mark.parametrize("language", PROGRAMS)
def test_emitter_is_a_durable_writer(language: str, tmp_path: Path) -> None:
    """Full disks, kills, locks, failed syncs and the other faults of the table are met."""
    build, missing = PROGRAMS[language]
    lacks = [word for reason in missing for word in ("--lacks", reason)]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "faults", "--program", build(tmp_path), *lacks],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith("- not ok: ")]
    assert [] == [line for line in failed if not any(known in line for known in KNOWN.get(language, ()))], done.stdout
    assert done.returncode == bool(failed), done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_stream_of_an_ended_run_is_free_while_a_child_lives(emitter: Any, tmp_path: Path) -> None:
    """A worker that was forked has the file open, too: its life does not keep the locks of a run that ended."""
    run = emitter.Run(tmp_path / "demo")
    assert run.start()
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tells)
        os.read(told, 1)
        os._exit(0)
    try:
        assert run.end()
        again = emitter.Run(tmp_path / "demo", exist="resume")
        assert again.error is None
        again.close()
    finally:
        os.close(tells)
        os.waitpid(child, 0)
        os.close(told)


def test_log_that_lacks_records_has_a_finding(emitter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that did not fit is counted in the log, which `check` then does not call clean."""
    run = emitter.Run(tmp_path / "demo")
    assert run.start()
    with monkeypatch.context() as full:

        def no_room(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(emitter.os, "write", no_room)
        assert not run.step(1, loss=0.5)
    assert run.step(2, loss=0.5)
    assert run.end()
    (report,) = toyspec.check(tmp_path / "demo").files
    assert {"records-dropped"} <= {finding.rule for finding in report.findings}
