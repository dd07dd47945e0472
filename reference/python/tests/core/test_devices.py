from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import torch_like
import toyspec
from toyspec.core.generated.toy_v1 import Backend
from toyspec.core.writing.environment import (
    ALONE,
    backend_in_use,
    shared_run_id,
    this_backend,
    this_process,
)

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
