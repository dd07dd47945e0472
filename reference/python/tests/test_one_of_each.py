"""A folder with one of each format: doctor names all of them, and nothing that is not there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec_within as toyspec
from conversions import SAMPLES, samples
from sample_rows import SAMPLES as DIALECTS
from sample_rows import SOURCES, sample_of
from toyspec import list_runs
from toyspec.convert import import_runs
from toyspec.convert.finding import FORMATS
from toyspec.core.command_line.main import main
from toyspec.logs.dialects import dialects

# The samples of toyspec's own formats; those of other formats are named after them.
PROFILES = {"toy": "toy/v1", "kaun": "kaun/v1", "metrics": "metrics/v1"}


def one_of_each(folder: Path) -> dict[tuple[str, str], str]:
    """Fill *folder* with one of each, and return in which directory each format is."""
    found: dict[tuple[str, str], str] = {}
    for name in SOURCES:
        place = folder / "dialects" / sample_of(name).relative_to(DIALECTS)
        place.parent.mkdir(parents=True)
        shutil.copy(sample_of(name), place)
        found["dialect", name] = f"dialects/{name}"
    for sample in samples():
        shutil.copytree(sample, folder / "programs" / sample.name, ignore=shutil.ignore_patterns("*.py", "*.ml"))
        sort = "profile" if sample.name in PROFILES else "foreign"
        # A run of munin is read as it lies, its settings file counts with its events.
        if sample.name != "munin":
            found[sort, PROFILES.get(sample.name, sample.name)] = f"programs/{sample.name}"
    return found


def lying(folder: Path) -> list[dict[str, Any]]:
    """Return what doctor finds in *folder*, as its JSON says it."""
    done = toyspec("doctor", "--json", str(folder))
    assert 0 == done.returncode
    formats: list[dict[str, Any]] = json.loads(done.stdout)["paths"][0]["formats"]
    return formats


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str], str]]:
    """Return a folder with one of each, and where each is."""
    root = tmp_path_factory.mktemp("one-of-each")
    return root, one_of_each(root)


def test_doctor_names_one_of_each(folder: tuple[Path, dict[tuple[str, str], str]]) -> None:
    """Each format is found, at its place and nowhere else."""
    root, expected = folder
    found = {(each["sort"], each["format"]): each["examples"] for each in lying(root)}
    assert sorted(expected) == sorted(found)
    for key, place in expected.items():
        places = [root / place, root / "programs" / "munin"] if key == ("dialect", "munin") else [root / place]
        for example in found[key]:
            assert any(map(Path(example).is_relative_to, places)), f"{key} is not in {place}"


def test_a_run_of_several_files_is_named_once(folder: tuple[Path, dict[tuple[str, str], str]]) -> None:
    """The settings beside the events of a run of munin are not a second format that has to be imported."""
    root, _ = folder
    (munin,) = lying(root / "programs" / "munin")
    names = sorted(path.name for path in (root / "programs" / "munin").rglob("*") if path.is_file())
    assert ("dialect", "munin", 1, 1) == (munin["sort"], munin["format"], munin["files"], munin["beside"])
    assert ["confusion_6.json", "events.jsonl", "run.json"] == names


def test_fragments_are_logs_and_a_database_beside_them_is_imported(tmp_path: Path) -> None:
    """Three fragments have steps; what is beside them has another format."""
    shutil.copytree(DIALECTS / "trackio" / "inbox", tmp_path / "inbox")
    (fragments,) = (tmp_path / "inbox").iterdir()
    shutil.copy(SAMPLES / "trackio" / "demo.db", fragments)
    found = [(each["sort"], each["files"], each["examples"]) for each in lying(tmp_path)]
    assert [
        ("dialect", 3, [str(fragments / f"{at:08}.jsonl") for at in range(3)]),
        ("foreign", 2, [str(fragments / name) for name in ("00000003.jsonl", "demo.db")]),
    ] == found


def test_the_manifest_beside_a_stream_is_a_file_of_its_run(tmp_path: Path) -> None:
    """It counts beside the stream; alone it is not a log."""
    run = tmp_path / "run"
    (source,) = (SAMPLES / "kaun").iterdir()
    shutil.copytree(source, run)
    (found,) = lying(tmp_path)
    assert ("kaun/v1", 1, 1) == (found["format"], found["files"], found["beside"])
    (run / "events.jsonl").unlink()
    assert [] == lying(tmp_path)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_page_says_what_is_read_in_place(name: str, tmp_path: Path) -> None:
    """A format that is checked, shown and followed where it is has a sample that is."""
    place = DIALECTS / name if (DIALECTS / name).is_dir() else SAMPLES / name
    shutil.copytree(place, tmp_path / "run", ignore=shutil.ignore_patterns("*.py", "*.ml"))
    page = (SAMPLES.parents[3] / "docs/reference/formats.md").read_text(encoding="utf-8")
    in_place = page.partition(f"](#{name}) | ")[2].partition(" | ")[0]
    assert (in_place != "no") == bool(list(list_runs(tmp_path / "run")))


def test_every_format_has_a_sample() -> None:
    """A format or a dialect that is added needs a sample and the program that wrote it."""
    names = {folder.name for folder in samples()}
    # A log of munin is a dialect; the sample has its manifest and its media too.
    assert {*FORMATS, *PROFILES} == names - {"munin"}
    assert {dialect.name for dialect in dialects()} == SOURCES.keys()
    # One program writes several samples.
    own = "".join((SAMPLES / name).read_text(encoding="utf-8") for name in ("make_own.py", "munin/make.ml"))
    for folder in samples():
        program = folder / "make.py"
        assert f'"{folder.name}"' in own or "Writes this sample" in program.read_text(encoding="utf-8")


DAMAGED = {
    "mlflow.db": (b"SQLite format 3\0garbage", "file is not a database"),
    "project.db": ((SAMPLES / "trackio" / "demo.db").read_bytes()[:5000], "malformed"),
    "metrics.jsonl.gz": (b"\x1f\x8b\x08garbage", "gzip data is damaged"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("is_alone", [True, False])
def test_damaged_source_is_not_passed_over(tmp_path: Path, name: str, *, is_alone: bool) -> None:
    """A file that cannot be read is an error of import and doctor, and does not stop what is beside it."""
    data, fact = DAMAGED[name]
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    damaged = tmp_path / "logs" / "deep" / name
    damaged.write_bytes(data)
    if not is_alone:
        (tmp_path / "logs" / "metrics.jsonl").write_bytes(b'{"step":1,"loss":2.5}\n{"step":2,"loss":2.25}\n')
        shutil.copy(SAMPLES / "trackio" / "demo.db", tmp_path / "logs" / "whole.db")
    done = toyspec("import", str(tmp_path / "logs"), "--out", str(tmp_path / "runs"))
    assert 2 == done.returncode
    assert str(damaged).encode() in done.stderr
    assert fact.encode() in done.stderr
    assert is_alone or 2 == len(list((tmp_path / "runs").iterdir()))
    done = toyspec("doctor", str(tmp_path / "logs"))
    assert 2 == done.returncode
    assert str(damaged)[-20:].encode() in done.stdout
    assert fact.encode() in done.stdout


def test_folder_of_another_database_is_not_an_error(tmp_path: Path) -> None:
    """A database of another program is not a damaged one."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE metrics (x)")
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step":1,"loss":2.5}\n{"step":2,"loss":2.25}\n')
    assert [] == import_runs([tmp_path], tmp_path / "runs").errors


