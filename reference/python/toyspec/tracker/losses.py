"""Losses for next-token prediction, on arrays of NumPy, JAX, PyTorch and every other library of the array API.

Nothing here looks at a value or makes a shape depend on one, so that each function is one graph under
``jax.jit``, ``torch.compile`` and XLA, and gradients flow through it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Array = Any
"""An array of any library of the array API."""


class LossParts(NamedTuple):
    """A loss with an entropy term, and what it is made of; scalars of the library that the logits came from."""

    ce_loss: Array
    entropy: Array
    total_loss: Array


def cross_entropy_loss(logits: Array, labels: Array, pad_id: int | None) -> Array:
    """Return the mean cross entropy of predicting each next label, in nats; positions whose label is *pad_id* are out.

    *logits* is ``[..., T, V]``, *labels* ``[..., T]`` of integers from 0 to V-1 or *pad_id*, which may lie outside of
    that range; None pads nothing. NumPy labels go with any logits. Half precision is computed in float32. Where no
    position is left, because all are padding, T is 1 or the batch is empty, the loss is 0.0. Raise ValueError when
    the shapes do not fit.
    """
    xp = _namespace(logits, labels)
    return _mean_nll(xp, _log_softmax(xp, logits[..., :-1, :]), xp.asarray(labels)[..., 1:], pad_id)


def cross_entropy_with_entropy_loss(
    logits: Array, labels: Array, pad_id: int | None, entropy_weight: float = 0.001
) -> LossParts:
    """Return ``(ce_loss, entropy, total_loss)`` with total_loss = ce_loss + *entropy_weight* x entropy.

    ce_loss is that of ``cross_entropy_loss``; entropy is the mean over all positions, padding too, of the entropy of
    the prediction, in nats, and 0.0 where there is no position. The log-softmax is computed once for both.
    """
    xp = _namespace(logits, labels)
    log_probs = _log_softmax(xp, logits[..., :-1, :])
    ce_loss = _mean_nll(xp, log_probs, xp.asarray(labels)[..., 1:], pad_id)
    # A token that is ruled out has the logarithm -inf; its share is 0, and so must its gradient be.
    finite = xp.where(log_probs > -math.inf, log_probs, xp.zeros_like(log_probs))
    entropy = xp.sum(-xp.exp(log_probs) * finite) / max(math.prod(log_probs.shape[:-1]), 1)
    return LossParts(ce_loss, entropy, ce_loss + entropy_weight * entropy)


def linear_cross_entropy(
    hidden: Array, weight: Array, labels: Array, pad_id: int | None, *, vocabulary_chunk: int = 4096
) -> Array:
    """Return ``cross_entropy_loss(hidden @ weight.T, labels, pad_id)`` without ever holding all logits.

    *hidden* is ``[..., T, D]``, the hidden states before the output layer; *weight* is ``[V, D]``, the output matrix.
    The logits exist for *vocabulary_chunk* tokens of the vocabulary at a time, so memory does not grow with V; on JAX
    and PyTorch the backward pass computes them again. Raise ValueError when the shapes do not fit.
    """
    if len(weight.shape) != 2 or tuple(hidden.shape[-1:]) != tuple(weight.shape[1:]):
        raise ValueError(f"hidden must be [..., T, D] and weight [V, D], got {hidden.shape} and {weight.shape}")
    if vocabulary_chunk < 1:
        raise ValueError(f"vocabulary_chunk must be at least 1, got {vocabulary_chunk!r}")
    xp = _namespace(hidden, labels)
    states, targets = _widened(xp, hidden)[..., :-1, :], xp.asarray(labels)[..., 1:]
    counted, found = _counted(xp, targets, pad_id)
    take = _computed_again(xp, partial(_take_chunk, xp))
    parts: tuple[Array, Array, Array] | None = None
    for start in range(0, weight.shape[0], vocabulary_chunk):
        chunk = weight[start : min(start + vocabulary_chunk, weight.shape[0]), :]
        parts = take(parts, states, chunk, found - start)
    if parts is None:
        raise ValueError("weight has no row: the vocabulary is empty")
    highest, total, picked = parts
    return _mean(xp, highest + xp.log(total) - picked, counted)


def _take_chunk(
    xp: Any, before: tuple[Array, Array, Array] | None, states: Array, weight: Array, targets: Array
) -> tuple[Array, Array, Array]:
    """Return the highest logit, the sum of exp(logit - highest) and the logit of the target, one chunk further."""
    logits = xp.matmul(states, xp.matrix_transpose(_widened(xp, weight)))
    top = xp.max(logits, axis=-1)
    highest = top if before is None else xp.maximum(before[0], top)
    # Where every logit so far is -inf, subtracting -inf would give NaN.
    base = xp.where(highest > -math.inf, highest, xp.zeros_like(highest))
    total = xp.sum(xp.exp(logits - base[..., None]), axis=-1)
    is_here = xp.logical_and(targets >= 0, targets < logits.shape[-1])
    index = xp.where(is_here, targets, xp.zeros_like(targets))
    own = xp.take_along_axis(logits, _indices(xp, index)[..., None], axis=-1)[..., 0]
    picked = xp.where(is_here, own, xp.zeros_like(own) if before is None else before[2])
    return highest, total if before is None else total + before[1] * xp.exp(before[0] - base), picked


def _computed_again(xp: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* so that its intermediate arrays are computed again for the gradient, not kept."""
    from array_api_compat import is_jax_namespace, is_torch_namespace

    if is_jax_namespace(xp):
        from jax import checkpoint as again

        recomputed: Callable[..., Any] = again(function)
        return recomputed
    if is_torch_namespace(xp) and hasattr(xp, "utils"):
        from torch.utils.checkpoint import checkpoint

        return partial(checkpoint, function, use_reentrant=False)
    return function


