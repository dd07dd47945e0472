"""Starting a run in one line."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from files import in_subprocess
from toyspec.agents.digest import DigestedRun
from toyspec.convert.exporting import ExportedRun
from toyspec.core import programs
from toyspec.core.checker.checking import check
from toyspec.core.errors import StreamRefusedError
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.generated.toy_v1 import Git
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.runs.run import list_runs
from toyspec.core.runs.summary import summarize_ends, summarize_run
from toyspec.core.writing.environment import TrainingProcess, git_revision, this_host
from toyspec.core.writing.run_starting import start_run
from toyspec.core.writing.sealing import seal
from toyspec.testing import ManualClock
from toyspec.view.details import detail_of
from toyspec.view.opened_files import identity_at
from toyspec.view.scanning import ScanWork, quick_row


def test_three_lines_log_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who says nothing but where, what and the losses gets a complete run that says where it took place."""
    monkeypatch.chdir(tmp_path)
    with start_run("runs", arch="llama", config={"lr": 3e-4}, clock=ManualClock()) as run:
        for loss in (2.5, 2.0):
            run.step(loss=loss)
    assert os.path.join("runs", "llama-20260531-001") == run.directory
    start, *others = [record.value for record in read(run.directory)]
    facts = ("llama-20260531-001", "2026-05-31T09:30:00Z", this_host().name, sys.argv, {"arch": "llama"}, {"lr": 3e-4})
    assert facts == (
        start["run_id"],
        start["started_at"],
        start["host"]["name"],
        start["argv"],
        start["model"],
        start["config"],
    )
    assert {"python", "toyspec"} <= start["packages"].keys()
    assert ["step", "step", "run_end"] == [record["kind"] for record in others]
    assert [] == check("runs").files[0].findings


@pytest.mark.parametrize(
    ("members", "model", "name"),
    [
        ({"model": "vit"}, {"arch": "vit"}, "vit-"),
        ({"arch": "vit", "model": {"patch_size": 16}}, {"arch": "vit", "patch_size": 16}, "vit-"),
        ({"arch": "meta-llama/Llama-3 8B"}, {"arch": "meta-llama/Llama-3 8B"}, "meta-llama-Llama-3-8B-"),
    ],
)
def test_model_may_be_its_architecture(tmp_path: Path, members: Any, model: dict[str, Any], name: str) -> None:
    """A text is the architecture, and is in the name of the directory as one is."""
    run = start_run(tmp_path, git=None, **members)
    (start,) = read(run.directory)
    assert (model, True) == (start["model"], os.path.basename(run.directory).startswith(name))


def test_the_same_script_resumes_again_and_again(tmp_path: Path) -> None:
    """Each attempt goes on after the last train step, without a call that the first one does not make."""
    for _ in range(2):
        run = start_run(tmp_path, run_id="a", exist="resume", on_error="raise")
        run.step(loss=0.5)
        run.step(loss=0.25)
        run.abandon()
    with start_run(tmp_path, run_id="a", exist="resume") as run:
        assert (4, True) == (run.last_step, run.resumes)
    found = [(record.kind, record.get("step", record.get("from_step"))) for record in read(run.directory)]
    steps = [("run_start", None), ("step", 1), ("step", 2), ("run_resume", 2), ("step", 3), ("step", 4)]
    assert [*steps, ("run_resume", 4), ("run_end", None)] == found
    assert [] == check(run.directory).files[0].findings
    assert 4 == list(read(run.directory))[-1]["final_step"]


@pytest.mark.parametrize(
    ("first", "from_step"),
    [
        (lambda run: run.step(loss=0.5), 3),
        (lambda run: run.step(2, loss=0.5), 1),
        (lambda run: run.step(9, loss=0.5), 8),
        (lambda run: run.note("back again"), 3),
        (lambda run: run.eval("held-out", step=2), 3),
        (lambda run: run.step(1, phase="decode", token_id=7), 3),
        (lambda run: run.run_resume(2, reason="preempted"), 2),
    ],
)
def test_the_first_record_says_where_a_run_goes_on(tmp_path: Path, first: Any, from_step: int) -> None:
    """A step with a number goes on from the one before, all else from the last; a call of run_resume says it itself."""
    run = start_run(tmp_path, run_id="a")
    for _ in range(3):
        run.step(loss=1.0)
    run.abandon()
    with start_run(tmp_path, run_id="a", exist="resume", on_error="raise") as run:
        first(run)
    (resumed,) = [record for record in read(run.directory) if record.kind == "run_resume"]
    assert from_step == resumed["from_step"]
    assert not any(finding.severity == "error" for finding in check(run.directory).files[0].findings)


