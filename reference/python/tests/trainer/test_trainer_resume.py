"""Runs that are killed, and what ``--resume`` makes of them: the run that was never killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("gguf", reason="the extra `train` is not installed")

from command_line import command, environment
from toyspec.core.checker import check
from toyspec.core.command_line import exit_codes
from training_runs import SHORT, events, kinds, losses, train

STEPS = ("--steps", "12", "--eval-every", "4", "--sample-every", "6", "--checkpoint-every", "5")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of twelve steps that was not interrupted, with checkpoints after 5, 10 and 12."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    train(*STEPS, "--out", directory)
    return directory


def killed(whole: Path, directory: Path, cut: int) -> None:
    """Make *directory* what is left of *whole* when it is killed with *cut* bytes of its stream written."""
    shutil.copytree(whole, directory, symlinks=True)
    written = (whole / "events.jsonl").read_bytes()[:cut]
    (directory / "events.jsonl").write_bytes(written)
    steps = written.count(b'"kind":"step"', 0, written.rfind(b"\n") + 1)
    lines = (whole / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (directory / "metrics.jsonl").write_bytes(b"".join(lines[:steps]))
    for number in (5, 10, 12):
        if steps <= number:
            (directory / f"weights/step_{number}.gguf").unlink()


def moments(stream: bytes) -> list[int]:
    """Return lengths at which *stream* may be cut: at the end of a record or within the next, from first to last."""
    ends = [index + 1 for index, byte in enumerate(stream) if byte == 0x0A]
    return [ends[0], ends[0] + 9, ends[3], ends[6] + 9, ends[8], ends[-4] + 9, ends[-2], ends[-1] - 1]


def test_resumed_run_equals_one_that_was_not_interrupted(whole: Path, tmp_path: Path) -> None:
    """Wherever a run was cut, resuming it ends in the same losses, evaluations, samples and weights, bit by bit."""
    stream = (whole / "events.jsonl").read_bytes()
    for cut in moments(stream):
        directory = tmp_path / str(cut) / "run"
        killed(whole, directory, cut)
        assert exit_codes.OK == train("--resume", "--out", directory), cut
        assert losses(whole) == losses(directory), cut
        for kind, value in (("eval", "loss"), ("sample", "text")):
            expected = {event["step"]: event[value] for event in kinds(whole, kind)}
            assert expected == {event["step"]: event[value] for event in kinds(directory, kind)}, cut
        last = "weights/step_12.gguf"
        assert (whole / last).read_bytes() == (directory / last).read_bytes(), cut
        assert "step_12.gguf" == os.readlink(directory / "weights/latest")
        assert events(whole)[-1]["final_loss"] == events(directory)[-1]["final_loss"]
        found = [finding.rule for report in check(directory).files for finding in report.findings]
        assert [] == found, cut
        assert 12 == len((directory / "metrics.jsonl").read_text().splitlines())


def test_run_that_is_killed_again_before_it_has_caught_up(whole: Path, tmp_path: Path) -> None:
    """A second kill in the repeated steps changes nothing: each step is in the metrics log once."""
    run = tmp_path / "run"
    stream = (whole / "events.jsonl").read_bytes()
    killed(whole, run, stream.index(b'{"kind":"step","t":0.1,'))
    before = (run / "events.jsonl").stat().st_size
    measured = (run / "metrics.jsonl").read_bytes()
    assert exit_codes.OK == train("--resume", "--out", run)
    resumed = (run / "events.jsonl").read_bytes()
    cut = resumed.index(b'"step":7,', before)
    (run / "events.jsonl").write_bytes(resumed[: resumed.rindex(b"\n", 0, cut) + 1])
    (run / "metrics.jsonl").write_bytes(measured)
    for number in (10, 12):
        (run / f"weights/step_{number}.gguf").unlink()
    assert exit_codes.OK == train("--resume", "--out", run)
    assert (2, losses(whole)) == (len(kinds(run, "run_resume")), losses(run))
    assert list(range(1, 13)) == [
        json.loads(line)["step"] for line in (run / "metrics.jsonl").read_bytes().splitlines()
    ]


def test_same_options_may_be_repeated(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that began the run goes on with it; an option that differs is refused and changes nothing."""
    killed(whole, tmp_path / "run", 3000)
    before = (tmp_path / "run/events.jsonl").read_bytes()
    assert exit_codes.USAGE == train(*STEPS, "--resume", "--lr", "0.5", "--out", tmp_path / "run")
    assert "--lr is 0.5, but the run was started with 0.005; leave --lr out" in capsys.readouterr().err
    assert before == (tmp_path / "run/events.jsonl").read_bytes()
    assert exit_codes.OK == train(*STEPS, "--resume", "--out", tmp_path / "run")


