"""Computes what a training step costs, what its gradients are, and how well it uses what the hardware can do at most.

A model is looked into without knowing its library: a torch-like module, a pytree of arrays, or a parameter count. No
library of arrays is imported here: what a model is made of has been imported by whoever made it.
"""

from __future__ import annotations

import math
import operator
import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.errors import ToyspecError, nearest
from toyspec.core.files import open_file
from toyspec.core.writing.environment import cuda_in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


Model = Any
"""A module with ``parameters()`` as in PyTorch, a pytree whose leaves have a shape, or the number of parameters."""

_COUNT_ONLY_ITEM_BYTES = 4
_LAYER_NAMES = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
_WIDTH_NAMES = ("hidden_size", "d_model", "n_embd", "dim")


class ParameterCount(NamedTuple):
    """How many numbers a model has learnt."""

    total: int
    trainable: int
    """Those that get a gradient; all of them unless the model says otherwise."""
    stored_bytes: int
    """Memory that the parameters take; 4 bytes each where the model does not say."""


def count_parameters(model: Model) -> ParameterCount:
    """Return the size of *model*; an array that stands twice in a pytree counts twice, in a module once.

    Raise TypeError for what is not a model, ValueError for a negative count.
    """
    if is_count(model):
        number = int(model)
        if number < 0:
            raise ValueError(f"a number of parameters must not be negative, got {model!r}")
        return ParameterCount(number, number, number * _COUNT_ONLY_ITEM_BYTES)
    total = trainable = stored = 0
    is_module = callable(getattr(model, "parameters", None))
    arrays = (
        list(model.parameters()) if is_module else [leaf for _, leaf in _named_leaves(model) if hasattr(leaf, "shape")]
    )
    if not arrays and not is_module:
        kind = type(model).__name__
        raise TypeError(f"a model is a module with parameters(), a pytree of arrays or a parameter count, got {kind}")
    for array in arrays:
        size = _size(array)
        total += size
        trainable += size if getattr(array, "requires_grad", True) else 0
        stored += size * _item_bytes(array)
    return ParameterCount(total, trainable, stored)


def gradients(model: Model) -> Iterator[tuple[str, Any]]:
    """Yield name and gradient of each parameter that has one: of a module, its ``grad``; of a pytree, each leaf."""
    if callable(getattr(model, "named_parameters", None)):
        named = model.named_parameters()
        yield from ((name, parameter.grad) for name, parameter in named if parameter.grad is not None)
    elif callable(getattr(model, "parameters", None)):
        for index, parameter in enumerate(model.parameters()):
            if parameter.grad is not None:
                yield str(index), parameter.grad
    else:
        yield from ((name, leaf) for name, leaf in _named_leaves(model) if hasattr(leaf, "shape"))


def is_count(model: Model) -> bool:
    """Return whether *model* is a number of parameters: an integer of any library, or a whole float such as 7e9."""
    if isinstance(model, float):
        return model.is_integer()
    return hasattr(model, "__index__") and not isinstance(model, bool) and not getattr(model, "shape", ())


def _named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    jax = sys.modules.get("jax")
    if jax is not None:
        # JAX knows the containers that were registered with it, such as modules of its neural network libraries.
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            yield _path_name(path), leaf
    else:
        yield from _plain_leaves(tree, "")


def _path_name(path: Any) -> str:
    keys = (next((getattr(key, name) for name in ("key", "name", "idx") if hasattr(key, name)), key) for key in path)
    return ".".join(str(key) for key in keys)


def _plain_leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        children = [(str(key), tree[key]) for key in sorted(tree, key=str)]
    elif isinstance(tree, list | tuple):
        children = [(str(index), child) for index, child in enumerate(tree)]
    else:
        yield name, tree
        return
    for key, child in children:
        yield from _plain_leaves(child, f"{name}.{key}" if name else key)


def _size(array: Any) -> int:
    numel = getattr(array, "numel", None)
    return operator.index(numel()) if callable(numel) else math.prod(array.shape)


def _item_bytes(array: Any) -> int:
    element_size = getattr(array, "element_size", None)
    if callable(element_size):
        return operator.index(element_size())
    size = getattr(getattr(array, "dtype", None), "itemsize", _COUNT_ONLY_ITEM_BYTES)
    return operator.index(size)


BINS = 32
"""Number of counts of every histogram."""

_NEAR_ZERO = 1e-6


