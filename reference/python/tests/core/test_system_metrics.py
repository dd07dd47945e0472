"""The machine is measured from a thread that never blocks the training and stops with the run."""

import sys
import threading
import time
import types
from pathlib import Path

import pytest

import toyspec
from logged_runs import events, findings
from toyspec.core.writing.evidence import Measurement, SystemMetrics, available_probes


def test_measurements_are_system_events(tmp_path: Path) -> None:
    """What the probes answer is one event; the device memory has fields of its own."""
    with toyspec.start_run(tmp_path, run_id="demo") as run:
        measured = SystemMetrics(run, 60.0, {"gpu": lambda: Measurement({"gpu/0/power_watts": 250.0}, 10, 80)})
        measured.measure()
        measured.ending()
    (event,) = [event for event in events(tmp_path) if event["kind"] == "system"]
    assert (10, 80, {"gpu/0/power_watts": 250.0}) == (
        event["memory_used_bytes"],
        event["memory_limit_bytes"],
        event["extra"],
    )
    assert [] == findings(tmp_path)


def test_failing_probe_is_left_out_and_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A driver that stops answering costs its values, nothing else."""

    def fail() -> Measurement:
        raise RuntimeError("driver lost")

    with toyspec.start_run(tmp_path, run_id="demo") as run:
        measured = SystemMetrics(run, 60.0, {"gpu": fail, "host": lambda: Measurement({"host/cpu_percent": 5.0})})
        measured.measure()
        measured.measure()
        measured.ending()
    assert 2 == len([event for event in events(tmp_path) if event["kind"] == "system"])
    assert 1 == capsys.readouterr().err.count("driver lost")


def test_probe_that_hangs_holds_up_neither_training_nor_end(tmp_path: Path) -> None:
    """The thread waits alone, and the end of the run waits for it at most two seconds."""
    release = threading.Event()

    def hang() -> Measurement:
        release.wait(600)
        return Measurement({"late": 1.0})

    with toyspec.start_run(tmp_path, run_id="demo") as run:
        measured = SystemMetrics(run, 0.001, {"gpu": hang})
        time.sleep(0.05)
        run.step(loss=1.0)
        start = time.monotonic()
        measured.ending()
        assert time.monotonic() - start < 300
    release.set()
    assert "late" not in (tmp_path / "demo" / "events.jsonl").read_text()


def test_host_is_measured_with_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names end in units; the answers here are recorded ones."""
    process = types.SimpleNamespace(cpu_percent=lambda: 50.0, memory_info=lambda: types.SimpleNamespace(rss=1000))
    psutil = types.SimpleNamespace(
        Process=lambda _: process,
        cpu_percent=lambda: 25.0,
        virtual_memory=lambda: types.SimpleNamespace(total=100, available=40),
        disk_io_counters=lambda: None,
        net_io_counters=lambda: types.SimpleNamespace(bytes_recv=7, bytes_sent=8),
    )
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    found = available_probes()["host"]()
    assert {
        "host/cpu_percent": 25.0,
        "host/memory_used_bytes": 60,
        "host/memory_limit_bytes": 100,
        "process/cpu_percent": 50.0,
        "process/memory_used_bytes": 1000,
        "host/network_received_bytes": 7,
        "host/network_sent_bytes": 8,
    } == found.values


def test_gpu_is_measured_with_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of the device with the least left; a device that refuses a question has the other values."""

    class NVMLError(Exception):
        pass

    def refuse(*_: object) -> float:
        raise NVMLError

    pynvml = types.SimpleNamespace(
        NVMLError=NVMLError,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda device: types.SimpleNamespace(used=10 + 60 * device, total=80),
        nvmlDeviceGetUtilizationRates=lambda device: types.SimpleNamespace(gpu=90),
        nvmlDeviceGetTemperature=lambda device, kind: 61,
        nvmlDeviceGetPowerUsage=refuse,
    )
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    found = available_probes()["gpu"]()
    assert (70, 80) == (found.memory_used_bytes, found.memory_limit_bytes)
    assert 90 == found.values["gpu/1/utilization_percent"]
    assert "gpu/0/power_watts" not in found.values


@pytest.mark.parametrize(
    ("metrics", "values", "memory"),
    [
        (
            {
                "duty_cycle_pct": ["90.5", "10"],
                "tensorcore_util": ["50", "25"],
                "hbm_capacity_usage": ["10", "75", "70"],
                "hbm_capacity_total": ["90", "100", "80"],
            },
            {
                "tpu/0/duty_cycle_percent": 90.5,
                "tpu/1/duty_cycle_percent": 10.0,
                "tpu/0/tensorcore_percent": 50.0,
                "tpu/1/tensorcore_percent": 25.0,
            },
            (70, 80),
        ),
        ({"tensorcore_util": ["50"], "hbm_capacity_total": ["90"]}, {"tpu/0/tensorcore_percent": 50.0}, (None, None)),
        ({"hbm_capacity_usage": ["10"], "hbm_capacity_total": ["90"]}, {}, (10, 90)),
        ({"hbm_capacity_usage": ["10"]}, {}, (None, None)),
    ],
)
def test_tpu_is_measured_with_libtpu(
    monkeypatch: pytest.MonkeyPatch,
    metrics: dict[str, list[str]],
    values: dict[str, float],
    memory: tuple[int | None, int | None],
) -> None:
    """What this version of the library offers is asked; memory is that of the chip with the least left."""
    tpumonitoring = types.SimpleNamespace(
        list_supported_metrics=lambda: list(metrics),
        get_metric=lambda name: types.SimpleNamespace(data=lambda: metrics[name]),
    )
    monkeypatch.setitem(sys.modules, "libtpu", types.ModuleType("libtpu"))
    monkeypatch.setitem(sys.modules, "libtpu.sdk", types.SimpleNamespace(tpumonitoring=tpumonitoring))
    assert Measurement(values, *memory) == available_probes()["tpu"]()


def test_tpu_without_metrics_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that offers none of the metrics has no device."""
    tpumonitoring = types.SimpleNamespace(list_supported_metrics=lambda: ["another"])
    monkeypatch.setitem(sys.modules, "libtpu", types.ModuleType("libtpu"))
    monkeypatch.setitem(sys.modules, "libtpu.sdk", types.SimpleNamespace(tpumonitoring=tpumonitoring))
    assert "tpu" not in available_probes()


def test_machine_without_devices_has_no_probe_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is there without a device is as good as none."""
    for name in ("psutil", "pynvml", "libtpu", "libtpu.sdk"):
        monkeypatch.setitem(sys.modules, name, None)
    assert {} == available_probes()
