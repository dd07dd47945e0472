"""Metrics go to OpenTelemetry by the names of schemas/telemetry.json, each with its value."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from command_line import toyspec_within as command
from loopback_collector import CollectorBehaviour, LoopbackCollector
from mirror_services import FAST, write_steps
from toyspec.convert.destinations.destination import RunHead
from toyspec.convert.destinations.otel_metrics import TelemetryNames
from toyspec.convert.mirrors.mirroring import mirror_run
from toyspec.convert.mirrors.settings import Mirror

LOSSES = [3.0, None, 0.5]
RL = {"algorithm": "grpo", "env": "CartPole-v1"}


def names_of(config: dict[str, Any]) -> TelemetryNames:
    """Return the names of a run with these settings."""
    return TelemetryNames(RunHead("a", {"config": config}, 0.0, ""))


@pytest.mark.parametrize(
    ("metric", "config", "name", "more"),
    [
        ("loss", {}, "toyspec.loss", {}),
        ("loss", RL, "rl.train.loss", {}),
        ("train/reward", {}, "rl.environment.reward.mean", {}),
        ("rollout/ep_rew_mean", RL, "rl.environment.reward.mean", {}),
        ("rollout/ep_len_mean", {}, "rl.environment.episode.length.mean", {}),
        ("actor/pg_loss", {}, "rl.train.loss", {"rl.loss.type": "policy"}),
        ("train/value_loss", {}, "rl.train.loss", {"rl.loss.type": "value"}),
        ("kl_loss", {}, "rl.train.loss", {"rl.loss.type": "kl_divergence"}),
        ("num_tokens", RL, "rl.train.tokens", {}),
        ("num_tokens", {}, "toyspec.num_tokens", {}),
        ("val/acc@5 %", {}, "toyspec.val/acc_x40_5_x20__x25_", {}),
        ("run.step", {}, "toyspec.metric.run.step", {}),
        ("running", {}, "toyspec.running", {}),
    ],
)
def test_name_is_that_of_the_proposal_where_it_fits(
    metric: str, config: dict[str, Any], name: str, more: dict[str, str]
) -> None:
    """Names of the learner are those of the proposal only where the settings name what is learned."""
    found = names_of(config).of(metric)
    assert (name, {"toyspec.metric": metric, **more}) == (found.name, found.attributes)


@given(st.lists(st.text(min_size=1, max_size=400), min_size=2, max_size=5, unique=True))
def test_every_metric_has_a_name_of_its_own(metrics: list[str]) -> None:
    """A name has only signs that OpenTelemetry allows, at most 255, and name and attributes are those of one metric."""
    found = [names_of(RL).of(metric) for metric in metrics]
    assert all(len(each.name) <= 255 and each.name.isascii() and each.name[0].isalpha() for each in found)
    assert len(metrics) == len({(each.name, str(each.attributes)) for each in found})


@pytest.mark.parametrize("behaviours", [[], ["fails"], ["keeps and fails"], ["fails", "keeps and fails", "fails"]])
def test_collector_has_every_value_with_its_time(behaviours: Sequence[CollectorBehaviour], tmp_path: Path) -> None:
    """Null is not a number; what was sent twice is the same point; the run itself is described."""
    run = write_steps(tmp_path / "a", LOSSES, ending="completed")
    with LoopbackCollector(behaviours) as collector:
        mirror = Mirror(to="otel", into=collector.address, project="p", patience=300.0)
        assert "ended" == mirror_run(run, mirror, timing=FAST)
    losses = sorted({(point.time, str(point.value)) for point in collector.points if point.name == "toyspec.loss"})
    start = 1780219800_000_000_000
    assert [(start + (at + 1) * 1_000_000_000, str(loss)) for at, loss in enumerate([3.0, math.nan, 0.5])] == losses
    assert [1.0, 2.0, 3.0] == collector.of("toyspec.run.step")
    assert [1.0] == collector.of("toyspec.run.ended")
    assert {"/v1/metrics"} == collector.paths
    described = collector.resources[0]
    assert ("p", "a") == (described["service.name"], described["toyspec.run.id"])
    assert described["service.instance.id"].startswith("a-")


def test_what_the_collector_refuses_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The SDK calls a request that was taken in part a success."""
    run = write_steps(tmp_path / "a", LOSSES, ending="completed")
    with LoopbackCollector(["refuses one"]) as collector:
        mirror_run(run, Mirror(to="otel", into=collector.address), timing=FAST)
    assert "the collector refused 1 values of run a so far: too old" in capsys.readouterr().err


def rl_run(root: Path) -> Path:
    """Return a run of reinforcement learning that was resumed, with alerts, a histogram and a definition."""
    with toyspec.start_run(root, run_id="r", config={"max_steps": 8, **RL}) as run:
        run.define("kl", unit="nat", description="distance from the reference")
        for step in range(4):
            run.step(loss=1.0 - step / 8)
            run.log({"reward": step / 4, "kl": 0.25, "num_tokens": 100 * (step + 1)})
        run.alert("kl is high", rule="spike")
        run.alert("kl is higher", rule="spike")
        run.abandon()
    changed = {"max_steps": 4, **RL}
    with toyspec.start_run(root, run_id="r", exist="resume", from_step=2, config=changed) as run:
        run.step(loss=0.5)
    return root / "r"


