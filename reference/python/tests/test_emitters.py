"""The emitters to copy keep the promises of a durable writer, and what they write passes `check`."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

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


EMITTERS = ROOT / "reference/emitters"


class Language(NamedTuple):
    """How the program of a language is built and started, and what it cannot do."""

    tools: dict[str, str]
    """Tools that it needs, each with what installs it."""
    start: str
    """The command; FOLDER is where it is built."""
    build: str = ""
    lacks: tuple[str, ...] = ()

    def program(self, folder: Path) -> str:
        """Return the command of the program, which is built in *folder*; skip without its tools, which CI has."""
        for tool, install in self.tools.items():
            if shutil.which(tool) is None:
                assert "CI" not in os.environ or tool == "deno", f"no {tool}: {install}"
                pytest.skip(f"no {tool}: {install}")
        if self.build:
            command = self.build.replace("FOLDER", str(folder)).split()
            subprocess.run(command, cwd=EMITTERS, check=True, timeout=300)
        return self.start.replace("FOLDER", str(folder))


NO_EXCEPTION = "interrupt=no exception arrives inside a call"
NO_LOCKS = "locks=JavaScript has no file locks"
JAVASCRIPT = str(EMITTERS / "conform/javascript_writer.mjs")
JAVA = "apt install default-jdk-headless"
MONO = "apt install mono-mcs mono-runtime"
PROGRAMS = {
    # With sanitizers.
    "cpp": Language(
        {"c++": "apt install g++"},
        "FOLDER/cpp_writer",
        "c++ -std=c++17 -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -o FOLDER/cpp_writer"
        " conform/cpp_writer.cpp",
        (NO_EXCEPTION,),
    ),
    # Mono itself makes a file in shared memory, which a limit of file size does not let it.
    "csharp": Language(
        {"mcs": MONO, "mono": MONO},
        "env MONO_DISABLE_SHARED_AREA=1 mono FOLDER/writer.exe",
        "mcs -warn:4 -warnaserror -out:FOLDER/writer.exe ToyspecEmitter.cs conform/CsharpWriter.cs",
        (NO_EXCEPTION,),
    ),
    # CI does not have it.
    "deno": Language(
        {"deno": "npm install --global deno"},
        f"deno run --quiet --allow-all {JAVASCRIPT}",
        lacks=(NO_EXCEPTION, NO_LOCKS, "count=Deno repeats a write that takes nothing"),
    ),
    "java": Language(
        {"javac": JAVA},
        "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp FOLDER JavaWriter",
        "javac -Xlint:all -Werror -d FOLDER ToyspecEmitter.java conform/JavaWriter.java",
        (NO_EXCEPTION, "flock=Java has record locks alone"),
    ),
    "javascript": Language({"node": "apt install nodejs"}, f"node {JAVASCRIPT}", lacks=(NO_EXCEPTION, NO_LOCKS)),
    "lua": Language({"luajit": "apt install luajit"}, f"luajit {EMITTERS / 'conform/lua_writer.lua'}"),
    "python": Language({}, f"{sys.executable} {EMITTERS / 'conform/python_writer.py'}"),
}
KNOWN: dict[str, tuple[str, ...]] = {
    "deno": ("a part of a line cannot be removed",),  # a limit ends Deno under strace before it runs the program
}
"""Failures that a language cannot help."""


@pytest.mark.slow
@pytest.mark.parametrize("language", PROGRAMS)
def test_emitter_is_a_durable_writer(language: str, tmp_path: Path) -> None:
    """Full disks, kills, locks, failed syncs and the other faults of the table are met."""
    lacks = [word for reason in PROGRAMS[language].lacks for word in ("--lacks", reason)]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "faults", "--program", PROGRAMS[language].program(tmp_path), *lacks],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith("- not ok: ")]
    assert [] == [line for line in failed if not any(known in line for known in KNOWN.get(language, ()))], done.stdout
    assert done.returncode == bool(failed), done.stdout + done.stderr


@pytest.mark.posix
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
