"""What each health rule reports, and when, with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from toyspec.core.writing.environment import TrainingProcess
from toyspec.health.evaluator import MOST_METRICS, HealthEvaluator
from toyspec.health.rules import HealthAlert, preset_rules, rule_of


def _evaluator(*, several: bool = False, **rule: Any) -> HealthEvaluator:
    return HealthEvaluator([rule_of({"name": "r", **rule})], several=several)


@pytest.mark.parametrize("size", [2, 1])
def test_rank_of_an_earlier_attempt_does_not_stall(size: int) -> None:
    """A run that goes on with fewer processes waits for none of the others."""
    evaluator = _evaluator(type="stall", several=True)
    start = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","world_size":2}\n'
    resumed = b'{"kind":"run_resume","t":2.0,"from_step":1,"world_size":%d}\n' % size
    for rank, log in ((1, start + b'{"kind":"step","t":1.0,"step":1}\n'), (0, start + resumed)):
        for record in toyspec.read(log):
            evaluator.take(record, rank=rank)
    assert size - 1 == len(evaluator.idle(1e9, rank=1))


def test_too_many_metrics_are_counted() -> None:
    """Metrics beyond the limit are not watched: a log with many names takes no more memory. A foreign null is none."""
    evaluator = _evaluator(type="nonfinite", metric="*")
    evaluator.observe({f"m{at}": 1.0 for at in range(MOST_METRICS + 7)}, step=1)
    assert 7 == evaluator.unwatched
    assert [] == evaluator.observe({f"m{MOST_METRICS + 3}": nan}, step=2)
    assert [] == evaluator.observe({"m1": None}, step=2, null_is_value=False)


_VALUE = st.one_of(st.none(), st.floats(allow_nan=True), st.integers(), st.just(1.0))
_STEP = st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e6))
_OBSERVED = st.tuples(st.dictionaries(st.sampled_from(["loss", "reward", "kl", "x"]), _VALUE, max_size=3), _STEP)


@given(st.sampled_from(["default", "rl", "strict"]), st.lists(_OBSERVED, max_size=60), st.booleans())
def test_any_values_at_any_steps_are_taken(preset: str, observed: list[Any], several: bool) -> None:
    """No values make the evaluator fail, and each incident ends at most once, after it has begun."""
    evaluator = HealthEvaluator(preset_rules(preset), several=several)
    is_open: dict[tuple[str, str | None, int | None], bool] = {}
    settled: set[tuple[str, str | None, int | None]] = set()
    for at, (values, step) in enumerate(observed):
        if at % 17 == 16:
            evaluator.rewind(step or 0)
        for alert in evaluator.observe(values, step=step, time=float(at), rank=at % 2 if several else 0):
            if "stall" == alert.rule:
                continue
            key = (alert.rule, alert.metric, alert.rank)
            # A second one begins where the level of the first one was accepted.
            assert is_open.get(key, False) == (alert.event != "begun") or key in settled
            is_open[key] = alert.event != "recovered"
            settled |= {key} if alert.event == "settled" else set()


def test_log_is_checked_with_its_own_alerts_and_ranks(tmp_path: Path) -> None:
    """check_health returns the incidents of each rank with their lines, and the log's own alerts."""
    for rank in (0, 1):
        process = TrainingProcess(rank=rank, size=2, source="test")
        with toyspec.start_run(tmp_path, run_id="a", git=None, ranks="all", process=process) as run:
            for step in range(1, 121):
                run.step(step, loss=nan if (rank, step) == (1, 60) else 2.0)
                if (rank, step) == (0, 7):
                    run.alert("the room is hot", rule="room")
    found = toyspec.check_health(tmp_path / "a")
    counts = Counter((alert.rule, alert.rank, alert.event) for alert in found)
    expected = [("room", 0, "begun"), *[("loss-not-finite", 1, event) for event in ("begun", "recovered")]]
    assert Counter(expected) == counts
    assert 61 == next(alert.line for alert in found if alert.rule == "loss-not-finite")


