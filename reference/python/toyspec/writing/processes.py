"""Tells which of several training processes this one is."""

from __future__ import annotations

import os
import sys


def process_index() -> int:
    """Return the number of this process among those that train together, from 0, which is the master; 0 when alone.

    Asked are the libraries that are already imported, torch_xla, JAX and torch.distributed in this order, then the
    environment variable ``RANK``. None is imported for this. JAX answers after ``jax.distributed.initialize()``.
    """
    for ask in (_torch_xla_index, _jax_index, _torch_index):
        index = ask()
        if index is not None:
            return index
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isascii() and rank.isdigit() else 0


def _torch_xla_index() -> int | None:
    runtime = sys.modules.get("torch_xla.runtime")
    if runtime is not None:
        return int(runtime.global_ordinal())
    model = sys.modules.get("torch_xla.core.xla_model")
    return None if model is None else int(model.get_ordinal())


def _jax_index() -> int | None:
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    index = int(jax.process_index())
    # JAX that runs alone may run beside another library that does not.
    return index if int(jax.process_count()) > 1 else None


def _torch_index() -> int | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank())