def test_a_run_that_has_ended_goes_on(tmp_path: Path) -> None:
    """A run is extended, or evaluated the next day; opening it without a record changes nothing."""
    with start_run(tmp_path, run_id="a") as run:
        run.log({"loss": 1.0}, step=1)
    seal(run.directory)
    before = {path.name: path.read_bytes() for path in Path(run.directory).iterdir()}
    with start_run(tmp_path, run_id="a", exist="resume"):
        pass
    assert before == {path.name: path.read_bytes() for path in Path(run.directory).iterdir()}
    with start_run(tmp_path, run_id="a", exist="resume") as run:
        run.eval("test", loss=0.5)
    kinds = [record.kind for record in read(run.directory)]
    assert ["run_start", "scalars", "run_end", "run_resume", "eval", "run_end"] == kinds
    assert 1 == list(read(run.directory))[-1]["final_step"]
    with pytest.raises(ValueError, match="needs a run_id"):
        start_run(tmp_path, exist="resume")


def test_a_run_that_is_started_again_is_taken_over(tmp_path: Path) -> None:
    """A second start in the same process ends the first run, whose object raises from then on."""
    first = start_run(tmp_path, run_id="a")
    first.log(loss=1.0)
    second = start_run(tmp_path, run_id="a")
    with pytest.raises(InvalidEventError, match="started again"):
        first.log(loss=2.0)
    second.log(loss=3.0)
    second.run_end()
    earlier = list(read(f"{first.events_path}.prev"))
    assert ("interrupted", "started again") == (earlier[-1]["reason"], earlier[-1]["error"])
    assert [3.0] == [record["values"]["loss"] for record in read(second.events_path) if record.kind == "scalars"]


def test_a_run_of_another_process_is_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A job that is still dying is waited for; a live one makes the start raise before the training begins."""
    program = "import sys, toyspec; run = toyspec.start_run(sys.argv[1], run_id='a'); print(1, flush=True); input()"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StreamRefusedError, match=r"another writer has had it open for 0\.1 s"):
            start_run(tmp_path, run_id="a", exist="resume", wait_seconds=0.1)
        timer = threading.Timer(0.3, other.kill)
        timer.start()
        run = start_run(tmp_path, run_id="a", exist="resume", wait_seconds=60)
        run.log(loss=1.0)
        run.run_end()
    assert "waiting up to 60 s" in capfd.readouterr().err
    assert ["run_start", "run_resume", "scalars", "run_end"] == [record.kind for record in read(run.directory)]


@pytest.mark.parametrize(
    ("ending", "reason", "error"),
    [
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", "interrupted", "signal SIGINT"),
        (
            "t = threading.Thread(target=lambda: 1 / 0, name='loader'); t.start(); t.join()",
            "errored",
            "in thread loader: ZeroDivisionError: division by zero",
        ),
        (
            "try: 1 / 0\nexcept Exception: sys.excepthook(*sys.exc_info()); sys.exit(1)",
            "errored",
            "ZeroDivisionError: division by zero",
        ),
        ("sys.ps1 = '>'; raise ValueError('boom')", "errored", "ValueError: boom"),
    ],
)
def test_a_run_ends_by_an_interrupt_or_an_exception(tmp_path: Path, ending: str, reason: str, error: str) -> None:
    """Ctrl-C is a signal as others are; an exception ends the run in any thread, whoever shows it."""
    program = f"""
import os, signal, sys, threading, time, toyspec
run = toyspec.start_run("runs", run_id="a")
run.log(loss=1.0)
{ending}
"""
    in_subprocess(program, cwd=tmp_path)
    last = list(read(tmp_path / "runs/a"))[-1]
    assert (reason, error) == (last["reason"], last["error"])


@pytest.mark.posix
def test_what_forked_processes_log_is_counted(tmp_path: Path) -> None:
    """A run has one writer; what its children log is not in it, and the run itself says how much that is."""
    program = """
