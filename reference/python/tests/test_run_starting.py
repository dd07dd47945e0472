"""Starting a run in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toyspec.checker.checking import check
from toyspec.generated.toy_v1 import Git, Model
from toyspec.reading.reader import read
from toyspec.testing import ManualClock
from toyspec.writing.environment import git_revision, this_host
from toyspec.writing.run_starting import start_run

SHA = "4bf48d3e" * 5


def test_three_lines_log_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who says nothing but where, what and the losses gets a complete run that says where it took place."""
    monkeypatch.chdir(tmp_path)
    with start_run("runs", arch="llama", config={"lr": 3e-4}, clock=ManualClock()) as run:
        for loss in (2.5, 2.0):
            run.step(loss=loss)
    assert os.path.join("runs", "llama-20260531-001") == run.directory
    records = [record.value for record in read(run.directory)]
    host = this_host()
    expected = {
        "kind": "run_start",
        "schema": "toy/v1",
        "t": 0.0,
        "started_at": "2026-05-31T09:30:00Z",
        "run_id": "llama-20260531-001",
        "host": {"name": host.name, "os": host.os, "arch": host.arch},
        "model": {"arch": "llama"},
        "config": {"lr": 3e-4},
    }
    assert expected == records[0]
    assert ["run_start", "step", "step", "run_end"] == [record["kind"] for record in records]
    assert [] == check("runs").files[0].findings


def test_every_run_gets_its_own_directory(tmp_path: Path) -> None:
    """Runs of the same model and day are numbered, also while they run at the same time."""
    runs = [start_run(tmp_path, clock=ManualClock()) for _ in range(3)]
    assert [f"model-20260531-00{n}" for n in (1, 2, 3)] == [run.run_id for run in runs]


def test_parts_are_passed_on(tmp_path: Path) -> None:
    """What is known about the run is in run_start; the architecture in the model unless that names its own."""
    options = {"backend": "cuda", "git": {"sha": SHA, "dirty": True}, "phase": "eval", "compare_to": "base"}
    run = start_run(tmp_path, arch="vit", model={"patch_size": 16}, run_id="a", **options)  # type: ignore[arg-type]
    (start,) = read(run.directory)
    expected = {"backend": {"kind": "cuda"}, "git": {"sha": SHA, "dirty": True}, "phase": "eval", "compare_to": "base"}
    assert expected | {"model": {"arch": "vit", "patch_size": 16}} == {key: start[key] for key in [*expected, "model"]}
    (start,) = read(start_run(tmp_path, model=Model(arch="llama", vocab=8), git=None, run_id="b").directory)
    assert ({"arch": "llama", "vocab": 8}, False) == (start["model"], "git" in start)


def test_a_run_that_cannot_start_is_closed(tmp_path: Path) -> None:
    """An invalid run_start raises, and leaves neither a record nor a lock behind."""
    with pytest.raises(ValueError, match="/config/x must be"):
        start_run(tmp_path, run_id="a", config={"x": object()})
    start_run(tmp_path, run_id="a", on_error="raise").close()
    with pytest.raises(ValueError, match="run id"):
        start_run(tmp_path, run_id="../a")
    with pytest.raises(ValueError, match=r"token \{sha\}"):
        start_run(tmp_path, template="{sha}")


def test_a_resumed_run_gets_no_second_start(tmp_path: Path) -> None:
    """A job that says resume starts its run once and goes on in it afterwards."""
    for attempt in range(2):
        run = start_run(tmp_path, run_id="a", exist="resume", on_error="raise")
        assert bool(attempt) == run.resumes
        if run.resumes:
            run.run_resume(run.last_step or 0)
        run.step(loss=0.5)
        run.close()
    assert ["run_start", "step", "run_resume", "step"] == [record.kind for record in read(run.directory)]


def test_a_root_that_cannot_be_made_is_survived(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a place for logs the program goes on, unless it asks for errors."""
    (tmp_path / "runs").write_bytes(b"")
    with start_run(tmp_path / "runs") as run:
        run.step(loss=0.5)
    assert not run.active
    assert "nothing more is logged, the program goes on" in capfd.readouterr().err
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        start_run(tmp_path / "runs", on_error="raise")


def repository(tmp_path: Path, head: str, **files: str) -> Path:
    """Make the part of a git repository that is looked at."""
    for name, text in {"HEAD": head, **files}.items():
        path = tmp_path / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "src").mkdir()
    return tmp_path / "src"


@pytest.mark.parametrize(
    ("head", "files", "expected"),
    [
        ("ref: refs/heads/main\n", {"refs/heads/main": SHA + "\n"}, (SHA, "main")),
        (
            "ref: refs/heads/a/b\n",
            {"packed-refs": f"# pack\n{'0' * 40} refs/heads/a\n{SHA} refs/heads/a/b\n"},
            (SHA, "a/b"),
        ),
        (SHA + "\n", {}, (SHA, "")),
        ("ref: refs/heads/unborn\n", {}, None),
        ("ref: refs/heads/main\n", {"refs/heads/main": "no commit\n"}, None),
        ("\xff\xfe garbage", {}, None),
        ("", {}, None),
    ],
)
def test_the_revision_is_read_from_files(
    tmp_path: Path, head: str, files: dict[str, str], expected: tuple[str, str] | None
) -> None:
    """The commit is found from anywhere in the tree: on a branch, packed, detached; and nothing where there is none."""
    found = git_revision(str(repository(tmp_path, head, **files)))
    assert (None if expected is None else Git(sha=expected[0], branch=expected[1])) == found


def test_the_revision_of_a_worktree_is_read(tmp_path: Path) -> None:
    """A worktree names its directory in a file, and shares the branches of the repository."""
    repository(
        tmp_path, "", **{"refs/heads/w": SHA, "worktrees/w/HEAD": "ref: refs/heads/w", "worktrees/w/commondir": "../.."}
    )
    tree = tmp_path / "elsewhere"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {tmp_path}/.git/worktrees/w\n")
    assert Git(sha=SHA, branch="w") == git_revision(str(tree))


def test_no_repository_is_no_revision(tmp_path: Path) -> None:
    """Outside a repository, and where git's files cannot be read, there is no revision and no error."""
    assert git_revision(str(tmp_path)) is None
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\0")
    assert git_revision(str(tmp_path)) is None
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").mkdir()
    assert git_revision(str(tmp_path)) is None


def test_the_revision_of_this_program_is_in_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is started in a repository says which commit it is of."""
    monkeypatch.chdir(repository(tmp_path, SHA))
    (start,) = read(start_run(tmp_path / "runs").directory)
    assert {"sha": SHA, "branch": ""} == start["git"]
