"""Losses for next-token prediction, on arrays of NumPy, JAX, PyTorch and every other library of the array API.

Nothing here looks at a value or makes a shape depend on one, so that each function is one graph under
``jax.jit``, ``torch.compile`` and XLA, and gradients flow through it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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
    entropy = _mean_entropy(xp, log_probs)
    return LossParts(ce_loss, entropy, ce_loss + entropy_weight * entropy)


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


def _log_softmax(xp: Any, logits: Array) -> Array:
    if logits.dtype not in (xp.float32, xp.float64):
        logits = xp.astype(logits, xp.float32)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def _mean_nll(xp: Any, log_probs: Array, labels: Array, pad_id: int | None) -> Array:
    counted = xp.ones_like(labels, dtype=xp.bool) if pad_id is None else labels != pad_id
    # Padding is looked up as label 0 and masked afterwards: its own id may be outside the vocabulary.
    found = xp.where(counted, labels, xp.zeros_like(labels))
    picked = xp.take_along_axis(log_probs, _indices(xp, found)[..., None], axis=-1)[..., 0]
    # Chosen, not multiplied by the mask: a NaN at a padded position must not count.
    total = xp.sum(xp.where(counted, -picked, xp.zeros_like(picked)))
    count = xp.sum(xp.astype(counted, log_probs.dtype))
    return total / xp.maximum(count, xp.ones_like(count))


def _mean_entropy(xp: Any, log_probs: Array) -> Array:
    # A token that is ruled out has the logarithm -inf; its share is 0, and so must its gradient be.
    finite = xp.where(log_probs > -math.inf, log_probs, xp.zeros_like(log_probs))
    positions = math.prod(log_probs.shape[:-1])
    return xp.sum(-xp.exp(log_probs) * finite) / max(positions, 1)


def _indices(xp: Any, labels: Array) -> Array:
    # PyTorch takes no other integers as indices; JAX has no 64-bit integers unless it is told to.
    from array_api_compat import is_torch_namespace

    return xp.astype(labels, xp.int64) if is_torch_namespace(xp) else labels
