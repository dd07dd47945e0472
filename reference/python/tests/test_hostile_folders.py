"""Folders from elsewhere that are made to run code, to write elsewhere, or to hang who looks at them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import toyspec
from hostile_folders import (
    SPECIAL,
    STREAM,
    attack_viewer,
    ended,
    found_by,
    hostile_stores,
    lines,
    status_of,
    tool_questions,
)
from loopback_hub import NAME, known_hub
from loopback_store import BUCKET, Store
from run_streams import with_stream
from toyspec.catalog.layout import LAYOUT, read_manifest
from toyspec.core.command_line.main import main
from toyspec.core.errors import StreamUnreadableError
from toyspec.core.programs import PIPE, ask_git, start_python
from toyspec.core.reading.configuration import distrust, find_configuration
from toyspec.core.writing.environment import git_revision
from toyspec.health.actions import actions_by

ENDED = STREAM + b'{"kind":"run_end","t":2.0,"reason":"completed"}\n'
SCRIPT = Path(sys.executable).with_name("toyspec")
OPTIONAL = ("pyarrow", "duckdb", "trackio", "wandb", "mlflow", "numpy", "tensorboard", "yaml", "PIL", "obstore", "ray")
STANDARD = ("multiprocessing", "pickle", "signal", "json", "typing", "random", "threading", "copyreg")


def hostile_modules(directory: Path, names: tuple[str, ...]) -> Path:
    """Write modules of *names* that leave a mark in *directory* when they are run; return where."""
    marks = directory / "marks"
    marks.mkdir()
    for name in names:
        (directory / f"{name}.py").write_text(f"import os\nos.close(os.open({str(marks / name)!r}, os.O_CREAT))\n")
    return marks


def questions(asked: list[list[str]], run: Callable[[list[str]], int] = main) -> dict[str, Callable[[], int]]:
    """Return what runs each command, by its words."""
    return {" ".join(each): partial(run, each) for each in asked}


def table(*names: str) -> bytes:
    """Return what looks like a Parquet table with columns of *names*."""
    footer = b"".join(bytes([len(name)]) + name.encode() for name in names)
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@pytest.mark.skipif(not SCRIPT.exists(), reason="needs the installed command")
@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "toyspec"]], ids=["toyspec", "python -m"])
def test_files_of_the_working_directory_are_not_imported(command: list[str], tmp_path: Path) -> None:
    """No library that a command needs is found there; export and import need most of them."""
    with_stream(tmp_path / "a", STREAM)
    marks = hostile_modules(tmp_path, OPTIONAL)
    exports = [["export", "a", "--to", name, "-o", f"to-{name}"] for name in ("wandb", "mlflow")]
    for words in (["doctor", "."], ["import", ".", "-o", "in"], *exports, ["view", "--help"], ["query", "SELECT 1"]):
        subprocess.run([*command, *words], cwd=tmp_path, check=False, capture_output=True, timeout=120)
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
            from toyspec.core.workers.processes import Processes

            if __name__ == "__main__":
                crew = Processes(1, "spawn").start(sorted)
                print(crew.submit([2, 1]).result())
                crew.close()
        """)
    )
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=120, check=True
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
    revision = git_revision()
    assert [] == os.listdir(marks)
    assert revision is not None
    assert revision.dirty is True


def test_a_git_of_the_working_directory_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the path of programs names the working directory."""
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{os.pathsep}{os.environ['PATH']}")
    ask_git(".", "status")
    assert not (tmp_path / "ran").exists()


def test_attacks_are_read_by_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is refused for how it is written attacks nothing."""
    with_stream(tmp_path / "a", STREAM)
    monkeypatch.chdir(tmp_path)
    for words in lines("a"):
        status, said = main(words), capsys.readouterr().err
        assert status != 2 or said.startswith(f"toyspec {words[0]}: a: ") or "pip install" in said, said


# Special files in the place of every file that is read.


BESIDE = (
    "annotations.jsonl", "run.json", "flow.json", "SHA256SUMS", "events.rank1.jsonl", "media",
    "trainer_state.json", "mlflow.db", "trackio.db", "meta.yaml", "events.out.tfevents.1.host", "run-a.wandb",
    "values.parquet", "runs.parquet", "catalog.json", "log.csv", "progress.csv", "log.txt", "metrics.jsonl", ".git",
    "dvclive.json", "events.jsonl.gz", "data.aim", "results.json", "part-0.jsonl", "environment.json",
)  # fmt: skip


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with a run whose log is special, one with a log beside special files, and such files alone."""
    make = SPECIAL[request.param]
    for name in ("log", "beside", "alone"):
        (tmp_path / name).mkdir()
    make(tmp_path / "log" / "events.jsonl")
    make(tmp_path / "log" / "events.rank1.jsonl")
    (tmp_path / "beside" / "events.jsonl").write_bytes(STREAM)
    for name in BESIDE:
        make(tmp_path / "beside" / name)
        make(tmp_path / "alone" / name)
    return tmp_path


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["fifo", pytest.param("device", marks=pytest.mark.slow)], indirect=True)
def test_no_command_waits_for_a_special_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has the name of a log or of a file beside one: each command ends, without an internal error."""
    monkeypatch.chdir(folder)
    asked = [words for place in ("log", "beside", ".") for words in lines(place)]
    assert [] == found_by("commands on special files", questions(asked))


