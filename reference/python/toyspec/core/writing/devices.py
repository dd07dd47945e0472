"""Asks JAX and PyTorch about the device, where they are in use; neither is imported for this."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from toyspec.core.format.scalars import attribute
from toyspec.core.generated.toy_v1 import Backend


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


def this_backend() -> Backend | None:
    """Return what computes here: the device in use, else the processor; None if a GPU is there and may yet be used."""
    found = backend_in_use()
    if found is None and (jax := sys.modules.get("jax")) is not None and jax.default_backend() != "cpu":
        return _jax_backend(jax)
    return found or (None if _has_cuda() else Backend(kind="cpu"))


def backend_in_use() -> Backend | None:
    """Return the device that JAX or PyTorch uses already, None where neither has begun: asking must not begin it."""
    jax, cuda = sys.modules.get("jax"), _cuda()
    has_begun = attribute(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized")
    if jax is not None and callable(has_begun) and has_begun() and jax.default_backend() != "cpu":
        return _jax_backend(jax)
    if cuda is not None:
        compute = ".".join(map(str, cuda.get_device_capability()))
        return Backend(kind="cuda", device=cuda.get_device_name(), compute=compute)
    return None


def _jax_backend(jax: Any) -> Backend:
    return Backend(kind=jax.default_backend(), device=jax.local_devices()[0].device_kind)


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
    return sys.modules["torch"].cuda if _has_cuda() and sys.modules["torch"].cuda.is_initialized() else None


def _has_cuda() -> bool:
    cuda = attribute(sys.modules.get("torch"), "cuda")
    return cuda is not None and bool(cuda.is_available())