def _namespace(logits: Array, labels: Array) -> Any:
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise ImportError(
            "the losses need array-api-compat; install it with: pip install 'toyspec[tracker]'"
        ) from error
    shape = tuple(logits.shape)
    if len(shape) < 2 or tuple(labels.shape) != shape[:-1] or shape[-1] == 0:
        raise ValueError(f"logits must be [..., T, V] and labels [..., T], got {shape} and {tuple(labels.shape)}")
    return array_namespace(logits)


def _widened(xp: Any, array: Array) -> Array:
    return array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float32)


def _log_softmax(xp: Any, logits: Array) -> Array:
    logits = _widened(xp, logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def _mean_nll(xp: Any, log_probs: Array, labels: Array, pad_id: int | None) -> Array:
    counted, found = _counted(xp, labels, pad_id)
    return _mean(xp, -xp.take_along_axis(log_probs, _indices(xp, found)[..., None], axis=-1)[..., 0], counted)


def _counted(xp: Any, labels: Array, pad_id: int | None) -> tuple[Array, Array]:
    """Return which positions count, and labels in which padding is 0: its own id may be outside the vocabulary."""
    counted = xp.ones_like(labels, dtype=xp.bool) if pad_id is None else labels != pad_id
    return counted, xp.where(counted, labels, xp.zeros_like(labels))


def _mean(xp: Any, losses: Array, counted: Array) -> Array:
    # Chosen, not multiplied by the mask: a NaN at a padded position must not count.
    total = xp.sum(xp.where(counted, losses, xp.zeros_like(losses)))
    count = xp.sum(xp.astype(counted, losses.dtype))
    return total / xp.maximum(count, xp.ones_like(count))


def _indices(xp: Any, labels: Array) -> Array:
    # PyTorch takes no other integers as indices; JAX has no 64-bit integers unless that is switched on.
    from array_api_compat import is_torch_namespace

    return xp.astype(labels, xp.int64) if is_torch_namespace(xp) else labels