Said = tuple[Any, ...]
"""Text, value, threshold, step and time of an alert; the time is left out where it is the step."""


def _values(*values: float | None, metric: str = "loss", first: int = 1) -> Any:
    """Return a run that has one of *values* after the other, a second apart."""
    return lambda evaluator: [
        evaluator.observe({metric: value}, step=step, time=float(step)) for step, value in enumerate(values, first)
    ]


def _paced(*seconds: float) -> Any:
    """Return a run of which each step takes its *seconds*."""
    return lambda evaluator: [
        evaluator.observe({}, step=step, time=sum(seconds[:step])) for step in range(1, len(seconds) + 1)
    ]


def _resumed(evaluator: HealthEvaluator) -> Iterable[list[HealthAlert]]:
    yield from _values(*[9.0] * 3)(evaluator)
    evaluator.rewind(1)
    yield from _values(*[9.0, 9.0, 9.0], first=2)(evaluator)


def _risen(evaluator: HealthEvaluator) -> Iterable[list[HealthAlert]]:
    yield from _values(*SPREAD, *[3.4] * 41)(evaluator)
    evaluator.rewind(60)
    yield from _values(3.7, first=61)(evaluator)


def _idle(evaluator: HealthEvaluator) -> Iterable[list[HealthAlert]]:
    yield evaluator.idle(1e9)
    yield from _paced(*[2.0] * 30)(evaluator)
    yield evaluator.idle(60.0)
    yield evaluator.idle(61.0)
    yield evaluator.idle(62.0)
    yield evaluator.observe({}, step=31, time=131.0)
    yield evaluator.idle(142.0)
    yield evaluator.idle(143.0)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