def gradient_statistics(gradient: Any) -> dict[str, Any]:
    """Return the statistics of an array of any library, as a ``grad`` event has them.

    It leaves its device once, and is computed in float64. Norm and means are None as soon as one element is not finite;
    extremes and the 32 counts, in bins of equal width from min to max, are those of the finite elements.
    """
    import numpy as np

    detach = getattr(gradient, "detach", None)
    if callable(detach):
        # NumPy knows no bfloat16, so PyTorch widens it first.
        gradient = detach().double().cpu().numpy()
    values = np.asarray(gradient).astype(np.float64)
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(values)
    is_whole = values.size > 0 and finite.size == values.size
    # What is beyond binary64 is an infinity, which is written as null.
    with np.errstate(over="ignore"):
        return {
            "shape": list(values.shape),
            "l2": float(np.linalg.norm(values.ravel())) if is_whole else None,
            "min": float(np.min(finite)) if finite.size else None,
            "max": float(np.max(finite)) if finite.size else None,
            "mean": float(values.mean()) if is_whole else None,
            "abs_mean": float(magnitudes.mean()) if is_whole else None,
            "sparsity": float((magnitudes < _NEAR_ZERO).mean()) if values.size else None,
            "nan_count": int(np.isnan(values).sum()),
            "histogram": _counts(finite).tolist() if finite.size else [0] * BINS,
        }


def _counts(finite: Any) -> Any:
    """Return how many elements lie in each bin; the last one has its upper border too, and all that are equal."""
    import numpy as np

    # Halves: the span of two large gradients of opposite sign may exceed binary64.
    halves = finite / 2 - finite.min() / 2
    span = halves.max()
    places = halves / span * BINS if span else np.full_like(halves, BINS)
    return np.bincount(np.minimum(places.astype(np.int64), BINS - 1), minlength=BINS)


_SHORTEST_SECONDS = 1e-6
_MEBIBYTE = 1024 * 1024
_FORWARD_PER_PARAMETER = 2
_BACKWARD_PER_PARAMETER = 4
_FORWARD_PER_ATTENTION_CELL = 4
_BACKWARD_PER_ATTENTION_CELL = 8
_WORD = re.compile("[a-z0-9]+")


def compute_model_flops_per_token(  # noqa: PLR0913 - three of them are the call shape that this function keeps
    model: Model,
    include_backward: bool = True,
    backward_trainable_only: bool = True,
    *,
    n_layers: int | None = None,
    d_model: int | None = None,
    sequence_length: int | None = None,
) -> int:
    """Return the floating-point operations that one token costs, as the literature counts them.

    - 2 x N forward and 4 x N backward, where N is the number of parameters: one multiplication and one addition each,
      twice as many for the gradients of inputs and weights (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). The
      backward pass counts trainable parameters only, unless *backward_trainable_only* is False.
    - 12 x n_layers x d_model x sequence_length for attention, a third of it forward (Chowdhery et al. 2022, PaLM,
      arXiv:2204.02311, appendix B). It is counted when *sequence_length* is given and depth and width are known,
      from *n_layers* and *d_model* or from ``model.config``.

    Raise TypeError for what is not a model.
    """
    parameters = count_parameters(model)
    backward = parameters.trainable if backward_trainable_only else parameters.total
    if not include_backward:
        backward = 0
    flops = _FORWARD_PER_PARAMETER * parameters.total + _BACKWARD_PER_PARAMETER * backward
    layers, width = n_layers or _setting(model, _LAYER_NAMES), d_model or _setting(model, _WIDTH_NAMES)
    if layers and width and sequence_length:
        cells = layers * width * sequence_length
        flops += cells * (_FORWARD_PER_ATTENTION_CELL + (_BACKWARD_PER_ATTENTION_CELL if backward else 0))
    return flops


def _setting(model: Model, names: Iterable[str]) -> int | None:
    """Return a member of ``model.config``, which model libraries call by one of *names*."""
    config = getattr(model, "config", None)
    return next((found for name in names if isinstance(found := getattr(config, name, None), int)), None)


def compute_mfu(
    model: Model,
    tokens_per_second: float,
    theoretical_peak_flops: float,
    *,
    flops_per_token: float | None = None,
) -> float:
    """Return the model FLOPs utilisation: the operations that the model needs, over those that the hardware could do.

    1.0 is the peak. *theoretical_peak_flops* is per second, of all devices together; *tokens_per_second* likewise.
    *flops_per_token* replaces ``compute_model_flops_per_token``. Raise ValueError unless the peak is above 0.
    """
    if not theoretical_peak_flops > 0:
        raise ValueError(f"theoretical_peak_flops must be above 0, got {theoretical_peak_flops!r}")
    if flops_per_token is None:
        flops_per_token = compute_model_flops_per_token(model)
    return flops_per_token * tokens_per_second / theoretical_peak_flops


