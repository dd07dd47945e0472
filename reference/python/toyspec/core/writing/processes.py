"""Tells which of several training processes this one is, and what all of them call the run."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple

_LAUNCHERS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_NO_ID: Final = "none"
"""What torchrun gives as the id of a run that was given none."""


class TrainingProcess(NamedTuple):
    """One of the processes that train together."""

    rank: int
    """Its number, from 0, which is the master."""
    size: int
    """Number of all of them."""
    source: str
    """What reports it: a library, or the variable of a launcher; empty for a process that is alone."""


ALONE: Final = TrainingProcess(0, 1, "")


def this_process() -> TrainingProcess:
    """Return which of the processes this is that train together.

    Asked are the libraries that are already imported, torch_xla, JAX and torch.distributed in this order, then the
    variables of one launcher: torchrun, Slurm, Open MPI, or another with PMI. None is imported for this, and a launcher
    of which only one of the two variables is set says nothing. JAX answers after ``jax.distributed.initialize()``.
    """
    for ask in (_torch_xla, _jax, _torch):
        found = ask()
        if found is not None:
            return found
    for rank_name, size_name in _LAUNCHERS:
        rank, size = _count(rank_name), _count(size_name)
        if rank is not None and size is not None and rank < size:
            return TrainingProcess(rank, size, rank_name) if size > 1 else ALONE
    return ALONE


def process_index() -> int:
    """Return the number of this process among those that train together, from 0; 0 when alone."""
    return this_process().rank


def shared_run_id() -> str | None:
    """Return an id that all processes of this training have in common; None where nothing tells one.

    The launcher tells it, else the first process of torch.distributed, which all of them must ask then.
    """
    elastic = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if elastic and elastic != _NO_ID:
        return elastic
    job, step = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", "")
    if job and step:
        return f"slurm-{job}-{step}"
    return _broadcast_id()


def _broadcast_id() -> str | None:
    distributed = _distributed()
    if distributed is None:
        return None
    import time

    shared: list[Any] = [f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}"]
    distributed.broadcast_object_list(shared, src=0)
    return str(shared[0])


def _count(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _torch_xla() -> TrainingProcess | None:
    runtime = sys.modules.get("torch_xla.runtime")
    if runtime is not None:
        return _of_xla(runtime.global_ordinal, getattr(runtime, "world_size", None))
    model = sys.modules.get("torch_xla.core.xla_model")
    if model is None:
        return None
    return _of_xla(model.get_ordinal, getattr(model, "xrt_world_size", None))


def _of_xla(ask_rank: Any, ask_size: Any) -> TrainingProcess:
    rank = int(ask_rank())
    return TrainingProcess(rank, rank + 1 if ask_size is None else int(ask_size()), "torch_xla")


def _jax() -> TrainingProcess | None:
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    size = int(jax.process_count())
    # JAX that runs alone may run beside another library that does not.
    return TrainingProcess(int(jax.process_index()), size, "jax") if size > 1 else None


def _torch() -> TrainingProcess | None:
    distributed = _distributed()
    if distributed is None:
        return None
    return TrainingProcess(int(distributed.get_rank()), int(distributed.get_world_size()), "torch.distributed")


def _distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    is_ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if is_ready else None
