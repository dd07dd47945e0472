"""What each health rule reports, and when."""

from __future__ import annotations

import json
import random
from collections import Counter
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from toyspec.core.writing.environment import TrainingProcess
from toyspec.health.evaluator import MOST_METRICS, HealthEvaluator
from toyspec.health.rules import preset_rules, rule_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from toyspec.health.rules import HealthAlert


def _evaluator(*, several: bool = False, **rule: Any) -> HealthEvaluator:
    return HealthEvaluator([rule_of({"name": "r", **rule})], several=several)


def _events(
    evaluator: HealthEvaluator, values: Iterable[float | None], name: str = "loss", first: int = 1
) -> list[tuple[float | None, str]]:
    found: list[HealthAlert] = []
    for step, value in enumerate(values, first):
        found += evaluator.observe({name: value}, step=step)
    return [(alert.step, alert.event) for alert in found]


def _noise(count: int, seed: int = 1) -> list[float]:
    numbers = random.Random(seed)
    return [2 + numbers.gauss(0, 0.05) for _ in range(count)]


@pytest.mark.parametrize("value", [nan, inf, -inf, None, 10**400])
def test_value_that_is_not_finite_is_one_incident(value: float | None) -> None:
    """Any value that is not finite, null included, begins an incident, and five good ones end it."""
    events = _events(_evaluator(type="nonfinite"), [1, value, value, value, 1, 1, 1, 1, 1, 1, 1])
    assert [(2, "begun"), (9, "recovered")] == events


def test_null_of_a_foreign_log_does_not_count() -> None:
    """Where null means that there is no value, it is none."""
    evaluator = _evaluator(type="nonfinite")
    assert [] == evaluator.observe({"loss": None}, step=1, null_is_value=False)


def test_spike_needs_values_before_it() -> None:
    """Nothing is a spike before 20 values are known."""
    assert [] == _events(_evaluator(type="spike"), [*_noise(10), 50, *_noise(8)])


@pytest.mark.parametrize(("direction", "expected"), [("up", [61]), ("down", [71]), ("both", [61, 71])])
def test_spike_has_a_direction(direction: str, expected: list[int]) -> None:
    """Spikes are looked for on the side that the rule names."""
    values = [*_noise(60), 5, *_noise(9, 2), 0.1, *_noise(9, 3)]
    events = _events(_evaluator(type="spike", direction=direction), values)
    assert expected == [step for step, event in events if event == "begun"]


def test_constant_metric_does_not_spike() -> None:
    """A metric without any spread does not spike by rounding, and does by a value that is far away."""
    rule: dict[str, Any] = {"type": "spike", "metric": "lr", "share": 0}
    assert [] == _events(_evaluator(**rule), [0.1 + 0.2 if at % 3 else 0.3 for at in range(80)], "lr")
    assert [(41, "begun")] == _events(_evaluator(**rule), [*[0.3] * 40, 0.4], "lr")


def test_bound_of_the_pace_is_a_number_of_seconds() -> None:
    """Steps that take longer than the rule allows begin an incident."""
    events = _paced(_evaluator(type="bound", metric="@pace", above=2), [1, 1, 1, 3, 1])
    assert [(4, "begun", "time per step is 3, above 2")] == events


def test_plateau_is_a_median_that_does_not_improve() -> None:
    """A loss that stays where it is for the steps and the share of the rule is a plateau, until it improves."""
    falling = [10 * 0.99**step for step in range(300)]
    rule: dict[str, Any] = {"type": "plateau", "steps": 200, "share": 0.3}
    assert [] == _events(_evaluator(**rule), [10 * 0.999**step for step in range(3000)])
    events = _events(_evaluator(**rule), [*falling, *[falling[-1]] * 400, *[falling[-1] / 2] * 200])
    assert ["begun", "recovered"] == [event for _, event in events]
    assert 500 <= (events[0][0] or 0) <= 600


def _paced(evaluator: HealthEvaluator, seconds: Iterable[float]) -> list[tuple[float | None, str, str]]:
    time, found = 0.0, []
    for step, each in enumerate(seconds, 1):
        time += each
        found += evaluator.observe({}, step=step, time=time)
    return [(alert.step, alert.event, alert.text) for alert in found]


def test_recent_values_are_not_what_they_are_compared_with() -> None:
    """The spread is that of the values before: a step that takes twice as long is found among uneven ones."""
    seconds = [1.0, 1.5] * 30 + [3.0] * 45
    assert ["begun"] == [event for _, event, _ in _paced(_evaluator(type="slower"), seconds)]