def test_own_dialect_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialect of the settings is one that import finds out, or that is named."""
    (tmp_path / "toyspec.toml").write_text(
        '[dialects.mine]\ntitle = "Mine"\nrank = "program"\nform = { type = "lines" }\n'
        'recognize = { keys = ["tour", "perte"] }\nstep = ["tour"]\n'
    )
    (tmp_path / "log.jsonl").write_text('{"tour":1,"perte":2.5}\n{"tour":2,"perte":2.25}\n')
    monkeypatch.chdir(tmp_path)
    for number, words in enumerate((["log.jsonl"], ["."], ["mine", "log.jsonl"])):
        assert 0 == toyspec("import", *words, "--out", str(tmp_path / "runs" / str(number))).returncode
        (stream,) = (tmp_path / "runs" / str(number)).rglob("events.jsonl")
        assert '"step":2,"values":{"perte":2.25}' in stream.read_text(encoding="utf-8")


def advised(*places: str) -> list[list[str]]:
    """Return each command of toyspec that doctor prints about *places*, as its arguments."""
    done = toyspec("doctor", *places)
    found = [shlex.split(text) for text in re.findall(r"`(toyspec [^`]*)`", done.stdout.decode())]
    # A word in capitals stands for what the user chooses.
    return [words[1:] for words in found if "FILE" not in words]


def test_each_advised_command_runs(
    folder: tuple[Path, dict[tuple[str, str], str]], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What doctor says reads a file does, run as it is printed, for every format."""
    monkeypatch.chdir(tmp_path)
    commands = advised(str(folder[0]))
    assert len(commands) > 50
    # Imports of everything have a test of their own, and the last command is one.
    failed = [words for words in commands if words[0] != "import" and main(words) != 0]
    capsys.readouterr()
    assert [] == failed


def test_streams_under_other_names_are_listed_as_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command is advised that lists them all, or one for each where they are many."""
    monkeypatch.chdir(tmp_path)
    for name in ("copy.jsonl", "sub/with space.jsonl", "run/events.jsonl", "run/events.rank-1.jsonl"):
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy(SAMPLES / "toy/first-try/events.jsonl", name)
    [*_, command] = advised(".")
    assert ["ls", ".", "copy.jsonl", "sub/with space.jsonl"] == command
    assert 0 == main(command)
    assert 3 == len(capsys.readouterr().out.splitlines()) - 1
    Path("-x.jsonl").write_bytes(Path("copy.jsonl").read_bytes())
    [*_, command] = advised(".")
    assert 0 == main(command)
    for number in range(9):
        shutil.copy("copy.jsonl", f"copy-{number}.jsonl")
    [*_, command] = advised(".")
    assert ["ls", "./-x.jsonl"] == command
    assert 0 == main(command)
