"""Samples of the machine: what is in the log, and that no probe holds up the training."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import toyspec
from logged_runs import events, findings
from toyspec.health.system_metrics import SystemMetrics, available_probes


def test_measurements_are_system_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Device memory has fields of its own; a driver that stops answering costs its values, and is reported once."""

    def fail() -> dict[str, float]:
        raise RuntimeError("driver lost")

    probes = {"gpu": lambda: {"gpu/0/power_watts": 250.0, "memory_used_bytes": 10, "memory_limit_bytes": 80}, "x": fail}
    with toyspec.start_run(tmp_path, run_id="demo") as run:
        measured = SystemMetrics(run, 60.0, probes)
        measured.measure()
        measured.measure()
        measured.ending()
    found = [event for event in events(tmp_path) if event["kind"] == "system"]
    assert [(10, 80, {"gpu/0/power_watts": 250.0})] * 2 == [
        (event["memory_used_bytes"], event["memory_limit_bytes"], event["extra"]) for event in found
    ]
    assert [] == findings(tmp_path)
    assert 1 == capsys.readouterr().err.count("driver lost")


def test_probe_that_hangs_holds_up_neither_training_nor_end(tmp_path: Path) -> None:
    """The thread waits alone, and the end of the run waits for it at most two seconds."""
    release = threading.Event()

    def hang() -> dict[str, float]:
        release.wait(600)
        return {"late": 1.0}

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
    process = SimpleNamespace(cpu_percent=lambda: 50.0, memory_info=lambda: SimpleNamespace(rss=1000))
    psutil = SimpleNamespace(
        Process=lambda _: process,
        cpu_percent=lambda: 25.0,
        virtual_memory=lambda: SimpleNamespace(total=100, available=40),
        disk_io_counters=lambda: None,
        net_io_counters=lambda: SimpleNamespace(bytes_recv=7, bytes_sent=8),
    )
    for name, module in (("psutil", psutil), ("pynvml", None)):
        monkeypatch.setitem(sys.modules, name, module)
    probes = available_probes()
    assert ["host"] == list(probes)
    found = probes["host"]()
    assert {
        "host/cpu_percent": 25.0,
        "host/memory_used_bytes": 60,
        "host/memory_limit_bytes": 100,
        "process/cpu_percent": 50.0,
        "process/memory_used_bytes": 1000,
        "host/network_received_bytes": 7,
        "host/network_sent_bytes": 8,
    } == found


def test_gpu_is_measured_with_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of the device with the least left; a device that refuses a question has the other values."""

    class NVMLError(Exception):
        pass

    def refuse(*_: object) -> float:
        raise NVMLError

    pynvml = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda device: SimpleNamespace(used=10 + 60 * device, total=80),
        nvmlDeviceGetUtilizationRates=lambda device: SimpleNamespace(gpu=90),
        nvmlDeviceGetTemperature=lambda device, kind: 61,
        nvmlDeviceGetPowerUsage=refuse,
    )
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    found = available_probes()["gpu"]()
    assert (70, 80) == (found["memory_used_bytes"], found["memory_limit_bytes"])
    assert 90 == found["gpu/1/utilization_percent"]
    assert "gpu/0/power_watts" not in found
