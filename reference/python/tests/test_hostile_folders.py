"""Folders from elsewhere that are made to run code, to write elsewhere, or to hang who looks at them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from toyspec.programs import PIPE, ask_git, start_python
from toyspec.writing.environment import git_revision, uncommitted_changes

SCRIPT = Path(sys.executable).with_name("toyspec")
OPTIONAL = ("pyarrow", "duckdb", "trackio", "wandb", "mlflow", "numpy", "tensorboard", "yaml", "PIL", "obstore", "ray")
STANDARD = ("multiprocessing", "pickle", "signal", "json", "typing", "random", "threading", "copyreg")
STREAM = b'{"kind":"run_start","t":0.0,"run_id":"a","schema":"toy/v1"}\n{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'


def hostile_modules(directory: Path, names: tuple[str, ...]) -> Path:
    """Write modules of *names* that leave a mark in *directory* when they are run; return where."""
    marks = directory / "marks"
    marks.mkdir()
    for name in names:
        (directory / f"{name}.py").write_text(f"import os\nos.close(os.open({str(marks / name)!r}, os.O_CREAT))\n")
    return marks


def table(*names: str) -> bytes:
    """Return what looks like a Parquet table with columns of *names*."""
    footer = b"".join(bytes([len(name)]) + name.encode() for name in names)
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.skipif(not SCRIPT.exists(), reason="needs the installed command")
@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "toyspec"]], ids=["toyspec", "python -m"])
def test_files_of_the_working_directory_are_not_imported(command: list[str], tmp_path: Path) -> None:
    """No library that a command needs is found there; export and import need most of them."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").write_bytes(STREAM)
    (tmp_path / "runs.parquet").write_bytes(table("run_id", "run_start"))
    (tmp_path / "values.parquet").write_bytes(table("run_id", "t", "step", "name", "value", "record"))
    marks = hostile_modules(tmp_path, OPTIONAL)
    exports = [["export", "a", "--to", name, "-o", f"to-{name}"] for name in ("parquet", "trackio", "wandb", "mlflow")]
    for words in (["doctor", "."], ["import", ".", "-o", "in"], *exports, ["view", "--help"], ["query", "SELECT 1"]):
        subprocess.run([*command, *words], cwd=tmp_path, check=False, capture_output=True, timeout=60)
    assert [] == os.listdir(marks)


def test_python_that_is_started_finds_no_module_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it runs a text or a module."""
    marks = hostile_modules(tmp_path, (*OPTIONAL, "toyspec"))
    monkeypatch.chdir(tmp_path)
    for words in (["-c", "import trackio"], ["-m", "wandb"]):
        with start_python(*words, stderr=PIPE) as process:
            process.communicate()
    assert [] == os.listdir(marks)


def test_workers_do_not_import_from_the_working_directory(tmp_path: Path) -> None:
    """A worker that begins as a new program takes the standard library's modules, and so does what it starts."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    marks = hostile_modules(folder, STANDARD)
    program = elsewhere / "program.py"
    program.write_text(
        textwrap.dedent("""
            from toyspec.distributed.processes import Processes

            if __name__ == "__main__":
                crew = Processes(1, "spawn").start(sorted)
                crew.submit(0, [2, 1])
                print(crew.finished()[0][1])
                crew.close()
        """)
    )
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert ("[1, 2]\n", []) == (done.stdout, os.listdir(marks))
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_repository_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings name programs for everything that git does; the revision and the changes are found without them."""
    marks = tmp_path / "marks"
    marks.mkdir()
    folder, inner = tmp_path / "folder", tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for place in (inner, folder):
        (place / "train.py").write_text("lr = 1\n")
        for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
            subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
        (place / ".git" / "info").mkdir(exist_ok=True)
        (place / ".git" / "info" / "attributes").write_text(f"* filter={place.name} diff=evil\n")
    (folder / "train.py").write_text("lr = 2\n")

    def mark(name: str) -> str:
        return f"touch {marks / name}; cat"

    hook = folder / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\n{mark('hook')}\n")
    hook.chmod(0o755)
    for place in (inner, folder):
        for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.evil.textconv", "diff.evil.command"):
            subprocess.run(["git", "config", key, mark(f"{place.name}-{key}")], cwd=place, check=True)
        for key in ("clean", "smudge", "process"):
            subprocess.run(
                ["git", "config", f"filter.{place.name}.{key}", mark(f"{place.name}-{key}")], cwd=place, check=True
            )
    subprocess.run(["git", "config", "filter.folder.required", "true"], cwd=folder, check=True)
    for place in (inner, folder):
        os.utime(place / "train.py", (1, 1))
    monkeypatch.chdir(folder)
    revision, changes = git_revision(), uncommitted_changes(1 << 20)
    assert [] == os.listdir(marks)
    assert revision is not None
    assert revision.dirty is True
    assert changes is not None
    assert changes.endswith("-lr = 1\n+lr = 2\n")


def test_a_git_of_the_working_directory_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the path of programs names the working directory."""
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{os.pathsep}{os.environ['PATH']}")
    ask_git(".", "status")
    assert not (tmp_path / "ran").exists()
