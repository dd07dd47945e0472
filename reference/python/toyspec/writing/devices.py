"""Asks JAX and PyTorch about the device, where they are in use; neither is imported for this."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from toyspec.generated.toy_v1 import Backend


class DeviceMemory(NamedTuple):
    """Memory of one device, in bytes."""

    used: int
    limit: int
    """What can be used at most."""


def device_memory() -> DeviceMemory | None:
    """Return the memory of the local device that has the least left; None where neither library can tell.

    A processor's main memory is not device memory: on a CPU the answer is None.
    """
    known = [*_jax_memory(), *_torch_memory()]
    return min(known, key=lambda memory: memory.limit - memory.used, default=None)


def this_backend() -> Backend:
    """Return what computes here: the devices of JAX or PyTorch, else the processor."""
    jax, cuda = sys.modules.get("jax"), _cuda()
    if jax is not None and jax.default_backend() != "cpu":
        return Backend(kind=jax.default_backend(), device=jax.local_devices()[0].device_kind)
    if cuda is not None:
        return Backend(kind="cuda", device=cuda.get_device_name())
    return Backend(kind="cpu")


def _jax_memory() -> list[DeviceMemory]:
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    found = []
    for device in jax.local_devices():
        stats: dict[str, Any] = device.memory_stats() or {}
        if stats.get("bytes_limit") and "bytes_in_use" in stats:
            found.append(DeviceMemory(int(stats["bytes_in_use"]), int(stats["bytes_limit"])))
    return found


def _torch_memory() -> list[DeviceMemory]:
    cuda = _cuda()
    if cuda is None:
        return []
    found = []
    for index in range(cuda.device_count()):
        free, total = cuda.mem_get_info(index)
        found.append(DeviceMemory(total - free, total))
    return found


def _cuda() -> Any:
    """Return ``torch.cuda`` once it is in use: a process that has not touched its devices must not be made to."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None
