"""The settings of a Sync, and what its process does until its end."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

import toyspec
from toyspec.core.errors import PlaceError
from toyspec.core.writing.companions import Sync, SyncOrder, synced
from toyspec.stores import companion
from toyspec.stores.run_sync import RunResult
from toyspec.stores.syncing import destination_of, target_of


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"every": 0.009}, "every is 0.009; it must be a number of seconds ≥ 0.01"),
        ({"every": True}, "every is True; it must be"),
        ({"every": "5"}, "every is '5'; it must be"),
        ({"every": float("inf")}, "every is inf; it must be"),
        ({"every": float("nan")}, "every is nan; it must be"),
        ({"every": None}, "every is None; it must be"),
        ({"wait": -0.5}, "wait is -0.5; it must be a number of seconds ≥ 0"),
        ({"patience": -1}, "patience is -1; it must be a number of seconds ≥ 0"),
        ({"max_delay": 0.001}, "max_delay is 0.001; it must be a number of seconds ≥ 0.01"),
        ({"files": "weights"}, "files is 'weights'; it must be 'logs' or 'all'"),
    ],
)
def test_setting_that_cannot_be_is_refused(options: dict[str, Any], fact: str) -> None:
    """The message has the value and what it must be."""
    with pytest.raises(ValueError, match=fact):
        toyspec.Sync("runs", **options)


@pytest.mark.parametrize(
    ("to", "fact"),
    [
        ("s3:/bucket/team", "to is 's3:/bucket/team'; an address has two slashes, and ./ before it is a path"),
        ("s3://key:word@bucket/runs", "credentials in an address are not used"),
    ],
)
def test_place_that_was_hardly_meant_is_refused(to: str, fact: str) -> None:
    """A mistake is found where it is made, before a run starts, and no password is shown."""
    with pytest.raises(ValueError, match=fact) as caught:
        toyspec.Sync(to)
    assert "word" not in str(caught.value)


def test_least_settings_are_taken() -> None:
    """A bound belongs to what is allowed; a path is that of now, and an address loses what may be secret."""
    made = toyspec.Sync("runs", every=0.01, wait=0, patience=0, max_delay=0.01, files="all")
    assert (os.path.abspath("runs"), 0.01, 0, 0, 0.01, "all") == (
        made.to, made.every, made.wait, made.patience, made.max_delay, made.files,
    )  # fmt: skip
    assert "https://host/runs" == toyspec.Sync("https://host/runs?sig=secret").to
    assert (made, "s3://bucket/runs") == (synced(made), synced("s3://bucket/runs").to)


def test_process_gets_the_run_and_the_place(tmp_path: Path) -> None:
    """The order has the directory of the stream; a user who has waited long enough learns where the rest goes."""
    sync = Sync("s3://bucket/runs", wait=7.0)
    order = sync.order(tmp_path / "a" / "events.jsonl")
    assert SyncOrder(str(tmp_path / "a"), sync) == msgspec.json.decode(order.line, type=SyncOrder)
    assert (7.0, "s3://bucket/runs: the rest of the run is still being sent") == (order.wait_seconds, order.late)


class Run:
    """A run whose passes have the outcomes that are given."""

    address = "s3://bucket/runs/a"

    def __init__(self, *outcomes: str) -> None:
        self.outcomes, self.passes = list(outcomes), list[str]()

    def bring(self, extent: str) -> RunResult:
        """Return the next outcome; the last one stays."""
        self.passes.append(extent)
        outcome: Any = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        return RunResult(run="a", address=self.address, outcome=outcome, facts=[f"it is {outcome}"])


class Case(NamedTuple):
    """What becomes of the passes, and what the process makes of it."""

    outcomes: list[str]
    is_over: bool
    """True where the training has ended before."""
    passes: list[str]
    status: int
    said: list[str]


CASES = [
    Case(["sent"], True, ["all"], 0, ["s3://bucket/runs/a: it is sent"]),
    Case(["same"], True, ["all"], 0, ["s3://bucket/runs/a: it is same"]),
    Case(["waiting", "sent", "sent"], False, ["due", "due", "all"], 0, ["it is waiting", "it is sent"]),
    Case(["ahead"], True, ["all"], 1, ["it is ahead", "not complete; `toyspec sync"]),
    Case(["failed", "failed", "sent"], True, ["all"] * 3, 0, ["it is failed", "it is sent"]),
    Case(["conflict"], False, ["due"], 1, ["it is conflict", "nothing more is sent: it is conflict"]),
    # The patience is that of ten seconds, and the process waits two after each pass.
    Case(["failed"], True, ["all"] * 6, 1, ["it is failed", "not complete; `toyspec sync"]),
]


class Program:
    """The program in this process, with an order on its standard input."""

    def __init__(self, order: SyncOrder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = threading.Event()
        self.made: list[tuple[Any, ...]] = []
        self._now, self._waits = 0.0, 0
        stream = io.BytesIO(msgspec.json.encode(order) + b"\n")
        ending = SimpleNamespace(is_set=self.over.is_set, set=self.over.set, wait=self._wait)
        clock = SimpleNamespace(monotonic=lambda: self._now, sleep=self._sleep)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        for name, put in (("end_of_training", lambda: ending), ("give_up", self._give_up), ("time", clock)):
            monkeypatch.setattr(companion, name, put)
        monkeypatch.setattr(signal, "signal", lambda *_: None)

    def _wait(self, seconds: float) -> bool:
        """Let the training end while the process waits for the second time."""
        assert 0.5 == seconds
        self._waits += 1
        if self._waits == 2:
            self.over.set()
        return self.over.is_set()

    def _sleep(self, seconds: float) -> None:
        self._now += seconds

    @staticmethod
    def _give_up(fact: str) -> None:
        sys.stderr.write(f"gives up: {fact}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.outcomes))
def test_process_sends_until_the_end(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is due is sent while the training goes on, then everything; each fact is said once, and what to do."""
    order = SyncOrder(str(tmp_path / "runs" / "a"), Sync("s3://bucket/runs", every=0.5, patience=10.0))
    run, program = Run(*case.outcomes), Program(order, monkeypatch)
    if case.is_over:
        program.over.set()

    def run_sync(*arguments: Any) -> Run:
        program.made.append(arguments)
        return run

    monkeypatch.setattr(companion, "target_of", lambda address: address)
    monkeypatch.setattr(companion, "RunSync", run_sync)
    assert case.status == companion.main()
    assert (order.directory, "s3://bucket/runs/a", "s3://bucket/runs/a") == program.made[0][:3]
    assert case.passes == run.passes
    lines = capsys.readouterr().err.splitlines()
    assert len(case.said) == len(lines)
    assert all(fact in line for fact, line in zip(case.said, lines, strict=True))


def test_place_that_cannot_be_written_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what was tried and that nothing is sent."""
    Program(SyncOrder(str(tmp_path / "runs" / "a"), Sync("https://host/runs")), monkeypatch)
    assert 1 == companion.main()
    assert "https:// cannot be kept in step; use s3://, gs://, az:// or a directory; nothing of run a is sent" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("address", "fact"),
    [
        ("hf://me/runs", "a commit for each poll is too many; send runs there with `toyspec push`"),
        ("sftp://host/a", "sftp:// cannot be kept in step; use s3://, gs://, az:// or a directory"),
    ],
)
def test_place_that_cannot_be_kept_in_step_is_refused(address: str, fact: str) -> None:
    """The message names the places that can be, or the command that sends there."""
    with pytest.raises(PlaceError, match=fact):
        target_of(address)


def test_destination_is_an_address() -> None:
    """A directory is one by its path of now; one slash is hardly meant."""
    assert f"file://{os.path.abspath('runs')}" == destination_of("runs")
    assert "s3://bucket/a" == destination_of("s3://bucket/a/")
    with pytest.raises(PlaceError, match=r"an address has two slashes: s3://bucket/a; \./ before it is a path"):
        destination_of("s3:/bucket/a")