def test_rank_of_an_earlier_attempt_is_not_named(tmp_path: Path) -> None:
    """A run that goes on with fewer processes compares those that are left, and waits for none of the others."""
    for rank in range(2):
        size: dict[str, Any] = {"rank": rank, "world_size": 2}
        start: dict[str, Any] = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", **size}
        resumed = [{"kind": "run_resume", "t": 100.5, "from_step": 100, "world_size": 1}]
        records = [start, *({"kind": "step", "t": float(at), "step": at, "loss": 1.0} for at in range(1, 101))]
        records += (
            [] if rank else [*resumed, *(records[1] | {"t": 100.0 + at, "step": 100 + at} for at in range(1, 200))]
        )
        name = "events.rank-1.jsonl" if rank else "events.jsonl"
        (tmp_path / name).write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    rules = [{"name": "r", "type": "rank-behind", "steps": 50}]
    assert [] == [alert.text for alert in toyspec.check_health(tmp_path, rules)]


def test_too_many_metrics_are_counted() -> None:
    """Metrics beyond the limit are not watched, and counted: a log with many names takes no more memory."""
    evaluator = _evaluator(type="nonfinite", metric="*")
    evaluator.observe({f"m{at}": 1.0 for at in range(MOST_METRICS + 7)}, step=1)
    assert 7 == evaluator.unwatched
    assert [] == evaluator.observe({f"m{MOST_METRICS + 3}": nan}, step=2)


_VALUE = st.one_of(st.none(), st.floats(allow_nan=True), st.integers(), st.just(1.0))
_STEP = st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e6))
_OBSERVED = st.tuples(st.dictionaries(st.sampled_from(["loss", "reward", "kl", "x"]), _VALUE, max_size=3), _STEP)


@given(st.sampled_from(["default", "rl", "strict"]), st.lists(_OBSERVED, max_size=60), st.booleans())
def test_any_values_at_any_steps_are_taken(preset: str, observed: list[Any], several: bool) -> None:
    """No values make the evaluator fail, and each incident ends at most once, after it has begun."""
    evaluator = HealthEvaluator(preset_rules(preset), several=several)
    is_open: dict[tuple[str, str | None, int | None], bool] = {}
    for at, (values, step) in enumerate(observed):
        if at % 17 == 16:
            evaluator.rewind(step or 0)
        for alert in evaluator.observe(values, step=step, time=float(at), rank=at % 2 if several else 0):
            if "stall" == alert.rule:
                continue
            key = (alert.rule, alert.metric, alert.rank)
            assert is_open.get(key, False) == (alert.event == "recovered")
            is_open[key] = alert.event == "begun"


def test_log_is_checked_with_its_own_alerts_and_ranks(tmp_path: Path) -> None:
    """check_health returns incidents with their lines, the log's own alerts, and what only several ranks show."""
    for rank in (0, 1):
        process = TrainingProcess(rank=rank, size=2, source="test")
        with toyspec.start_run(tmp_path, run_id="a", git=None, ranks="all", process=process) as run:
            for step in range(1, 121):
                run.step(step, loss=nan if (rank, step) == (1, 60) else 2.0, compute_us=1000 + 300 * rank)
                if (rank, step) == (0, 7):
                    run.alert("the room is hot", rule="room")
    found = toyspec.check_health(tmp_path / "a")
    counts = Counter((alert.rule, alert.rank, alert.event) for alert in found)
    expected = [("room", 0, "begun"), *[("loss-not-finite", 1, event) for event in ("begun", "recovered")]]
    assert Counter([*expected, ("rank-behind", 1, "begun")]) == counts
    assert 61 == next(alert.line for alert in found if alert.rule == "loss-not-finite")


@pytest.mark.parametrize(("farthest", "expected"), [(None, []), (2.0, [101])])
def test_spike_in_scattered_values_is_far_beyond_the_farthest(farthest: float | None, expected: list[int]) -> None:
    """Where half of the values are far from the others, six interquartile ranges are more than any spike has."""
    rule = rule_of({"name": "s", "type": "spike", "metric": "loss", "beyond": 6, "farthest": farthest})
    evaluator = HealthEvaluator([rule])
    found: list[int] = []
    for step, loss in enumerate([*([1.0, 2.0] * 50), 5.0, 3.5], 1):
        found += [step for alert in evaluator.observe({"loss": loss}, step=step) if alert.event == "begun"]
    assert expected == found
