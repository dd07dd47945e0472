"""Metrics go to OpenTelemetry and Prometheus by the names of schemas/telemetry.json, each with its value."""

from __future__ import annotations

import math
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from command_line import toyspec_within as command
from mirror_services import FAST, write_steps
from toyspec.convert.destinations import prometheus_values
from toyspec.convert.destinations.destination import RunHead, ServiceRefusedError
from toyspec.convert.destinations.telemetry import TelemetryNames
from toyspec.convert.mirrors.mirroring import mirror_run
from toyspec.convert.mirrors.settings import Mirror

otlp = pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
client = pytest.importorskip("prometheus_client", reason="the extra prometheus is not installed")

from loopback_collector import CollectorBehaviour, LoopbackCollector  # noqa: E402 - it needs the extra

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
        collector.metrics["toyspec.kl"].unit,
        collector.metrics["toyspec.kl"].description,
    )
    assert collector.metrics["rl.train.steps"].sum.is_monotonic
    *_, before, last = collector.metrics["rl.train.steps"].sum.data_points
    assert before.start_time_unix_nano < last.start_time_unix_nano == last.time_unix_nano
    assert ("grpo", "CartPole-v1") == tuple(
        collector.resources[0][key] for key in ("rl.algorithm", "rl.environment.name")
    )


