"""A mirror sends every row once: whatever the service does, and whenever the mirror is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, get_args
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toyspec
from mirror_services import FAST, Behaviour, Knowledge, RowService, write_steps
from property_examples import examples
from toyspec.convert.mirrors.mirroring import Timing, mirror_run
from toyspec.convert.mirrors.settings import Mirror, Selecting

ALL = Mirror(to="wandb", patience=0.05)
HERE = Path(__file__).parents[1]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> RowService:
    """Let every mirror send to a service that counts its rows."""
    return use(RowService(), monkeypatch)


def use(service: RowService, monkeypatch: pytest.MonkeyPatch) -> RowService:
    """Let every mirror of this process send to *service*."""
    monkeypatch.setattr(Mirror, "destination", lambda _: service)
    return service


def sent(run: Path, mirror: Mirror = ALL, **options: Any) -> str:
    """Send the rows of a run that are due and return what came of it."""
    return mirror_run(run, mirror, timing=FAST, **options)


def lines(service: RowService) -> list[int]:
    """Return the line of each row with a value that the service has, in the order in which they came."""
    return [row["line"] for row in service.rows if row["values"]]


def state(directory: Path) -> Any:
    """Return the content of the one state file beside *directory*."""
    (path,) = (directory.parent / ".mirrors").glob("*.json")
    return json.loads(path.read_bytes())


def test_run_that_has_ended_is_sent_whole(service: RowService, tmp_path: Path) -> None:
    """Every row and the end arrive, and a second backfill sends nothing."""
    run = write_steps(tmp_path / "a", [3.0, None, 1.0], ending="completed")
    for _ in range(2):
        assert "ended" == sent(run)
    assert [{"loss": 3.0}, {"loss": None}, {"loss": 1.0}, {}] == [row["values"] for row in service.rows]
    assert ["completed"] == service.endings
    assert (4, True) == (state(run)["rows"], state(run)["ended"])
    with (run / "events.jsonl").open("ab") as file:
        file.write(b'{"kind":"run_resume","t":9.0,"from_step":3}\n{"kind":"run_end","t":9.0,"reason":"errored"}\n')
    assert "ended" == sent(run)
    assert ["completed", "errored"] == service.endings


def test_torn_run_is_sent_as_far_as_it_is(service: RowService, tmp_path: Path) -> None:
    """What is committed is sent; what the run writes when it goes on is sent by the next call, and nothing again."""
    run = write_steps(tmp_path / "a", [3.0, 2.0])
    with (run / "events.jsonl").open("ab") as file:
        file.write(b'{"kind":"step","t":3.0,"st')
    assert "sent" == sent(run)
    assert ([2, 3], []) == (lines(service), service.endings)
    write_steps(run, [3.0, 2.0, 1.0], ending="errored")
    assert "ended" == sent(run)
    assert ([2, 3, 4], ["errored"]) == (lines(service), service.endings)


@settings(max_examples=examples(50))
@given(
    st.lists(st.sampled_from(["good", "refuses", "keeps and fails", "keeps half and fails"]), max_size=6),
    st.sampled_from(get_args(Knowledge)),
    st.sampled_from([1, 3]),
    st.integers(1, 40),
)
def test_every_row_arrives_once_whatever_the_service_does(
    tmp_path_factory: pytest.TempPathFactory,
    behaviours: list[Behaviour],
    knowledge: Knowledge,
    every: int,
    count: int,
) -> None:
    """Refusals, lost answers and half kept batches leave neither a hole nor a double."""
    run = write_steps(tmp_path_factory.mktemp("r") / "a", range(count), ending="completed")
    mirror = Mirror(to="wandb", patience=300.0, select=Selecting(every=every))
    with pytest.MonkeyPatch.context() as patch:
        service = use(RowService(knowledge, behaviours), patch)
        patch.setattr("toyspec.convert.mirrors.mirroring.BATCH", 7)
        outcomes = [sent(run, mirror) for _ in range(2)]
    assert ["ended", "ended"] == outcomes
    assert [step + 1 for step in range(1, count + 1) if step % every == 0] == lines(service)
    account = state(run)["account"]
    # Those of the rows, the setting and the reason of the end.
    assert account["notes"] or len(lines(service)) + 2 == account["carried"]


def test_rows_that_the_service_has_lost_are_sent_again(service: RowService, tmp_path: Path) -> None:
    """A service that counts fewer rows than it has acknowledged gets the others from the start of the gap."""
    run = write_steps(tmp_path / "a", range(30))
    sent(run)
    del service.kept[10:]
    write_steps(run, range(31), ending="completed")
    sent(run)
    assert list(range(2, 33)) == lines(service)


def test_service_that_loses_rows_each_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that it never had before renew the patience, and a rewind does not."""
    run = write_steps(tmp_path / "a", range(5), ending="completed")
    behaviours: list[Behaviour] = ["good", "loses all and fails"]
    use(RowService(behaviours=behaviours * 1000), monkeypatch)
    monkeypatch.setattr("toyspec.convert.mirrors.mirroring.BATCH", 2)
    assert "abandoned" == sent(run)


