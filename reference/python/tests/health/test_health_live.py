"""A run that is watched from outside: what grows, what is taken back, what takes its place, and the time between."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from toyspec.core.reading.log_detection import DialectChoice
from toyspec.health.checking import WatchedRun, alerts_of
from toyspec.health.rules import Incidents, rule_of

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
END = b'{"kind":"run_end","t":99.0,"reason":"completed"}\n'
NAN = {"name": "nan", "type": "nonfinite", "metric": "*"}


def step(number: int, loss: str = "1.0") -> bytes:
    """Return the line of a step."""
    return f'{{"kind":"step","t":{number}.0,"step":{number},"loss":{loss}}}\n'.encode()


@pytest.fixture
def path(run: Path) -> Path:
    """Return the stream of a run that has begun."""
    (run / "events.jsonl").write_bytes(START)
    return run / "events.jsonl"


def watched(path: Path, *rules: dict[str, Any]) -> WatchedRun:
    """Return the watch of the run at *path*."""
    return WatchedRun(str(path), [rule_of(rule) for rule in rules], DialectChoice())


def said(run: WatchedRun) -> list[tuple[str, str, float | None, int | None]]:
    """Return rule, event, step and line of what is new."""
    return [(alert.rule, alert.event, alert.step, alert.line) for _, alert in run.poll()]


def test_each_incident_is_reported_once_as_the_log_grows(path: Path) -> None:
    """Only whole lines count; what was there at the first poll does not count as growth."""
    path.write_bytes(START + step(1, "null"))
    run = watched(path, NAN)
    assert ("a", False) == (run.name, run.has_ended)
    found = run.last_growth
    assert ([("nan", "begun", 1, 2)], found) == (said(run), run.last_growth)
    with path.open("ab") as file:
        for number in range(2, 8):
            file.write(step(number))
        file.write(step(8, "null")[:-3])
    assert [("nan", "recovered", 6, 7)] == said(run)
    assert run.last_growth > found
    with path.open("ab") as file:
        file.write(step(8, "null")[-3:] + END)
    assert [("nan", "begun", 8, 9)] == said(run)
    assert run.has_ended
    run.close()


def test_run_that_takes_the_place_is_read_from_its_start(path: Path) -> None:
    """Its lines are counted from the first; what was usual in the one before still is."""
    path.write_bytes(START + step(1) + END)
    run = watched(path, NAN)
    said(run)
    ended = [run.has_ended]
    (path.parent / "new").write_bytes(START + step(1) + step(2, "null"))
    (path.parent / "new").rename(path)
    assert [("nan", "begun", 2, 3)] == said(run)
    assert [True, False] == [*ended, run.has_ended]
    run.close()


def test_alerts_of_the_log_count_unless_their_rule_is_evaluated_here(path: Path) -> None:
    """What the program has found itself is reported with its members; the same rule is not reported twice."""
    own = b'{"kind":"alert","t":1.0,"rule":"%s","level":"%s","text":"%s","step":3,"metric":"m",'
    own += b'"value":2.5,"threshold":2}\n'
    path.write_bytes(START + own % (b"hot", b"warning", b"it is hot") + own % (b"nan", b"error", b"m is NaN"))
    ((_, alert),) = watched(path, NAN).poll()
    assert ("hot", "warning", "it is hot", "begun") == (alert.rule, alert.level, alert.text, alert.event)
    assert ("m", 2.5, 2.0, 3, 1.0, 2) == (
        alert.metric, alert.value, alert.threshold, alert.step, alert.time, alert.line,
    )  # fmt: skip
    with path.open("ab") as file:
        file.write((own % (b"hot", b"info", b"it is cool")).replace(b',"step"', b',"event":"recovered","step"'))
    assert ["recovered"] == [alert.event for _, alert in watched(path, NAN).poll() if alert.level == "info"]


@pytest.mark.parametrize(("later", "ago"), [(b"", 5000), (b'{"kind":"system","t":5000.0,"values":{"cpu":1}}\n', 0)])
def test_time_since_the_last_step_is_that_of_the_file_and_of_later_records(path: Path, later: bytes, ago: int) -> None:
    """A stall is found at the first poll of a log that has long no step, unless it has ended."""
    path.write_bytes(START + b"".join(map(step, range(1, 30))) + later)
    long_ago = time.time() - ago
    os.utime(path, (long_ago, long_ago))
    stall = {"name": "stall", "type": "stall", "seconds": 1000}
    run = watched(path, stall)
    assert [("stall", "begun", 29, None)] == said(run)
    run.close()
    path.write_bytes(path.read_bytes() + END)
    os.utime(path, (long_ago, long_ago))
    assert [] == said(watched(path, stall))


def test_stream_that_is_not_there_yet_is_waited_for(path: Path) -> None:
    """Its time counts from now, and its first bytes are its start."""
    data = path.read_bytes()
    path.unlink()
    run = watched(path, NAN, {"name": "stall", "type": "stall", "seconds": 1000})
    assert [] == said(run)
    path.write_bytes(data + step(1, "null"))
    assert [("nan", "begun", 1, 2)] == said(run)
    run.close()


def test_ranks_are_watched_together(path: Path) -> None:
    """Each stream is read once, whoever names it, and an alert says which process it is of."""
    other = path.with_name("events.rank-2.jsonl")
    other.write_bytes(START + step(1, "null"))
    path.write_bytes(START + b'{"kind":"alert","t":9.0,"rule":"own","level":"info","text":"it is slow","rank":2}\n')
    alerts = [(stream, alert.rank) for stream, alert in alerts_of(str(path), [rule_of(NAN)], DialectChoice())]
    assert [(str(other), 2), (str(path), 2)] == alerts
    path.write_bytes(START)
    run = watched(path, NAN)
    for _ in range(2):
        run.add(str(other))
    assert [(str(other), 2, 1, 2)] == [(stream, alert.rank, alert.step, alert.line) for stream, alert in run.poll()]
    run.close()


def test_rank_that_joins_later_ends_no_incident_of_another(path: Path) -> None:
    """The incident of the first rank, which had no number then, is over when its own steps come again."""
    with path.open("ab") as file:
        file.write(b"".join(map(step, range(1, 30))))
    os.utime(path, (0, 0))
    run, incidents = watched(path, {"name": "stall", "type": "stall", "seconds": 1000}), Incidents()
    (other := path.with_name("events.rank-1.jsonl")).write_bytes(START + step(30))
    for at, left_open in enumerate((1, 1, 0)):
        with path.open("ab") as file:
            file.write(step(2000) * (at > 1))
        for _, alert in run.poll():
            incidents.take(alert)
        assert left_open == incidents.counts["open_alerts"]
        run.add(str(other))
    run.close()
