"""Metrics go to OpenTelemetry each with its value."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toyspec
from command_line import toyspec_within as command
from loopback_collector import CollectorBehaviour, LoopbackCollector
from mirror_services import FAST, write_steps
from toyspec.convert.destinations.otel_metrics import metric_name
from toyspec.convert.mirrors.mirroring import mirror_run
from toyspec.convert.mirrors.settings import Mirror

LOSSES = [3.0, None, 0.5]


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("loss", "toyspec.loss"),
        ("val/acc@5 %", "toyspec.val/acc_x40_5_x20__x25_"),
        ("run.step", "toyspec.metric.run.step"),
        ("running", "toyspec.running"),
    ],
)
def test_name_has_signs_that_opentelemetry_allows(metric: str, name: str) -> None:
    """Each other sign is written as its code, and no metric has a name of the run itself."""
    assert name == metric_name(metric)


@given(st.lists(st.text(min_size=1, max_size=400), min_size=2, max_size=5, unique=True))
def test_every_metric_has_a_name_of_its_own(metrics: list[str]) -> None:
    """A name has at most 255 signs, and with the attribute it is that of one metric."""
    found = [metric_name(metric) for metric in metrics]
    assert all(len(each) <= 255 and each.isascii() and each[0].isalpha() for each in found)


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


def resumed_run(root: Path) -> Path:
    """Return a run that was resumed with other settings, with alerts, a histogram and a definition."""
    with toyspec.start_run(root, run_id="r", group="sweep", git=None, config={"max_steps": 8}) as run:
        run.define("kl", unit="nat")
        for step in range(4):
            run.step(loss=1.0 - step / 8)
        run.grad("w", step=1, min=-1.0, max=3.0, histogram=[1, 5])
        run.alert("kl is high", rule="spike")
        run.alert("kl is higher", rule="spike")
        run.abandon()
    with toyspec.start_run(root, run_id="r", exist="resume", from_step=2, config={"max_steps": 4}) as run:
        run.step(loss=0.5)
    return root / "r"


def test_values_of_the_run_itself_are_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alerts are counted, progress follows changed settings, and what has no place is reported."""
    with LoopbackCollector() as collector:
        mirror_run(resumed_run(tmp_path), Mirror(to="otel", into=collector.address), timing=FAST)
    assert [1.0, 0.875, 0.75, 0.625, 0.5] == collector.of("toyspec.loss")
    assert [1.0, 2.0] == collector.of("toyspec.run.alerts")
    assert 0.75 == collector.of("toyspec.run.progress")[-1]
    assert "sweep" == collector.resources[0]["toyspec.run.group"]
    assert "no-place" in capsys.readouterr().err


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


def test_wrong_place_is_wrong_usage(tmp_path: Path) -> None:
    """Said before anything starts, with what is expected."""
    result = command("mirror", "--backfill", str(tmp_path), "--to", "otel", "--into", "collector:4318")
    assert 2 == result.returncode
    assert b"collector:4318: OpenTelemetry needs an address such as http://localhost:4318" in result.stderr