def test_what_a_service_takes_after_it_lost_rows_renews_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt brings a row more than all before, so the mirror goes on, however long they take together."""
    run = write_steps(tmp_path / "a", range(8), ending="completed")
    good: list[Behaviour] = ["good"]
    service = RowService(behaviours=[each for count in range(1, 9) for each in (*good * count, "loses all and fails")])
    use(service, monkeypatch)
    monkeypatch.setattr("toyspec.convert.mirrors.mirroring.BATCH", 1)
    clock = iter(range(10_000))
    timing = Timing(poll=0.01, first_retry=0.001, longest_retry=0.01, clock=lambda: float(next(clock)))
    assert "ended" == mirror_run(run, Mirror(to="wandb", patience=1.5), timing=timing)
    assert list(range(2, 10)) == lines(service)


def test_service_that_is_away_costs_patience_and_one_message(
    service: RowService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mirror gives up after its patience; once the service is there, a backfill sends everything."""
    run = write_steps(tmp_path / "a", [3.0, 2.0], ending="completed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "open", MagicMock(side_effect=ConnectionError("away")))
        assert "abandoned" == sent(run)
    assert 1 == capsys.readouterr().err.count("wandb failed (ConnectionError")
    assert "ended" == sent(run)
    assert [2, 3] == lines(service)


def test_run_is_followed_while_it_is_written(service: RowService, tmp_path: Path) -> None:
    """Rows arrive before the run has ended, and the mirror ends with it."""
    outcomes = []
    follower = threading.Thread(target=lambda: outcomes.append(sent(tmp_path / "a", until="end")), daemon=True)
    follower.start()
    with toyspec.start_run(tmp_path, run_id="a") as run:
        run.step(loss=2.5)
        deadline = time.monotonic() + 300
        while not service.rows and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [2] == lines(service)
        run.step(loss=2.0)
    follower.join(300)
    assert (["ended"], [2, 3]) == (outcomes, lines(service))


def test_other_choice_holds_from_then_on(service: RowService, tmp_path: Path) -> None:
    """A row has the number of its record, so that a later choice sends nothing twice; it is kept for later calls."""
    run = write_steps(tmp_path / "a", range(6))
    sent(run, Mirror(to="wandb", select=Selecting(every=3)))
    write_steps(run, range(10))
    sent(run, Mirror(to="wandb", select=Selecting(every=2)))
    write_steps(run, range(14), ending="completed")
    sent(run)
    assert [line - 1 for line in lines(service)] == [3, 6, 8, 10, 12, 14]


def test_two_mirrors_at_once_are_refused(service: RowService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one says who is there; another destination is another state."""
    run = write_steps(tmp_path / "a", [1.0])
    over = threading.Event()
    first = threading.Thread(target=sent, args=(run,), kwargs={"until": "end", "over": over}, daemon=True)
    first.start()
    deadline = time.monotonic() + 300
    while not service.rows and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(toyspec.MirrorBusyError, match="another process mirrors this run to wandb"):
        sent(run)
    over.set()
    first.join(300)


def test_another_run_at_the_same_path_is_another_run(service: RowService, tmp_path: Path) -> None:
    """A run that replaces one of the same name has a state of its own, and is sent from its start."""
    for loss in (1.0, 2.0):
        with toyspec.start_run(tmp_path, run_id="a", config={"loss": loss}) as run:
            run.step(loss=loss)
        sent(tmp_path / "a")
    assert [{"loss": 1.0}, {"loss": 2.0}] == [row["values"] for row in service.rows if row["values"]]


def test_state_file_that_is_damaged_is_refused(service: RowService, tmp_path: Path) -> None:
    """Nothing is sent, since what was sent is not known; the message says what to do."""
    run = write_steps(tmp_path / "a", [1.0], ending="completed")
    sent(run)
    (path,) = (tmp_path / ".mirrors").glob("*.json")
    path.write_text("{")
    with pytest.raises(toyspec.ToyspecError, match="delete it to send the whole run again"):
        sent(run)


KILLED = """
import sys
from pathlib import Path
from mirror_services import FAST, RowService
from toyspec.convert.mirrors import mirroring
from toyspec.convert.mirrors.settings import Mirror, Selecting
mirroring.BATCH = 5
Mirror.destination = lambda _: RowService(sys.argv[2], path=Path(sys.argv[3]))
print("ready", flush=True)
mirroring.mirror_run(sys.argv[1], Mirror(to="wandb", select=Selecting(every=int(sys.argv[4]))), timing=FAST)
sys.stdin.read()
"""


@pytest.mark.posix
@pytest.mark.parametrize("knowledge", get_args(Knowledge))
@pytest.mark.parametrize("every", ["1", "7"])
def test_mirror_killed_at_any_moment_sends_every_row_once(knowledge: Knowledge, every: str, tmp_path: Path) -> None:
    """After SIGKILL at random moments, each time with a longer run, nothing is double and nothing is missing."""
    chance, run = random.Random(f"{knowledge}{every}"), tmp_path / "a"
    kept = tmp_path / "kept"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    command = [sys.executable, "-c", KILLED, str(run), knowledge, str(kept), every]
    for count in range(100, 600, 100):
        is_last = count == 500
        write_steps(run, range(count), seconds=0.5, ending="completed" if is_last else None)
        there = kept.stat().st_size if kept.exists() else 0
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if not is_last:
                # It is killed when it has sent some rows, most of the time before it has sent all.
                deadline = time.monotonic() + 120
                while not kept.exists() or kept.stat().st_size <= there:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                time.sleep(chance.uniform(0.0, 0.01))
                process.send_signal(signal.SIGKILL)
            process.communicate()
        assert process.returncode == (0 if is_last else -signal.SIGKILL)
    service = RowService(path=kept)
    assert [step + 1 for step in range(1, 501) if step % int(every) == 0] == lines(service)
    assert ["completed"] == service.endings
