from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import torch_like
import toyspec
from logged_runs import events, findings
from toyspec.core.generated.toy_v1 import Backend
from toyspec.core.writing.environment import (
    ALONE,
    backend_in_use,
    shared_run_id,
    this_backend,
    this_process,
)
from toyspec.core.writing.system_metrics import SystemMetrics, available_probes

LIBRARIES = (
    "jax",
    "jax._src.xla_bridge",
    "torch",
    "torch.distributed",
    "torch_xla.runtime",
)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let no library be imported and no launcher have set its variables; what the test sets is undone."""
    for name in LIBRARIES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [*os.environ]:
        if name.startswith(("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    return monkeypatch


def jax(*, index: int = 0, count: int = 1) -> Any:
    """Return ``jax`` as far as processes and devices go."""
    return SimpleNamespace(
        local_devices=lambda: [SimpleNamespace(device_kind="TPU v4")],
        default_backend=lambda: "tpu",
        process_index=lambda: index,
        process_count=lambda: count,
    )


def distributed(index: int, *, initialized: bool = True) -> Any:
    """Return ``torch.distributed`` of the process *index*."""
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialized,
        get_rank=lambda group=None: index,
        get_world_size=lambda group=None: 16,
    )


def test_a_program_without_libraries_is_alone_on_a_processor(alone: pytest.MonkeyPatch) -> None:
    """Without a library the process is the master, and it has no device."""
    assert (ALONE, Backend(kind="cpu")) == (this_process(), this_backend())
    assert not {"jax", "torch"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("name", "module", "expected"),
    [
        ("jax", jax(index=3, count=8), (3, 8, "jax")),
        ("torch.distributed", distributed(3), (3, 16, "torch.distributed")),
        ("torch_xla.runtime", SimpleNamespace(global_ordinal=lambda: 3, world_size=lambda: 9), (3, 9, "torch_xla")),
        ("torch_xla.runtime", SimpleNamespace(global_ordinal=lambda: 3), (3, 4, "torch_xla")),
    ],
)
def test_the_library_knows_how_many_there_are(
    name: str, module: Any, expected: tuple[int, int, str], alone: pytest.MonkeyPatch
) -> None:
    """The number of processes is asked of the library that is in use, and not of JAX that runs alone."""
    alone.setitem(sys.modules, "jax", jax(index=0, count=1))
    alone.setitem(sys.modules, name, module)
    assert expected == this_process()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (1, 2, "RANK")),
        ({"RANK": "1", "SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (3, 4, "SLURM_PROCID")),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3, "OMPI_COMM_WORLD_RANK")),
        ({"PMI_RANK": "0", "PMI_SIZE": "3"}, (0, 3, "PMI_RANK")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, "")),
        ({"RANK": "4", "WORLD_SIZE": "4"}, (0, 1, "")),
        ({"RANK": "two", "WORLD_SIZE": "4"}, (0, 1, "")),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, (0, 1, "")),
    ],
)
def test_one_launcher_tells_rank_and_size(
    variables: dict[str, str], expected: tuple[int, int, str], alone: pytest.MonkeyPatch
) -> None:
    """Before PyTorch is initialised they do; half a pair or nonsense says nothing, and two are not mixed."""
    alone.setitem(sys.modules, "torch.distributed", distributed(9, initialized=False))
    for name, value in variables.items():
        alone.setenv(name, value)
    assert expected == this_process()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TORCHELASTIC_RUN_ID": "job-7", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, "job-7"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, "slurm-1-0"),
        ({"SLURM_JOB_ID": "1"}, None),
        ({"SLURM_STEP_ID": "0"}, None),
        ({}, None),
    ],
)
def test_launcher_names_the_run(variables: dict[str, str], expected: str | None, alone: pytest.MonkeyPatch) -> None:
    """All processes of one launcher have one id; the id `none` of torchrun does not count."""
    for name, value in variables.items():
        alone.setenv(name, value)
    assert expected == shared_run_id()


def test_first_process_names_the_run_for_all(alone: pytest.MonkeyPatch) -> None:
    """Without a launcher that does, torch.distributed hands each process what the first one says."""
    asked = []

    def broadcast(shared: list[Any], src: int) -> None:
        asked.append((shared[0][:4], src))
        shared[0] = "run-of-the-first"

    module = distributed(3)
    module.broadcast_object_list = broadcast
    alone.setitem(sys.modules, "torch.distributed", module)
    assert "run-of-the-first" == shared_run_id()
    assert [("run-", 0)] == asked


def test_devices_that_are_not_in_use_are_left_alone(alone: pytest.MonkeyPatch) -> None:
    """A process that has not touched its devices is not made to."""
    torch = torch_like.cuda((60, 100))
    torch.cuda.is_initialized = lambda: False
    alone.setitem(sys.modules, "torch", torch)
    assert (None, None) == (this_backend(), backend_in_use())


def test_the_backend_is_named_by_the_library(alone: pytest.MonkeyPatch) -> None:
    """run_start says what computes, as the library calls it."""
    alone.setitem(sys.modules, "torch", torch_like.cuda((60, 100)))
    assert Backend(kind="cuda", device="NVIDIA H100 80GB HBM3", compute="9.0") == this_backend()
    alone.setitem(sys.modules, "jax", jax())
    alone.setitem(sys.modules, "jax._src.xla_bridge", SimpleNamespace(backends_are_initialized=lambda: True))
    assert Backend(kind="tpu", device="TPU v4") == this_backend()


def test_a_run_names_the_device_that_is_in_use(alone: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """start_run asks a library that has begun, and begins none: JAX may still wait for its other processes."""
    tpu, cuda = {"kind": "tpu", "device": "TPU v4"}, {"kind": "cuda", "device": "NVIDIA H100 80GB HBM3"}
    alone.setitem(sys.modules, "jax", jax())
    for begun, expected in (("", None), ("jax", tpu), ("torch", {**cuda, "compute": "9.0"}), ("broken", None)):
        bridge = SimpleNamespace(backends_are_initialized=lambda begun=begun: begun == "jax")
        torch = torch_like.cuda((60, 100))
        torch.cuda.is_initialized = lambda begun=begun: begun in ("torch", "broken")
        if begun == "broken":
            # Whatever a driver raises, the run begins.
            torch.cuda.get_device_name = lambda: 1 / 0
        alone.setitem(sys.modules, "jax._src.xla_bridge", bridge)
        alone.setitem(sys.modules, "torch", torch)
        run = toyspec.start_run(tmp_path, git=None)
        run.run_end()
        assert expected == json.loads(run._stream.run_start).get("backend")


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