import os, toyspec
run = toyspec.start_run("runs", run_id="a", git=None)
run.step(1, loss=1.0)
for child in range(3):
    if not (pid := os.fork()):
        for step in range(2, 5):
            run.log(child=1.0)
        run.step(9, loss=2.0)
        run.run_end()
        os._exit(0)
    os.waitpid(pid, 0)
run.step(2, loss=1.0)
"""
    done = in_subprocess(program, cwd=tmp_path, check=True)
    found = list(read(tmp_path / "runs/a"))
    assert ["run_start", "step", "step", "note", "run_end"] == [record.kind for record in found]
    assert {"scalars": 9, "step": 3} == found[3]["dropped"]
    assert ["records-dropped"] == [finding.rule for finding in check(tmp_path / "runs/a").files[0].findings]
    assert 3 == done.stderr.count("cannot write: it was opened by the parent process")
    assert "12 records were not written in total" in done.stderr


@pytest.mark.posix
def test_what_a_child_of_a_resumed_run_logs_is_counted(tmp_path: Path) -> None:
    """The run goes on for that, if only to count it; a child is never stopped."""
    program = """
import os, toyspec
for again in range(2):
    run = toyspec.start_run("runs", run_id="a", exist="resume", git=None)
    if not (pid := os.fork()):
        run.log(child=1.0)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    run.close()
"""
    in_subprocess(program, cwd=tmp_path, check=True)
    found = list(read(tmp_path / "runs/a"))
    assert ["run_start", "note", "run_end", "run_resume", "note", "run_end"] == [record.kind for record in found]
    assert [{"scalars": 1}] * 2 == [record["dropped"] for record in found if record.kind == "note"]


@pytest.mark.posix
def test_a_signal_ends_a_forked_process_at_once(tmp_path: Path) -> None:
    """Handlers of a run are not those of its children: a pool could wait forever for one that waits for a lock."""
    program = """
import os, signal, toyspec
own = lambda *_: None
signal.signal(signal.SIGHUP, own)
run = toyspec.start_run("runs", run_id="a", git=None)
if not (pid := os.fork()):
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    os._exit([signal.SIG_DFL, signal.default_int_handler, own] != [signal.getsignal(each) for each in names])
assert os.waitpid(pid, 0)[1] == 0
if not (pid := os.fork()):
    toyspec.start_run("runs", run_id="b", git=None)
    os.kill(os.getpid(), signal.SIGTERM)
os.waitpid(pid, 0)
os.kill(os.getpid(), signal.SIGTERM)
"""
    in_subprocess(program, cwd=tmp_path)
    for name in "ab":
        assert "signal SIGTERM" == list(read(tmp_path / "runs" / name))[-1]["error"]


def test_a_signal_within_a_write_ends_a_run_that_resumes_by_itself(tmp_path: Path) -> None:
    """The line is whole, the run ends after it, and then the process does: it is not resumed by the next record."""
    program = """
import os, signal, toyspec

with toyspec.start_run("runs", run_id="a", exist="resume", git=None) as run:
    file = run._stream._file
    real = file._write

    def write(descriptor, data):
        written = real(descriptor, data)
        if b'"step":2' in data:
            os.kill(os.getpid(), signal.SIGTERM)
        return written

    file._write = write
    for step in range(1, 9):
        run.step(step, loss=1.0)
"""
    done = in_subprocess(program, cwd=tmp_path)
    assert (-signal.SIGTERM, "") == (done.returncode, done.stderr)
    *_, step, end = read(tmp_path / "runs/a")
    assert (2, "run_end", "signal SIGTERM") == (step["step"], end.kind, end["error"])


def test_a_loop_that_catches_a_signal_goes_on(tmp_path: Path) -> None:
    """A handler that was there is called, what is still logged is kept, and only that run is interrupted."""
    program = """
import os, signal, toyspec
stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
run = toyspec.start_run("runs", run_id="a")
def train():
    for step in range(1, 9):
        run.log(loss=1.0)
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
    assert stops == [1]