def test_run_of_reinforcement_learning_speaks_the_proposal(tmp_path: Path) -> None:
    """Counters fall where training goes back, alerts are counted, and progress follows changed settings."""
    with LoopbackCollector() as collector:
        mirror_run(rl_run(tmp_path), Mirror(to="otel", into=collector.address), timing=FAST)
    assert [1.0, 0.875, 0.75, 0.625, 0.5] == collector.of("rl.train.loss")
    assert [0.0, 0.25, 0.5, 0.75] == collector.of("rl.environment.reward.mean")
    assert [100.0, 200.0, 300.0, 400.0] == collector.of("rl.train.tokens")
    assert [1.0, 2.0] == collector.of("toyspec.run.alerts")
    assert 0.75 == collector.of("toyspec.run.progress")[-1]
    assert ("nat", "distance from the reference") == (
        collector.metrics["toyspec.kl"]["unit"],
        collector.metrics["toyspec.kl"]["description"],
    )
    counted = collector.metrics["rl.train.steps"]["sum"]
    assert (True, 2) == (counted["isMonotonic"], counted["aggregationTemporality"])
    *_, before, last = counted["dataPoints"]
    assert int(before["startTimeUnixNano"]) < int(last["startTimeUnixNano"]) == int(last["timeUnixNano"])
    assert ("grpo", "CartPole-v1") == tuple(
        collector.resources[0][key] for key in ("rl.algorithm", "rl.environment.name")
    )


def test_histograms_have_their_edges(tmp_path: Path) -> None:
    """A distribution of a gradient is one, and what has no place is reported."""
    with toyspec.start_run(tmp_path, run_id="r", group="sweep", git=None) as run:
        run.grad("w", step=1, min=-1.0, max=3.0, histogram=[1, *[0] * 30, 5])
    with LoopbackCollector() as collector:
        mirror_run(tmp_path / "r", Mirror(to="otel", into=collector.address), timing=FAST)
    histogram = collector.metrics["toyspec.gradients/w"]["histogram"]
    (first,) = histogram["dataPoints"]
    assert (1, "6", ["0", "1", *["0"] * 30, "5", "0"]) == (
        histogram["aggregationTemporality"], first["count"], first["bucketCounts"],
    )  # fmt: skip
    assert (-1.0, 3.0, 33) == (first["explicitBounds"][0], first["explicitBounds"][-1], len(first["explicitBounds"]))
    assert (-1.0, 3.0) == (first["min"], first["max"])
    assert "sweep" == collector.resources[0]["toyspec.run.group"]


def test_collector_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a collector gets the path of metrics, that of its metrics is used unchanged; headers are sent."""
    run = write_steps(tmp_path / "a", LOSSES, ending="completed")
    with LoopbackCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.address}/base/")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,other=c")
        mirror_run(run, Mirror(to="otel"), timing=FAST)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{collector.address}/own")
        shutil.rmtree(tmp_path / ".mirrors")
        mirror_run(run, Mirror(to="otel"), timing=FAST)
    assert {"/base/v1/metrics", "/own"} == collector.paths
    assert ("a b", "c") == (collector.headers["api-key"], collector.headers["other"])


def test_numbers_that_json_does_not_have_are_the_texts_of_protobuf(tmp_path: Path) -> None:
    """A collector reads them as numbers."""
    with toyspec.start_run(tmp_path, run_id="r") as run:
        for step, value in enumerate((math.inf, -math.inf, math.nan)):
            run.log({"x": value}, step=step)
    with LoopbackCollector() as collector:
        mirror_run(tmp_path / "r", Mirror(to="otel", into=collector.address), timing=FAST)
    assert {"inf", "-inf", "nan"} == {str(point.value) for point in collector.points if point.name == "toyspec.x"}


def test_setting_without_a_name_describes_nothing() -> None:
    """What is learned is named by the first setting that has a text; the outermost of one name counts."""
    assert {"rl.algorithm": "ppo"} == names_of({"algorithm": "", "algo": "ppo", "env": 5}).attributes
    assert {"rl.algorithm": "ppo"} == names_of({"algorithm": "ppo", "other": {"algorithm": "dqn"}}).attributes
    assert {} == names_of({"algorithm": ""}).attributes


def test_wrong_place_is_wrong_usage(tmp_path: Path) -> None:
    """Said before anything starts, with what is expected."""
    result = command("mirror", "--backfill", str(tmp_path), "--to", "otel", "--into", "collector:4318")
    assert 2 == result.returncode
    assert b"collector:4318: OpenTelemetry needs an address such as http://localhost:4318" in result.stderr