def test_run_with_a_baseline_needs_it_again(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log names the baseline, but which files are read is for the user to say."""
    run = tmp_path / "run"
    train(*STEPS, "--compare-to", whole, "--out", run)
    stream = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes(stream[: stream.rindex(b'{"kind":"run_end"')])
    assert exit_codes.USAGE == train("--resume", "--out", run)
    assert "the run was started compared with run; name it with --compare-to" in capsys.readouterr().err
    assert exit_codes.OK == train("--resume", "--out", run, "--compare-to", whole)
    assert exit_codes.USAGE == train("--resume", "--out", run)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no run_start; start the run again without --resume"),
        (b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n', "its run_start has no config"),
        (
            b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","model":{"arch":"mlp"},"config":{}}\n',
            "it is not a run of `toyspec train`",
        ),
        (
            b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","model":{"arch":"transformer"},"config":{}}\n',
            "its model is 'transformer', not 'mlp'",
        ),
        (b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n{]\n', ":2: "),
        (
            b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n{"kind":"run_end","t":1.0,"reason":"completed"}\n',
            "the run has ended: completed; it cannot be resumed; start a new run",
        ),
    ],
)
def test_what_cannot_be_resumed(
    tmp_path: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream that is not a torn run of this program is refused with the reason, and left unchanged."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/events.jsonl").write_bytes(content)
    assert exit_codes.USAGE == train("--resume", "--out", tmp_path / "run")
    assert message in capsys.readouterr().err
    assert ["events.jsonl"] == os.listdir(tmp_path / "run")
    assert content == (tmp_path / "run/events.jsonl").read_bytes()


def test_damaged_checkpoint_is_passed_over(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkpoint that is cut, or of other settings, is named, and an older one is taken."""
    run, other = tmp_path / "run", tmp_path / "other/run"
    train(*STEPS, "--lr", "0.5", "--out", other)
    stream = (whole / "events.jsonl").read_bytes()
    killed(whole, run, len(stream) - 10)
    capsys.readouterr()
    checkpoint = run / "weights/step_10.gguf"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1000])
    shutil.copy(other / "weights/step_12.gguf", run / "weights/step_12.gguf")
    assert exit_codes.OK == train("--resume", "--out", run)
    errors = capsys.readouterr().err
    assert "step_12.gguf is a checkpoint of a run with other settings" in errors
    assert "step_10.gguf is damaged" in errors
    (resumption,) = kinds(run, "run_resume")
    assert 5 == resumption["from_step"]
    assert 0.12 == pytest.approx(resumption["t"])
    assert losses(whole) == losses(run)


def test_metrics_of_a_replaced_run_are_kept(whole: Path, tmp_path: Path) -> None:
    """A metrics log with more steps than the stream is an older run's: this one was killed before it could move it."""
    run = tmp_path / "run"
    killed(whole, run, (whole / "events.jsonl").read_bytes().index(b"\n") + 1)
    shutil.copy(whole / "metrics.jsonl", run / "metrics.jsonl")
    assert exit_codes.OK == train("--resume", "--out", run)
    assert 12 == len((run / "metrics.jsonl").read_text().splitlines())
    assert (whole / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl.prev").read_bytes()


@pytest.mark.posix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["SIGKILL", "SIGINT"])
def test_signal(tmp_path: Path, number: signal.Signals) -> None:
    """SIGKILL leaves a torn bundle without an error that resumes; SIGINT ends it as interrupted, with status 130."""
    run = tmp_path / "run"
    arguments = ["train", *SHORT, "--steps", "5000", "--checkpoint-every", "5", "--out", str(run)]
    process = subprocess.Popen(
        command(*arguments), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 23:"):
            process.send_signal(number)
            break
    _, errors = process.communicate(timeout=300)
    assert "" == errors
    state, findings = next(
        (report.state, [finding.rule for finding in report.findings if finding.severity == "error"])
        for report in check(run / "events.jsonl").files
    )
    assert [] == findings
    if number == signal.SIGINT:
        assert (exit_codes.INTERRUPTED, "complete") == (process.returncode, state)
        assert "interrupted" == events(run)[-1]["reason"]
    else:
        assert (-number, "torn") == (process.returncode, state)
        (newest,) = {os.readlink(run / "weights/latest")}
        assert (run / "weights" / newest).is_file()
        resumed = subprocess.Popen(
            command(*arguments, "--resume"),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert resumed.stdout is not None
        first = resumed.stdout.readline()
        resumed.kill()
        resumed.communicate(timeout=300)
        assert first.startswith(f"step {int(newest[5:-5]) + 1}: ")
