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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


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


class Depth(NamedTuple):
    """What the attention term needs to know of a transformer."""

    layers: int
    width: int


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
    for array in _arrays(model):
        size = _size(array)
        total += size
        trainable += size if getattr(array, "requires_grad", True) else 0
        stored += size * _item_bytes(array)
    return ParameterCount(total, trainable, stored)


def find_depth(model: Model) -> Depth | None:
    """Return depth and width where ``model.config`` tells both, under the names that model libraries use."""
    config = getattr(model, "config", None)
    layers = next((getattr(config, name) for name in _LAYER_NAMES if hasattr(config, name)), None)
    width = next((getattr(config, name) for name in _WIDTH_NAMES if hasattr(config, name)), None)
    return Depth(layers, width) if isinstance(layers, int) and isinstance(width, int) else None


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


def _arrays(model: Model) -> list[Any]:
    if callable(getattr(model, "parameters", None)):
        return list(model.parameters())
    found = [leaf for _, leaf in _named_leaves(model) if hasattr(leaf, "shape")]
    if not found:
        kind = type(model).__name__
        raise TypeError(f"a model is a module with parameters(), a pytree of arrays or a parameter count, got {kind}")
    return found


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


class GradientStatistics(msgspec.Struct, frozen=True):
    """The statistics of one gradient in a ``grad`` event."""

    shape: tuple[int, ...]
    l2: float | None
    """Euclidean norm; None as soon as one element is not finite, as for mean and abs_mean."""
    min: float | None
    """Smallest finite element; None when there is none."""
    max: float | None
    """Largest finite element; None when there is none."""
    mean: float | None
    abs_mean: float | None
    sparsity: float | None
    """Fraction of all elements with an absolute value below 1e-6; None for a gradient without elements."""
    nan_count: int
    histogram: tuple[int, ...]
    """Counts of the finite elements in 32 bins of equal width that span min to max."""

    def edges(self) -> list[float]:
        """Return the 33 borders of the bins; raise ValueError when there is no finite element."""
        if self.min is None or self.max is None:
            raise ValueError("there is no finite element")
        width = (self.max - self.min) / BINS
        return [self.min + width * index for index in range(BINS)] + [self.max]


def gradient_statistics(gradient: Any) -> GradientStatistics:
    """Return the statistics of an array of any library; it leaves its device once, and is computed in float64."""
    import numpy as np

    values = _on_host(gradient)
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(values)
    whole = values.size > 0 and finite.size == values.size
    return GradientStatistics(
        shape=tuple(int(extent) for extent in values.shape),
        l2=_measure(lambda: np.linalg.norm(values.ravel())) if whole else None,
        min=float(finite.min()) if finite.size else None,
        max=float(finite.max()) if finite.size else None,
        mean=_measure(values.mean) if whole else None,
        abs_mean=_measure(magnitudes.mean) if whole else None,
        sparsity=float((magnitudes < _NEAR_ZERO).mean()) if values.size else None,
        nan_count=int(np.isnan(values).sum()),
        histogram=tuple(int(count) for count in _counts(finite)) if finite.size else (0,) * BINS,
    )


def _measure(measured: Callable[[], Any]) -> float:
    """Return what *measured* gives; an infinity, which is written as null, where it is beyond binary64."""
    import numpy as np

    with np.errstate(over="ignore"):
        return float(measured())


def _counts(finite: Any) -> Any:
    """Return how many elements lie in each bin; the last one has its upper border too, and all that are equal."""
    import numpy as np

    low, high = finite.min(), finite.max()
    # Halves first: the span of two large gradients of opposite sign may exceed binary64.
    span = high / 2 - low / 2
    if span == 0.0:
        return np.bincount([BINS - 1], weights=[finite.size], minlength=BINS)
    places = (finite / 2 - low / 2) / span * BINS
    return np.bincount(np.minimum(places.astype(np.int64), BINS - 1).ravel(), minlength=BINS)