train()
toyspec.start_run("runs", run_id="b").close()
run.close()
toyspec.start_run("runs", run_id="c").close()
"""
    in_subprocess(program, cwd=tmp_path, check=True)
    assert ["completed"] * 2 == [list(read(tmp_path / "runs" / name))[-1]["reason"] for name in "bc"]
    found = list(read(tmp_path / "runs/a"))
    assert 8 == sum(record.kind == "scalars" for record in found)
    assert ("interrupted", "signal SIGTERM") == (found[-1]["reason"], found[-1]["error"])


def test_each_rank_writes_a_stream_of_its_own(tmp_path: Path) -> None:
    """With ranks="all" the streams share run id and directory; by default the others are silent, and say why once."""
    program = """
import toyspec, sys
for ranks, run_id in (("all", "each"), ("first", "one")):
    run = toyspec.start_run("runs", run_id=run_id, ranks=ranks)
    run.log(loss=1.0)
    run.step(loss=1.0)
    run.run_end()
"""
    said = []
    for rank in range(3):
        variables = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"}
        done = in_subprocess(program, cwd=tmp_path, env=variables, check=True)
        said.append(done.stderr.count("RANK says that this is process"))
    assert [0, 1, 1] == said
    found = sorted(path.relative_to(tmp_path / "runs").as_posix() for path in tmp_path.rglob("*.jsonl"))
    ranks = ["each/events.jsonl", "each/events.rank-1.jsonl", "each/events.rank-2.jsonl"]
    assert [*ranks, "one/events.jsonl"] == found
    starts = [next(iter(read(tmp_path / "runs" / name))) for name in ranks]
    assert [("each", rank, 3) for rank in range(3)] == [(s["run_id"], s["rank"], s["world_size"]) for s in starts]


def test_processes_without_a_common_id_learn_what_to_pass(tmp_path: Path) -> None:
    """Each would make a directory of its own."""
    with pytest.raises(ValueError, match="pass the same run_id in each"):
        start_run(tmp_path, ranks="all", process=TrainingProcess(1, 2, "RANK"))


def test_a_refused_start_leaves_no_directory(tmp_path: Path) -> None:
    """What was made for a run that does not start is gone again, with a name of its own or without."""
    for run_id in ("a", None):
        with pytest.raises(ValueError, match="/config/x must be"):
            start_run(tmp_path / "runs", run_id=run_id, config={"x": object()}, on_error="raise")
        assert [] == [path for path in tmp_path.rglob("*") if path.name != "runs"]
    start_run(tmp_path / "runs", run_id="a", exist="fail").close()


def test_a_root_that_cannot_be_made_is_survived(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a place for logs the program goes on, unless it asks for errors."""
    (tmp_path / "runs").write_bytes(b"")
    for root, run_id in ((tmp_path / "runs", None), (tmp_path / "runs", "a"), (tmp_path / ("d" * 300), "a")):
        with start_run(root, run_id=run_id) as run:
            run.step(loss=0.5)
        assert not run.active
        assert 1 == capfd.readouterr().err.count("logging stops; the program continues")
        with pytest.raises(OSError, match=r"File exists|Not a directory|too long"):
            start_run(root, run_id=run_id, on_error="raise")


def git(tree: Path, *arguments: str) -> str:
    """Run git in *tree*, as an author of its own; return what it prints."""
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *author, *arguments], cwd=tree, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a working tree with one commit on the branch ``main`` and a directory in it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    git(tree, "init", "--quiet", "--initial-branch=main")
    (tree / "src" / "train.py").write_text("")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message=first")
    return tree