@pytest.mark.parametrize("engine", ["native", "python"])
def test_each_special_log_below_a_folder_is_named(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every search for runs, beside the runs that can be read."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    for name, make in SPECIAL.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / "events.jsonl")
    with_stream(tmp_path / "run", STREAM)
    told = {
        "fifo": "a FIFO",
        "device": "a device",
        "terminal": "a device",
        "socket": "a socket",
        "loop": "symbolic links",
    }
    for errors in (
        toyspec.list_runs(tmp_path).errors,
        toyspec.build_catalog(tmp_path, out=tmp_path / "catalog").errors,
    ):
        said = {Path(each.path).parent.name: each.message for each in errors}
        assert dict.fromkeys(told, True) == {name: told[name] in said[name] for name in said}
    assert main(["check", str(tmp_path)]) == 2


@pytest.mark.posix
@pytest.mark.parametrize("folder", ["fifo", "device"], indirect=True)
def test_no_tool_of_an_agent_waits_for_a_special_file(folder: Path) -> None:
    """Each answers or refuses."""
    places = ("log", "beside", "alone", "log/events.jsonl")
    assert [] == found_by("tools on special files", tool_questions(folder, places))


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of stores from elsewhere, where it runs; in the end nothing of it ran, and all else is as it was.

    Links of it lead to a log outside of it.
    """
    outside, folder = tmp_path / "outside", tmp_path / "received"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret").write_bytes(STREAM.replace(b'"a"', b'"outside"'))
    hostile_stores(folder)
    marks = hostile_modules(folder, OPTIONAL + STANDARD)
    before = _tree(outside), sorted(os.listdir(tmp_path))
    monkeypatch.chdir(folder)
    yield folder
    assert [] == os.listdir(marks)
    assert before == (_tree(outside), sorted(os.listdir(tmp_path)))


@pytest.mark.posix
@pytest.mark.slow
def test_stores_from_elsewhere_are_safe_to_look_at(received: Path) -> None:
    """Each command ends, without an internal error."""
    places = [".", *_folders(received)]
    asked = [words for place in places for words in lines(place) if place == "." or words[0] in _OPENING]
    assert [] == found_by("commands on stores", questions(asked))


@pytest.mark.posix
@pytest.mark.slow
def test_stores_from_elsewhere_are_safe_for_an_agent(received: Path) -> None:
    """Each tool answers or refuses, with nothing of what links lead to."""
    places = (*_folders(received), "links/events.jsonl", "../outside", "/etc", "\0", "x" * 5000)
    assert [] == found_by("tools on stores", tool_questions(received, places))


@pytest.mark.posix
@pytest.mark.slow
def test_stores_from_elsewhere_are_safe_to_view(received: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each request is answered or refused, with nothing of what links lead to."""
    cache = tmp_path_factory.mktemp("cache")
    assert "0" == ended(lambda: attack_viewer(received, cache), 300.0)


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


_NOT_PATHS = ("..", "../../outside", ".")


def _objects(folder: Path) -> dict[str, bytes]:
    """Return the files of *folder*, and logs whose names are paths here and mean something else elsewhere."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    found = {f"runs/{path.relative_to(folder)}": path.read_bytes() for path in files if path.name.isprintable()}
    for name in ("\u202e", "~", "%2e%2e%2fa", "..\\..\\b", "$(touch x)", "x" * 200):
        found[f"runs/{name}/events.jsonl"] = STREAM
    return found


@pytest.mark.posix
@pytest.mark.slow
def test_objects_from_elsewhere_are_safe_to_look_at(store: Store, received: Path) -> None:
    """What is in them does nothing here, nor do their names."""
    for name, data in _objects(received).items():
        store.put(name, data)
    asked = [words for place in (f"s3://{BUCKET}/runs", f"s3://{BUCKET}/runs/sealed") for words in lines(place)]
    # Programs of their own: what has asked a store survives no fork, nor does its parent.
    assert [] == found_by("commands on objects", questions(asked, status_of))


@pytest.mark.posix
@pytest.mark.slow
def test_repositories_from_elsewhere_are_safe_to_look_at(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of Hugging Face has the same files under the same names."""
    with known_hub(_objects(received), monkeypatch):
        asked = lines(f"hf://{NAME}/runs")
        assert [] == found_by("commands on a repository", questions(asked))


@pytest.mark.parametrize("name", _NOT_PATHS)
def test_file_of_a_repository_with_a_name_that_is_not_a_path_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an object of a store."""
    with known_hub({"runs/a/events.jsonl": STREAM, f"runs/{name}/events.jsonl": STREAM}, monkeypatch):
        assert 2 == main(["ls", f"hf://{NAME}/runs"])
    said = capsys.readouterr().err
    assert "an object has a name that is not a path" in said
    assert said.rstrip("\n").isprintable()


@pytest.mark.parametrize("name", [*_NOT_PATHS, "a//b", "a\nb: status code: 200"])
def test_object_with_a_name_that_is_not_a_path_is_named(
    name: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of its names is followed; the answer says which object it is."""
    store.put("runs/a/events.jsonl", STREAM)
    store.put(f"runs/{name}/events.jsonl", STREAM)
    assert 2 == main(["ls", f"s3://{BUCKET}/runs"])
    said = capsys.readouterr().err
    assert "an object has a name that is not a path" in said
    assert said.rstrip("\n").isprintable()


_OPENING = ("check", "show", "ls", "import", "doctor", "digest", "report")
"""Commands that open each store by itself too."""


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.posix
@pytest.mark.parametrize("name", ["toyspec.toml", "pyproject.toml"])
def test_settings_that_are_a_fifo_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kind of file that was found, by every command."""
    os.mkfifo(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert "2" == ended(lambda: main(["ls", "."]))


def test_only_a_fifo_that_is_named_is_waited_for(tmp_path: Path) -> None:
    """In a folder that was named it is refused."""
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StreamUnreadableError, match="a FIFO, not a regular file"):
        toyspec.read(tmp_path)
    writer = threading.Thread(target=(tmp_path / "events.jsonl").write_bytes, args=(STREAM,))
    writer.start()
    assert 2 == len(list(toyspec.read(tmp_path / "events.jsonl")))
    writer.join()


def test_files_are_opened_in_one_place() -> None:
    """Only core/files.py can refuse what is not a file, and only core/directories.py what leads elsewhere.

    The linter refuses the calls of ``os`` and ``shutil`` elsewhere, but not this one. Resources are files of the
    package, and a number is open.
    """
    package = Path(toyspec.__file__).parent
    homes = {"core/directories.py", "core/files.py", "trainer/language_model.py", "core/command_line/main.py"}
    opens = re.compile(r'(?<!def )(?<![\w.])open\((?!open_stream|"/(?:proc|sys)/)|\.(?:write_text|write_bytes)\(')
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if opens.search(path.read_text("utf-8"))}
    assert homes == found


# Settings of another user.


ALERTS = '[[alerts]]\ncommand = "touch"\n'


@pytest.mark.posix
@pytest.mark.parametrize(
    ("mode", "owner", "fact"),
    [
        (0o644, 0, ""),
        (0o664, 0, "other users may write the file"),
        (0o646, 0, "other users may write the file"),
        (0o644, 4321, "the file belongs to another user"),
    ],
)
def test_settings_that_others_may_write_are_not_obeyed(
    mode: int, owner: int, fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user allows the file."""
    settings = tmp_path / "toyspec.toml"
    settings.write_text(ALERTS)
    settings.chmod(mode)
    if owner:
        monkeypatch.setattr(os, "geteuid", lambda: owner)
        monkeypatch.setattr(os, "stat", lambda _: os.stat_result([mode, 0, 0, 1, owner + 1, 0, 0, 0, 0, 0]))
    assert fact == (distrust(str(settings)) or "")
    monkeypatch.setenv("TOYSPEC_SAFE_SETTINGS", str(settings))
    assert distrust(str(settings)) is None


def test_commands_of_settings_in_the_folder_of_runs_are_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever made the folder would choose what is run."""
    (tmp_path / "toyspec.toml").write_text(ALERTS)
    (tmp_path / "toyspec.toml").chmod(0o644)
    assert () == actions_by(find_configuration(str(tmp_path)), str(tmp_path))
    assert "the file is in the folder of runs that is watched" in capsys.readouterr().err
    assert 1 == len(actions_by(find_configuration(str(tmp_path)), str(tmp_path / "runs")))


# Links in the place of every file that is written.


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with files, to which nothing happens."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("a.parquet", "a.records", "file"):
        (folder / name).write_bytes(STREAM)
    before = _tree(folder)
    yield folder
    assert before == _tree(folder)


def test_what_is_written_beside_a_log_follows_no_link(tmp_path: Path, outside: Path) -> None:
    """The seal and what is replaced take the place of a link; annotations are refused."""
    run = tmp_path / "run"
    with_stream(run, ENDED)
    for name in ("SHA256SUMS.new", "annotations.jsonl"):
        (run / name).symlink_to(outside / "file")
    with pytest.raises(OSError, match="annotations"):
        toyspec.annotate(run, name="x")
    (run / "annotations.jsonl").unlink()
    (run / "annotations.jsonl").symlink_to(outside / "new")
    with pytest.raises(OSError, match="annotations"):
        toyspec.annotate(run, name="x")
    with toyspec.start_run(tmp_path, run_id="run", exist="resume") as again:
        again.step(step=2, loss=1.0)
    toyspec.seal(run)


@pytest.mark.parametrize("name", ["events.jsonl", "media", "artifacts", "events.jsonl.torn-105"])
def test_writer_follows_no_link(name: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that goes on, is repaired or replaced: the log, what is beside it, and the folders of files."""
    run = tmp_path / "run"
    run.mkdir()
    if name != "events.jsonl":
        (run / "events.jsonl").write_bytes(STREAM + b"torn" * ("torn" in name))
    (run / name).symlink_to(outside / "file" if "." in name else outside)
    (tmp_path / "notes.txt").write_text("notes")
    with toyspec.start_run(tmp_path, run_id="run", exist="resume") as again:
        again.log({"loss": 1.0, "note": toyspec.File(b"notes", "text/plain")}, step=2)
        again.artifact(tmp_path / "notes.txt", copy=True)
    for words in (["repair", "run", "--yes"], ["seal", "run"]):
        monkeypatch.chdir(tmp_path)
        main(words)
    with toyspec.start_run(tmp_path, run_id="run", exist="replace"):
        pass


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (".toyspec", "mirror a --to tensorboard --into tb --backfill --patience 1"),
        ("tb/a", "mirror a --to tensorboard --into tb --backfill --patience 1"),
        ("copy/a", "sync . copy"),
        ("in/a", "import log.csv --out in"),
        ("in/.import-a", "import log.csv --out in"),
        ("out/a", "export tensorboard a --out out"),
    ],
)
def test_commands_write_through_no_link(
    link: str, words: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is in the folder in which they write."""
    folder = tmp_path / "a"
    with_stream(folder / "a", ENDED)
    (folder / "log.csv").write_text("step,loss\n1,2.0\n")
    (folder / "lines.jsonl").write_text('{"s":1,"l":2.0}\n{"s":2,"l":2.0}\n')
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(outside / "new" if "." in link[1:] and "import" not in link else outside)
    monkeypatch.chdir(folder)
    main(words.split())


def test_name_of_a_run_leads_nowhere(tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destination makes folders of it, also while a run is mirrored."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").write_bytes(ENDED.replace(b'"a"', b'"../../outside/a"'))
    monkeypatch.chdir(tmp_path)
    assert 0 == main(["mirror", "a", "--to", "tensorboard", "--into", "to/tb", "--backfill"])
    assert ["outside-a"] == os.listdir(tmp_path / "to" / "tb")


@pytest.mark.parametrize(
    "name", ["values", "names", "runs", "index", "runs/00001.parquet", ".lock", "catalog.json.new"]
)
def test_catalog_writes_and_deletes_through_no_link(name: str, tmp_path: Path, outside: Path) -> None:
    """A received catalog with a link in it is refused, or the link is replaced."""
    pytest.importorskip("duckdb")
    with_stream(tmp_path / "runs" / "a", STREAM)
    toyspec.build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    place = tmp_path / "catalog" / name
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(outside / "new" if "." in name else outside)
    with contextlib.suppress(toyspec.CatalogError, OSError):
        toyspec.update_catalog(tmp_path / "catalog")


@pytest.mark.parametrize("name", ["../outside/a.parquet", "/etc/passwd", "runs/../../a.parquet", "runs//a", "other/a"])
def test_manifest_names_no_file_outside_of_its_catalog(name: str, tmp_path: Path) -> None:
    """It is refused by that name."""
    (tmp_path / "catalog.json").write_text(json.dumps({"catalog": LAYOUT, "roots": [], "runs": [name]}))
    with pytest.raises(toyspec.CatalogError, match="not a file of a catalog"):
        read_manifest(str(tmp_path))