def test_histograms_have_their_edges(tmp_path: Path, served: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A distribution of a gradient is one; Prometheus, whose histograms count up, says that it is left out."""
    with toyspec.start_run(tmp_path, run_id="r", group="sweep", git=None) as run:
        run.grad("w", step=1, min=-1.0, max=3.0, histogram=[1, *[0] * 30, 5])
        run.step(1, loss=1.0)
        run.grad("w", step=2, min=-1.0, max=3.0, histogram=[1, *[0] * 30, 5])
    with LoopbackCollector() as collector:
        mirror_run(tmp_path / "r", Mirror(to="otel", into=collector.address), timing=FAST)
    first = collector.metrics["toyspec.gradients/w"].histogram.data_points[0]
    assert (6, [0, 1, *[0] * 30, 5, 0]) == (first.count, list(first.bucket_counts))
    assert (-1.0, 3.0, 33) == (first.explicit_bounds[0], first.explicit_bounds[-1], len(first.explicit_bounds))
    assert (-1.0, 3.0) == (first.min, first.max)
    assert "sweep" == collector.resources[0]["toyspec.run.group"]
    mirror_run(tmp_path / "r", Mirror(to="prometheus", into=served), timing=FAST)
    assert {"r": 1.0} == scraped(served)["toyspec_loss"]
    assert 1 == capsys.readouterr().err.count("prometheus: run r is there with items changed or dropped (no-place")


def test_setting_without_a_name_describes_nothing() -> None:
    """What is learned is named by the first setting that has a text; the outermost of one name counts."""
    assert {"rl.algorithm": "ppo"} == names_of({"algorithm": "", "algo": "ppo", "env": 5}).attributes
    assert {"rl.algorithm": "ppo"} == names_of({"algorithm": "ppo", "other": {"algorithm": "dqn"}}).attributes
    assert {} == names_of({"algorithm": ""}).attributes


@pytest.mark.parametrize("place", ["127.0.0.1:65536", "host", ":x", "1.2.3.4:"])
def test_port_that_cannot_be_is_refused(place: str) -> None:
    """The message has an example."""
    with pytest.raises(ServiceRefusedError, match=f"{place}: Prometheus needs HOST:PORT"):
        Mirror(to="prometheus", into=place).destination()


@pytest.fixture
def served() -> Iterator[str]:
    """Return an address for Prometheus; what is served there ends with the test."""
    exposition = prometheus_values.Exposition(client, "127.0.0.1:0")
    address = f"127.0.0.1:{exposition.port}"
    prometheus_values._EXPOSITIONS[address] = exposition
    yield address
    del prometheus_values._EXPOSITIONS[address]
    exposition.close()


def scraped(address: str) -> dict[str, dict[str, float]]:
    """Return the samples at *address* by name and by run, as the official parser reads them."""
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"http://{address}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["run"] not in found.setdefault(sample.name, {}), "a series is there once"
            found[sample.name][sample.labels["run"]] = sample.value
    return found


def test_prometheus_has_the_last_values_of_each_run(tmp_path: Path, served: str) -> None:
    """Runs of one id have different labels, and an ended run has no remaining time."""
    mirror = Mirror(to="prometheus", into=served, project="p")
    for folder in ("x", "y"):
        run = write_steps(tmp_path / folder / "a", LOSSES, ending="completed", seconds=1.0 + (folder == "y"))
        (run / "events.jsonl").write_text((run / "events.jsonl").read_text().replace('"lr": 0.1', f'"f": "{folder}"'))
        assert "ended" == mirror_run(run, mirror, timing=FAST)
    mirror_run(rl_run(tmp_path), mirror, timing=FAST)
    found = scraped(served)
    first, second = sorted(name for name in found["toyspec_loss"] if name != "r")
    assert ("a", "a-") == (first, second[:2])
    assert {first: 0.5, second: 0.5} == found["toyspec_loss"]
    assert {"r": 3.0} == found["rl_train_steps_total"]
    assert {"r": 2.0} == found["toyspec_run_alerts_total"]
    assert {"r": 0.75} == found["toyspec_run_progress_ratio"]
    assert {first: 1.0, second: 1.0, "r": 1.0} == found["toyspec_run_ended"]
    assert "toyspec_run_remaining_seconds" not in found
    assert 1780219804.0 == found["toyspec_run_last_record_timestamp_seconds"]["a"]


def test_prometheus_has_a_live_run_again_after_a_restart(tmp_path: Path, served: str) -> None:
    """The state file says that rows were sent; they are in memory only, and are read again."""
    run = write_steps(tmp_path / "a", LOSSES, ending=None)
    mirror = Mirror(to="prometheus", into=served)
    mirror_run(run, mirror, timing=FAST)
    with prometheus_values._EXPOSITIONS[served]._lock:
        prometheus_values._EXPOSITIONS[served]._runs.clear()
    mirror_run(run, mirror, timing=FAST)
    assert {"a": 0.5} == scraped(served)["toyspec_loss"]
    assert "toyspec_run_ended" not in scraped(served)


def test_ended_run_is_served_for_a_while(tmp_path: Path) -> None:
    """Then it is gone, so that the runs of years do not stay."""
    now = [0.0]
    exposition = prometheus_values.Exposition(client, "127.0.0.1:0", clock=lambda: now[0])
    try:
        run = prometheus_values.ServedRun(RunHead("a", {}, 0.0, ""))
        exposition.serve(run)
        exposition.end(run)
        assert "a" in scraped(f"127.0.0.1:{exposition.port}")["toyspec_run_info"]
        now[0] = prometheus_values.SHOWN_SECONDS + 1
        assert {} == scraped(f"127.0.0.1:{exposition.port}")
    finally:
        exposition.close()


def test_last_values_wait_until_they_are_read(tmp_path: Path, served: str) -> None:
    """A command that ended before Prometheus came would have served its last values in vain."""
    mirror = Mirror(to="prometheus", into=served, patience=60.0)
    mirror_run(write_steps(tmp_path / "a", LOSSES, ending="completed"), mirror, timing=FAST)
    over = threading.Event()
    waiting = threading.Thread(target=mirror.destination().wait_until_read, args=(over, mirror.patience))
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    scraped(served)
    waiting.join(300)
    assert not waiting.is_alive()
    over.set()
    mirror_run(write_steps(tmp_path / "b", LOSSES, ending="completed"), mirror, timing=FAST)
    mirror.destination().wait_until_read(over, mirror.patience)


@pytest.mark.parametrize(
    ("service", "place", "words"),
    [
        ("otel", "collector:4318", "needs an address such as http://localhost:4318"),
        ("prometheus", "9464", "needs HOST:PORT"),
        ("prometheus", "127.0.0.1:99999", "needs HOST:PORT"),
    ],
)
def test_wrong_place_is_wrong_usage(service: str, place: str, words: str, tmp_path: Path) -> None:
    """Said before anything starts, with what is expected."""
    result = command("mirror", "--backfill", str(tmp_path), "--to", service, "--into", place)
    assert 2 == result.returncode
    assert f"{place}: " in result.stderr.decode()
    assert words in result.stderr.decode()


def test_address_that_is_taken_is_named(tmp_path: Path, served: str) -> None:
    """Two processes cannot serve at one address."""
    with pytest.raises(ServiceRefusedError, match=f"{served}: .*--into HOST:PORT"):
        prometheus_values.Exposition(client, served)