def test_the_revision_is_that_of_the_tree_around(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit and branch are found from anywhere in the tree, whose tracked changes make it dirty; no token is."""
    sha = git(repository, "rev-parse", "HEAD")
    (repository / "untracked").write_text("")
    monkeypatch.chdir(repository / "src")
    (start,) = read(start_run(repository / "runs").directory)
    assert {"sha": sha, "branch": "main", "dirty": False} == start["git"]
    (repository / "src" / "train.py").write_text("changed")
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "remote", "add", "origin", "https://user:secret@example.org/team/model.git")
    remote = "https://example.org/team/model.git"
    assert Git(sha=sha, branch="", dirty=True, remote=remote) == git_revision(str(repository))
    # Git that takes too long is not waited for.
    monkeypatch.setattr(programs, "_MOST_GIT_SECONDS", 1e-6)
    assert git_revision(str(repository)) is None


def test_without_a_commit_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a repository, before the first commit, in a broken one and without git there is none, and no error."""
    assert git_revision(str(tmp_path)) is None
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\0")
    assert git_revision(str(tmp_path)) is None
    (tmp_path / ".git").unlink()
    monkeypatch.setenv("PATH", "")
    (tmp_path / ".git").mkdir()
    assert git_revision(str(tmp_path)) is None


@pytest.mark.parametrize("engine", ["", "python"])
def test_end_counts_until_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """A run that has gone on after its end has neither reason nor a loss that the end says; every view agrees."""
    if engine:
        monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    for loss in (1.0, 0.5):
        run = start_run(tmp_path, run_id="a", exist="resume")
        run.step(loss=loss)
        (run.close if loss == 1.0 else run.abandon)()
    for found in (summarize_run(run.directory), summarize_ends(run.events_path), list_runs(tmp_path)[0]):
        facts = found.facts
        assert ("torn", "no", None, 0.5) == (facts.state, facts.ended, facts.reason, facts.final_loss)
    assert ExportedRun(str(run.directory)).end is None
    assert DigestedRun(summarize_run(run.events_path), None, DialectChoice()).end_line is None
    row = quick_row(ScanWork(run.events_path, "a", identity_at(run.events_path)), DialectChoice())
    assert detail_of(run.events_path, row, DialectChoice(), None)["end"] is None


def test_ranks_of_a_replaced_run_are_moved_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of all its ranks move, also of those that do not come up again; a rank that began first keeps its own."""
    monkeypatch.setenv("WORLD_SIZE", "4")

    def started(rank: int, exist: Any) -> Any:
        monkeypatch.setenv("RANK", str(rank))
        return start_run(tmp_path / "runs", run_id="a", ranks="all", exist=exist)

    for rank in range(4):
        with started(rank, "fail") as run:
            run.step(1, loss=1.0)
    early = started(1, "replace")
    with started(0, "replace") as first, early:
        early.step(1, loss=2.0)
        first.step(1, loss=3.0)
    names = sorted(path.name for path in (tmp_path / "runs/a").glob("events*"))
    ranks = [f"events.rank-{rank}.jsonl" for rank in (1, 2, 3)]
    assert sorted(["events.jsonl", "events.jsonl.prev", ranks[0], *(f"{name}.prev" for name in ranks)]) == names
    assert [2.0] == [record.values["loss"] for record in read(tmp_path / "runs/a" / ranks[0]) if record.kind == "step"]


def test_rank_that_ends_before_rank_0_begins_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rank 0 replaces no stream, those of the other ranks are of the run that it begins."""
    (tmp_path / "a").mkdir()
    # Of a run that was replaced and then deleted.
    (tmp_path / "a" / "events.jsonl.prev").touch()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        with start_run(tmp_path, run_id="a", ranks="all", exist="replace") as run:
            run.step(1, loss=2.0 + rank)
    names = sorted(path.name for path in (tmp_path / "a").glob("events*"))
    assert ["events.jsonl", "events.jsonl.prev", "events.rank-1.jsonl"] == names


def test_compressed_log_is_not_continued_and_this_is_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run whose log was compressed begins again beside it; once that log is unpacked, it goes on."""
    with start_run(tmp_path, run_id="a", git=None) as run:
        run.step(loss=1.0)
    stream, packed = Path(run.directory) / "events.jsonl", Path(run.directory) / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(stream.read_bytes()))
    start_run(tmp_path, run_id="a", exist="resume", git=None).abandon()
    assert "compressed" not in capfd.readouterr().err, "the log is there too"
    stream.unlink()
    start_run(tmp_path, run_id="a", exist="resume", git=None).abandon()
    assert "events.jsonl.gz: the earlier log is compressed, so it is not continued" in capfd.readouterr().err