def _on_host(gradient: Any) -> Any:
    """Return *gradient* as a NumPy array of binary64."""
    import numpy as np

    detach = getattr(gradient, "detach", None)
    if callable(detach):
        # NumPy knows no bfloat16, so PyTorch widens it first.
        gradient = detach().double().cpu().numpy()
    return np.asarray(gradient).astype(np.float64)


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
    cells = _attention_cells(model, n_layers, d_model, sequence_length)
    return flops + cells * (_FORWARD_PER_ATTENTION_CELL + (_BACKWARD_PER_ATTENTION_CELL if backward else 0))


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
    return float(_norm(_namespace(found[0]), found, norm_type))


def _attention_cells(model: Model, n_layers: int | None, d_model: int | None, sequence_length: int | None) -> int:
    """Return layers x width x sequence length, 0 when one of them is not known."""
    depth = find_depth(model) if n_layers is None or d_model is None else Depth(n_layers, d_model)
    if depth is None or sequence_length is None:
        return 0
    return (n_layers or depth.layers) * (d_model or depth.width) * sequence_length


def _namespace(array: Any) -> Any:
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise ImportError("gradient norms need array-api-compat: pip install 'toyspec[tracker]'") from error
    return array_namespace(array)


def _norm(xp: Any, arrays: Sequence[Any], order: float) -> Any:
    magnitudes = [xp.abs(_widened(xp, array)) for array in arrays]
    if order == math.inf:
        return xp.max(xp.stack(_together([xp.max(magnitude) for magnitude in magnitudes])))
    return xp.sum(xp.stack(_together([xp.sum(magnitude**order) for magnitude in magnitudes]))) ** (1 / order)


def _widened(xp: Any, array: Any) -> Any:
    detach = getattr(array, "detach", None)
    array = detach() if callable(detach) else array
    return array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float32)


def _together(scalars: list[Any]) -> list[Any]:
    """Return *scalars* on one device and in one precision, the first one's."""
    from array_api_compat import device, to_device

    xp, home, dtype = _namespace(scalars[0]), device(scalars[0]), scalars[0].dtype
    return [xp.astype(scalar if device(scalar) == home else to_device(scalar, home), dtype) for scalar in scalars]


class Accelerator(msgspec.Struct, frozen=True):
    """One chip, as its maker describes it."""

    name: str
    bf16: float
    """Dense bfloat16 matrix operations per second of one chip, without structured sparsity."""
    aliases: tuple[str, ...]
    """Words that a name of the chip has, in lower case."""
    source: str
    """Where the figure is stated."""
    note: str = ""


class UnknownAcceleratorError(ToyspecError, LookupError):
    """No figure is known for an accelerator of that name; give the peak as a number."""


def peak_flops(name: str) -> float:
    """Return the peak bfloat16 FLOP/s of one chip; raise UnknownAcceleratorError.

    *name* is what people, ``jax.Device.device_kind`` and ``torch.cuda.get_device_name`` call it: ``TPU v4``,
    ``TPU v5 lite``, ``NVIDIA H100 80GB HBM3``.
    """
    return find_accelerator(name).bf16


def find_accelerator(name: str) -> Accelerator:
    """Return the accelerator that *name* means, with the source of its figure; raise UnknownAcceleratorError."""
    words = set(_WORD.findall(name.lower()))
    matches = [
        (len(alias.split()), accelerator)
        for accelerator in accelerators()
        for alias in accelerator.aliases
        if words.issuperset(alias.split())
    ]
    found = max(matches, key=operator.itemgetter(0), default=None)
    if found is None:
        known = [accelerator.name for accelerator in accelerators()]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        raise UnknownAcceleratorError(f"no peak FLOP/s is known for {name!r}; {hint}")
    return found[1]


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Return all accelerators that have a figure."""

    class Figures(msgspec.Struct):
        accelerators: tuple[Accelerator, ...]

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accelerators.json")
    with open_file(path) as file:
        return msgspec.json.decode(file.read(), type=Figures).accelerators