def compute_tokens_in_batch(batch_size: int, sequence_length: int) -> int:
    """Return the number of tokens in a batch."""
    return batch_size * sequence_length


def compute_throughput(total_tokens: int, elapsed_seconds: float) -> float:
    """Return tokens per second; a time below a microsecond counts as one."""
    return total_tokens / max(elapsed_seconds, _SHORTEST_SECONDS)


def compute_model_size_mb(model: Model) -> float:
    """Return the memory of the parameters in MiB (2**20 bytes), by their element types; a count has 4 bytes each."""
    return count_parameters(model).stored_bytes / _MEBIBYTE


def compute_gradient_norm(model: Model, norm_type: float = 2.0) -> float:
    """Return the norm of all gradients together, of order *norm_type*, which may be ``math.inf``; 0.0 without any.

    *model* is a module whose parameters have a ``grad``, or a pytree of gradients. Half precision is added up in
    float32. The result leaves the device once. Raise ValueError unless *norm_type* is above 0.
    """
    if not norm_type > 0:
        raise ValueError(f"norm_type must be above 0, got {norm_type!r}")
    found = [gradient for _, gradient in gradients(model) if 0 not in tuple(gradient.shape)]
    if not found:
        return 0.0
    try:
        from array_api_compat import array_namespace, device, to_device
    except ImportError as error:
        raise ImportError("gradient norms need array-api-compat: pip install 'toyspec[tracker]'") from error
    xp = array_namespace(found[0])
    norms: list[Any] = []
    for gradient in found:
        detach = getattr(gradient, "detach", None)
        array = detach() if callable(detach) else gradient
        wide = array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float32)
        norm = xp.linalg.vector_norm(wide, ord=norm_type)
        # On one device and in one precision, the first one's.
        norms.append(xp.astype(to_device(norm, device(norms[0])), norms[0].dtype) if norms else norm)
    return float(xp.linalg.vector_norm(xp.stack(norms), ord=norm_type))


class UnknownAcceleratorError(ToyspecError, LookupError):
    """No figure is known for an accelerator of that name; give the peak as a number."""


def peak_flops(name: str) -> float:
    """Return the peak bfloat16 FLOP/s of one chip; raise UnknownAcceleratorError.

    *name* is what people, ``jax.Device.device_kind`` and ``torch.cuda.get_device_name`` call it: ``TPU v4``,
    ``TPU v5 lite``, ``NVIDIA H100 80GB HBM3``.
    """
    words = set(_WORD.findall(name.lower()))
    matches = [
        (len(alias.split()), chip["bf16"])
        for chip in _accelerators()
        for alias in chip["aliases"]
        if words.issuperset(alias.split())
    ]
    if not matches:
        known = [chip["name"] for chip in _accelerators()]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        raise UnknownAcceleratorError(f"no peak FLOP/s is known for {name!r}; {hint}")
    figure: float = max(matches, key=operator.itemgetter(0))[1]
    return figure


@cache
def _accelerators() -> list[dict[str, Any]]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accelerators.json")
    with open_file(path) as file:
        found: list[dict[str, Any]] = msgspec.json.decode(file.read())["accelerators"]
        return found


class DeviceMemory(NamedTuple):
    """Memory of one device, in bytes."""

    used: int
    limit: int
    """What can be used at most."""


def device_memory() -> DeviceMemory | None:
    """Return the memory of the local device that has the least left; None where neither library can tell.

    A processor's main memory is not device memory: on a CPU the answer is None.
    """
    found: list[DeviceMemory] = []
    jax, cuda = sys.modules.get("jax"), cuda_in_use()
    for device in () if jax is None else jax.local_devices():
        stats: dict[str, Any] = device.memory_stats() or {}
        if stats.get("bytes_limit") and "bytes_in_use" in stats:
            found.append(DeviceMemory(int(stats["bytes_in_use"]), int(stats["bytes_limit"])))
    for index in range(0 if cuda is None else cuda.device_count()):
        free, total = cuda.mem_get_info(index)
        found.append(DeviceMemory(total - free, total))
    return min(found, key=lambda memory: memory.limit - memory.used, default=None)
