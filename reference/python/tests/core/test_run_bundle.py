"""The bundle writer of the system that toy/v1 comes from."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from files import content
from toyspec.core.checker.checking import check
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.writing.environment import this_host
from toyspec.core.writing.run_bundle import RunBundle
from toyspec.testing import FailingCalls, ManualClock

LLAMA = {"vocab": 32000, "d_model": 512, "n_layers": 8, "ctx": 1024}
VIT = {"image_size": 224, "patch_size": 16, "d_model": 192, "n_layers": 12, "num_classes": 10}


def bundle(tmp_path: Path, **options: Any) -> RunBundle:
    """Return a bundle whose clock stands still."""
    return RunBundle(tmp_path / "runs", "llama-001", clock=ManualClock(), **options)


def host() -> str:
    """Return the text of this machine in a run_start."""
    machine = this_host()
    return f'"host":{{"name":"{machine.name}","os":"{machine.os}","arch":"{machine.arch}"}}'


def test_a_run_has_the_bytes_of_the_source(tmp_path: Path) -> None:
    """Every key stands where the source's writer puts it, in run_start, step and run_end."""
    run = bundle(tmp_path)
    run.git("4bf48d3", "main")
    run.run_start("llama", 32000, 512, 8, 1024, 1000, 3e-4, 7)
    run.step(1, 2.5)
    run.step(2, math.nan)
    run.run_end(2, 2)
    expected = (
        '{"kind":"run_start","schema":"toy/v1","t":0.0,"started_at":"2026-05-31T09:30:00Z","run_id":"llama-001",'
        f'"phase":"train",{host()},"backend":{{"kind":"cpu"}},"git":{{"sha":"4bf48d3","branch":"main"}},'
        '"model":{"arch":"llama","vocab":32000,"d_model":512,"n_layers":8},'
        '"config":{"context":1024,"steps":1000,"lr":0.0003,"seed":7}}\n'
        '{"kind":"step","phase":"train","t":0.0,"step":1,"loss":2.5}\n'
        '{"kind":"step","phase":"train","t":0.0,"step":2,"loss":null}\n'
        '{"kind":"run_end","t":0.0,"ended_at":"2026-05-31T09:30:00Z","reason":"completed","final_step":2,'
        '"final_loss":2.0,"exit_code":0}\n'
    )
    assert expected == content(run.events_path).decode()
    assert ["final-loss-mismatch"] == [finding.rule for finding in check(run.dir).files[0].findings]


@pytest.mark.parametrize("cfg", [LLAMA, SimpleNamespace(**LLAMA)])
def test_a_llama_starts_with_the_bytes_of_the_generic_call(tmp_path: Path, cfg: Any) -> None:
    """A llama's configuration, a mapping or an object, says the same as its numbers one by one."""
    generic, llama = bundle(tmp_path / "a"), bundle(tmp_path / "b")
    generic.run_start("llama", 32000, 512, 8, 1024, 1000, 1, 7)
    llama.run_start_llama(cfg, 1000, 1, 7)
    assert content(generic.events_path) == content(llama.events_path)
    assert b'"lr":1.0,"seed":7}}\n' in content(llama.events_path)


def test_a_vision_transformer_has_no_context(tmp_path: Path) -> None:
    """A vision transformer says its image and patches in the source's order, and no context."""
    run = bundle(tmp_path)
    run.run_start_vit(VIT, 1000, 3e-4, 7)
    expected = (
        b'"model":{"arch":"vit","image_size":224,"patch_size":16,"d_model":192,"n_layers":12,"num_classes":10},'
        b'"config":{"steps":1000,"lr":0.0003,"seed":7}}\n'
    )
    assert content(run.events_path).endswith(expected)
    assert b'"git"' not in content(run.events_path)


def test_what_is_readable_is_readable(tmp_path: Path) -> None:
    """Root, id, directory, state and revision of a bundle can be asked for, before and after its end."""
    run = RunBundle(tmp_path, "", backend="cuda")
    run.git("abc")
    assert (str(tmp_path), "anonymous", str(tmp_path / "anonymous")) == (run.root, run.run_id, run.dir)
    assert ("abc", "", True, os.path.join(run.dir, "events.jsonl")) == (
        run.git_sha,
        run.git_branch,
        run.active,
        run.events_path,
    )
    run.run_start_llama(LLAMA, 1, 1.0, 0)
    assert b'"backend":{"kind":"cuda"},"git":{"sha":"abc","branch":""},' in content(run.events_path)
    run.run_end(0, None)
    assert not run.active


