"""Computes what a training step costs, and how well it uses what the hardware can do at most."""

from __future__ import annotations

import difflib
import math
import operator
import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.files import open_file
from toyspec.tracker.models import Depth, Model, count_parameters, find_depth, gradients

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
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