_GOES_ON = "which counts as its level from now on; the incident goes on"
SPREAD = [2.0, 2.1, 1.9, 2.0, 2.2, 1.8] * 10
SCENARIOS: dict[str, tuple[dict[str, Any], Callable[[HealthEvaluator], Iterable[list[HealthAlert]]], list[Said]]] = {
    "nonfinite": (
        {"type": "nonfinite"},
        _values(1, nan, inf, -inf, None, 10**400, 1, 1, 1, 1, 1.25, nan),
        [
            ("loss is NaN", None, None, 2),
            ("recovered: loss is 1.25 again: 5 good values in a row", 1.25, None, 11),
            ("loss is NaN", None, None, 12),
        ],
    ),
    "bound above": (
        {"type": "bound", "above": 3, "metric": "kl"},
        _values(3, 3.5, 2, 2, 2, 2, 3, metric="kl"),
        [
            ("kl is 3.5, above 3", 3.5, 3.0, 2),
            ("recovered: kl is 3 again: 5 good values in a row", 3.0, None, 7),
        ],
    ),
    "bound below, after a step": (
        {"type": "bound", "below": 0.5, "after_step": 3},
        _values(0, 0.5, 0.25),
        [
            ("loss is 0.25, below 0.5", 0.25, 0.5, 3),
        ],
    ),
    "bound twice": (
        {"type": "bound", "above": 3, "values": 2},
        _values(4, nan, 5, 2, 4, 6),
        [
            ("loss is 5, above 3, 2 times in a row", 5.0, 3.0, 3),
        ],
    ),
    "bound of the pace": (
        {"type": "bound", "metric": "@pace", "above": 2},
        _paced(1, 1, 1, 3, 1),
        [
            ("time per step is 3, above 2", 3.0, 2.0, 4, 6.0),
        ],
    ),
    "bound, after a resumption": (
        {"type": "bound", "above": 3, "values": 3},
        _resumed,
        [
            ("loss is 9, above 3, 3 times in a row", 9.0, 3.0, 3),
        ],
    ),
    "spike": (
        {"type": "spike"},
        _values(*SPREAD, 5.0, 1.0, *SPREAD[:5], 0.0),
        [
            ("loss is 5, 15 interquartile ranges above its median 2", 5.0, 3.6, 61),
            ("recovered: loss is 2 again: 5 good values in a row", 2.0, None, 66),
        ],
    ),
    "spike, after values that a resumption takes back": (
        {"type": "spike"},
        _risen,
        [("loss is 3.7, 8.5 interquartile ranges above its median 2", 3.7, 3.6, 61)],
    ),
    "spike on both sides": (
        {"type": "spike", "direction": "both"},
        _values(*SPREAD, 5.0, *SPREAD[:5], 0.0),
        [
            ("loss is 5, 15 interquartile ranges above its median 2", 5.0, 3.6, 61),
            ("recovered: loss is 2.2 again: 5 good values in a row", 2.2, None, 66),
            ("loss is 0, 10 interquartile ranges below its median 2", 0.0, 0.4, 67),
        ],
    ),
    "spike before there are enough values": ({"type": "spike"}, _values(*SPREAD[:10], 50.0, *SPREAD[:8]), []),
    "spike in scattered values": ({"type": "spike", "beyond": 6}, _values(*[1.0, 2.0] * 50, 5.0, 3.5), []),
    "spike in scattered values, beyond the farthest": (
        {"type": "spike", "beyond": 6, "farthest": 2.0},
        _values(*[1.0, 2.0] * 50, 5.0, 3.5),
        [
            ("loss is 5, 3 interquartile ranges above its median 2", 5.0, 4.0, 101),
        ],
    ),
    "spike of what is constant but for rounding": (
        {"type": "spike", "share": 0},
        _values(*[0.3, 0.3, 0.3, 0.1 + 0.2, 0.1 + 0.2] * 12, 0.45),
        [
            ("loss is 0.45, 0.15 above its median 0.3", 0.45, 0.3, 61),
        ],
    ),
    "spike by a share": (
        {"type": "spike", "share": 0.5, "beyond": 1},
        _values(*SPREAD, 3.0, 3.01),
        [
            ("loss is 3.01, 5.05 interquartile ranges above its median 2", 3.01, 3.0, 62),
        ],
    ),
    "spike by at least": (
        {"type": "spike", "least": 4, "beyond": 1},
        _values(*SPREAD, 6.0, 6.01),
        [
            ("loss is 6.01, 20 interquartile ranges above its median 2", 6.01, 6.0, 62),
        ],
    ),
    "spike that becomes the level": (
        {"type": "spike"},
        _values(*SPREAD, *[9.0] * 260, 20.0, *[9.0] * 5, *SPREAD[:5]),
        [
            ("loss is 9, 35 interquartile ranges above its median 2", 9.0, 3.6, 61),
            (f"settled: loss stays near 9, {_GOES_ON}", 9.0, None, 162),
            ("loss is 20, 11 above its median 9", 20.0, 10.8, 321),
            ("recovered: loss is 2 again: 5 good values in a row", 2.0, None, 327),
        ],
    ),
    "spikes as high as those before": (
        {"type": "spike"},
        _values(*[*SPREAD, 5.0] * 5, *SPREAD, 9.0),
        [
            ("loss is 5, 15 interquartile ranges above its median 2", 5.0, 3.6, 61),
            ("recovered: loss is 2.2 again: 5 good values in a row", 2.2, None, 66),
            ("loss is 5, 15 interquartile ranges above its median 2", 5.0, 3.6, 122),
            ("recovered: loss is 2.2 again: 5 good values in a row", 2.2, None, 127),
            (
                "loss is 9, 35 interquartile ranges above its median 2 (incident 3; the next report is of the 10th)",
                9.0,
                6.71754,
                366,
            ),
        ],
    ),
    "incidents are counted": (
        {"type": "bound", "above": 3},
        _values(*[4.0, *[1.0] * 5] * 11),
        [
            ("loss is 4, above 3", 4.0, 3.0, 1),
            ("recovered: loss is 1 again: 5 good values in a row", 1.0, None, 6),
            ("loss is 4, above 3", 4.0, 3.0, 7),
            ("recovered: loss is 1 again: 5 good values in a row", 1.0, None, 12),
            ("loss is 4, above 3 (incident 3; the next report is of the 10th)", 4.0, 3.0, 13),
            ("recovered: loss is 1 again: 5 good values in a row", 1.0, None, 18),
            ("loss is 4, above 3 (incident 10; the next report is of the 100th)", 4.0, 3.0, 55),
            ("recovered: loss is 1 again: 5 good values in a row", 1.0, None, 60),
        ],
    ),
    "incidents of level error are reported each time": (
        {"type": "bound", "above": 3, "level": "error"},
        _values(*[4.0, *[1.0] * 5] * 4),
        [
            said
            for at in (1, 7, 13, 19)
            for said in (
                ("loss is 4, above 3", 4.0, 3.0, at),
                ("recovered: loss is 1 again: 5 good values in a row", 1.0, None, at + 5),
            )
        ],
    ),
    "level that rises little by little": (
        {"type": "diverged"},
        _values(*SPREAD, *[2.0 * 2 ** (at / 100) for at in range(300)]),
        [
            ("loss is 4.347 over 11 values, above 4.32; its best level is 2", 4.34694, 4.32006, 178),
        ],
    ),
    "level that stays, and comes back": (
        {"type": "diverged", "ranges": 1},
        _values(*SPREAD, *[6.0] * 350, *SPREAD),
        [
            ("loss is 6 over 11 values, above 3.817; its best level is 2", 6.0, 3.81696, 216),
            (f"settled: loss stays near 6, {_GOES_ON}", 6.0, None, 317),
            ("recovered: loss is 2.2 again, near its best level", 2.2, None, 416),
        ],
    ),
    "level that falls again after a jump, as on harder data": (
        {"type": "diverged"},
        _values(*SPREAD, *(6 * 0.999**at for at in range(400))),
        [],
    ),
    "level after a wave as high": (
        {"type": "diverged", "share": 0.1, "ranges": 0},
        _values(*SPREAD, *[9.0] * 15, *SPREAD, *[9.0] * 20, *SPREAD, *[30.0] * 20),
        [
            ("loss is 9 over 11 values, above 2.384; its best level is 2", 9.0, 2.384, 66),
            ("recovered: loss is 2.1 again, near its best level", 2.1, None, 82),
            ("loss is 30 over 11 values, above 15.7; its best level is 2", 30.0, 15.6982, 221),
        ],
    ),
    "reward of noise that collapses": (
        {"type": "diverged", "goal": "max", "average": "mean", "values": 20, "metric": "reward", "ranges": 1},
        _values(*[100.0, 60.0, 140.0] * 40, *[-40.0, 0.0, 40.0] * 10, metric="reward"),
        [
            ("reward is 13 over 20 values, below 13.77; its best level is 102", 13.0, 13.773, 137),
        ],
    ),
    "plateau": (
        {"type": "plateau", "steps": 60, "share": 0.1},
        _values(*[10.0 - step / 10 for step in range(60)], *[4.0] * 110, *[3.0] * 120),
        [
            ("loss has not improved for 60 steps: its median is 4, the best 4", 4.0, 4.0, 172),
            ("recovered: loss improves again, to 3", 3.0, None, 222),
            ("loss has not improved for 60 steps: its median is 3, the best 3", 3.0, 3.0, 282),
        ],
    ),
    "no plateau of what has no trend": (
        {"type": "plateau", "steps": 60, "share": 0.1},
        _values(*[2.0 + (at // 150) % 2 for at in range(1500)]),
        [],
    ),
    "plateau of a reward": (
        {"type": "plateau", "steps": 50, "share": 0.1, "goal": "max", "metric": "reward"},
        _values(*[float(step) for step in range(60)], *[40.0] * 200, metric="reward"),
        [
            ("reward has not improved for 50 steps: its mean is 40, the best 41.88", 40.0, 41.8812, 192),
        ],
    ),
    "throughput": (
        {"type": "slower", "metric": "tok/s", "goal": "max"},
        _values(*[100.0] * 90, *[60.0] * 40, *[100.0] * 40, metric="tok/s"),
        [
            ("tok/s is 60 over 30 values, 40% less than its median 100 before", 60.0, 80.0, 112),
            ("recovered: tok/s is 100 again", 100.0, None, 152),
        ],
    ),
    "slower steps": (
        {"type": "slower"},
        _paced(*[1.0] * 100, *[1.5] * 40, *[1.0] * 60),
        [
            ("time per step is 1.5 over 30 values, 50% more than its median 1 before", 1.5, 1.2, 123, 134.5),
            ("recovered: time per step is 1 again", 1.0, None, 163, 183.0),
        ],
    ),
    "steps that get slower little by little": (
        {"type": "slower"},
        _paced(*[1.0 * 2 ** (at / 400) for at in range(400)]),
        [
            (
                "time per step is 1.459 over 30 values, 42% more than the best tenth, 1.03",
                1.45902,
                1.44186,
                233,
                286.814,
            ),
        ],
    ),
    "rare pauses": (
        {"type": "slower"},
        _paced(*[1.0] * 360, *[*[1.0] * 39, 400.0] * 5, *[1.0] * 200),
        [
            (
                "time per step is 14.3 on average over 30 values, 1330% more than the worst tenth before, 1",
                14.3,
                1.4,
                453,
                1251.0,
            ),
            ("recovered: time per step is 1 again", 1.0, None, 663, 2658.0),
        ],
    ),
    "evaluations, now and then": (
        {"type": "slower"},
        _paced(*[*[1.0] * 199, 90.0] * 10),
        [],
    ),
    "throughput with rare pauses": (
        {"type": "slower", "goal": "max", "metric": "tok/s"},
        _values(*[100.0] * 360, *[*[100.0] * 39, 0.2] * 5, metric="tok/s"),
        [
            ("tok/s is 5.671 on average over 30 values, 94% less than the worst tenth before, 100", 5.67108, 60.0, 452),
        ],
    ),
    "slower steps among uneven ones": (
        {"type": "slower"},
        _paced(*[1.0, 1.5] * 30, *[3.0] * 45),
        [
            ("time per step is 3 over 30 values, 100% more than its median 1.5 before", 3.0, 2.0, 93, 174.0),
        ],
    ),
    "fast steps are taken together": (
        {"type": "slower"},
        _paced(*[0.25] * 400, *[0.5] * 160),
        [
            ("time per step is 0.5 over 30 values, 100% more than its median 0.25 before", 0.5, 0.3, 445, 122.5),
        ],
    ),
    "stall, in a log": (
        {"type": "stall", "times": 10, "seconds": 30},
        _paced(*[2.0] * 20, 30.0, 60.0, 121.0, 2.0),
        [
            ("no step for 121 s after step 22", 121.0, 120.0, 23, 251.0),
        ],
    ),
    "stall, while it lasts": (
        {"type": "stall", "times": 30, "seconds": 10},
        _idle,
        [
            ("no step for 61 s after step 30; the median interval is 2 s", 61.0, 60.0, 30, 60.0),
            ("recovered: steps come again, after 71 s", 71.0, None, 31, 131.0),
            ("no step for 143 s after step 31; the median interval is 2 s", 143.0, 142.0, 31, 131.0),
        ],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_incident_is_said_with_its_numbers(name: str) -> None:
    """The text has the value, what it was compared with, and where; the members of the alert have the same numbers."""
    rule, run, said = SCENARIOS[name]
    evaluator = _evaluator(**rule)
    found = [
        (each.text, *map(_rounded, (each.value, each.threshold, each.step, each.time)))
        for alerts in run(evaluator)
        for each in alerts
    ]
    assert [(*row, row[-1])[:5] for row in said] == found