def test_weights_are_made_when_they_are_asked_for(tmp_path: Path) -> None:
    """The stream is the first file of a bundle; the directory for checkpoints comes with its first use."""
    run = bundle(tmp_path)
    assert ["events.jsonl"] == os.listdir(run.dir)
    assert os.path.isdir(run.weights_dir)
    assert os.path.join(run.dir, "weights") == run.weights_dir


def test_the_same_id_replaces_the_stream(tmp_path: Path) -> None:
    """Running again does not double the stream; the old one is kept beside."""
    for losses in ([1.0, 2.0], [3.0]):
        run = bundle(tmp_path)
        run.run_start_llama(LLAMA, 2, 1.0, 0)
        for number, loss in enumerate(losses, 1):
            run.step(number, loss)
        run.close()
    assert (2, 3) == (content(run.events_path).count(b"\n"), content(f"{run.events_path}.prev").count(b"\n"))


def test_after_the_end_every_call_does_nothing(tmp_path: Path) -> None:
    """Who goes on after run_end writes nothing and hears nothing."""
    run = bundle(tmp_path)
    run.run_start_llama(LLAMA, 1, 1.0, 0)
    run.step(1, 0.5)
    run.run_end(1, 0.5)
    before = content(run.events_path)
    run.git("late")
    run.run_start_llama(LLAMA, 1, 1.0, 0)
    run.run_start_vit(VIT, 1, 1.0, 0)
    run.step(2, 0.5)
    run.run_end(2, 0.5)
    run.close()
    assert before == content(run.events_path)


def test_a_bundle_that_cannot_be_opened_is_inactive(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Training does not die of a log: one line names path and cause, and every call does nothing."""
    (tmp_path / "runs").write_bytes(b"")
    run = bundle(tmp_path)
    run.run_start_llama(LLAMA, 1, 1.0, 0)
    run.step(1, 0.5)
    run.run_end(1, 0.5)
    assert (False, os.path.join(run.dir, "weights")) == (run.active, run.weights_dir)
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith(f"toyspec: {run.events_path}: Not a directory; logging stops")


def test_a_disk_that_is_full_costs_records_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A record that cannot be written is noted when there is room again, and the program goes on."""
    run = bundle(tmp_path, calls=FailingCalls(at=2, error=errno.ENOSPC, effect="short-write", only="write").calls)
    run.run_start_llama(LLAMA, 2, 1.0, 0)
    run.step(1, 0.5)
    run.step(2, 0.5)
    run.run_end(2, 0.5)
    found = [msgspec.json.decode(line)["kind"] for line in content(run.events_path).splitlines()]
    assert (False, ["run_start", "step", "note", "run_end"]) == (run.active, found)
    assert "No space left on device" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.step(1, 0.5), "step before run_start"),
        (lambda run: run.run_end(1, 0.5), "run_end before run_start"),
        (lambda run: run.run_start("llama", 1, 1, 1, 1, 1, "fast", 0), "lr must be a number, got str"),
        (lambda run: run.run_start("llama", -1, 1, 1, 1, 1, 1.0, 0), "vocab"),
        (lambda run: run.run_start(None, 1, 1, 1, 1, 1, 1.0, 0), "arch"),
    ],
)
def test_misuse_raises(tmp_path: Path, call: Any, message: str) -> None:
    """A call that would make the stream invalid is an error of the caller, and writes nothing."""
    run = bundle(tmp_path)
    with pytest.raises(InvalidEventError) as caught:
        call(run)
    assert message in str(caught.value)
    assert b"" == content(run.events_path)


def test_an_unsafe_id_is_refused(tmp_path: Path) -> None:
    """A bundle is never made outside its root."""
    with pytest.raises(ValueError, match="run id"):
        RunBundle(tmp_path / "runs", "../elsewhere")
    assert [] == os.listdir(tmp_path)
