"""The layers that language models are built from: each a forward pass and its backward pass, without state.

A backward pass takes what the forward pass was given, and the gradient of the loss by what it returned. All arrays
keep the float type they come in, so that a check in fp64 runs the same code as training in fp32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from toyspec.trainer.arrays import Floats, Tokens

_EPSILON = 1e-5
_GELU_SCALE = float(np.sqrt(2 / np.pi))
_GELU_CUBE = 0.044715


def linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Return ``x @ weight.T + bias``; *weight* is outputs by inputs."""
    y: Floats = x @ weight.T + bias
    return y


def linear_backward(x: Floats, weight: Floats, grad: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the gradients by *x*, *weight* and bias."""
    rows, flat = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return grad @ weight, flat.T @ rows, flat.sum(axis=0)


def gelu(x: Floats) -> Floats:
    """Return the Gaussian error linear unit of *x*, in its tanh form."""
    y: Floats = 0.5 * x * (1 + np.tanh(_GELU_SCALE * (x + _GELU_CUBE * x * x * x)))
    return y


def gelu_backward(x: Floats, grad: Floats) -> Floats:
    """Return the gradient by *x*."""
    bend = np.tanh(_GELU_SCALE * (x + _GELU_CUBE * x * x * x))
    slope = _GELU_SCALE * (1 + 3 * _GELU_CUBE * x * x)
    by_x: Floats = grad * (0.5 * (1 + bend) + 0.5 * x * (1 - bend * bend) * slope)
    return by_x


def layer_norm(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Return *x* with mean 0 and variance 1 along its last axis, then scaled and shifted."""
    return _normal(x).values * weight + bias


def layer_norm_backward(x: Floats, weight: Floats, grad: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the gradients by *x*, *weight* and bias."""
    normal = _normal(x)
    lead = tuple(range(x.ndim - 1))
    inner = grad * weight
    by_x = inner - inner.mean(axis=-1, keepdims=True)
    by_x -= normal.values * (inner * normal.values).mean(axis=-1, keepdims=True)
    return by_x * normal.scale, (grad * normal.values).sum(axis=lead), grad.sum(axis=lead)


def embedding_backward(table: Floats, tokens: Tokens, grad: Floats) -> Floats:
    """Return the gradient by *table*, whose rows ``table[tokens]`` were used."""
    by_table = np.zeros_like(table)
    np.add.at(by_table, tokens.ravel(), grad.reshape(-1, table.shape[1]))
    return by_table


class Attention(NamedTuple):
    """What causal self-attention returns, and what its backward pass needs."""

    output: Floats
    """Batch by length by width."""
    weights: Floats
    """Share of each earlier position: batch by heads by length by length; rows sum to 1."""


def attention(qkv: Floats, heads: int) -> Attention:
    """Return causal self-attention; *qkv* is batch by length by queries, keys and values, concatenated."""
    query, key, value = _heads(qkv, heads)
    scores = (query @ key.swapaxes(-1, -2)) / np.sqrt(qkv.dtype.type(query.shape[-1]))
    length = qkv.shape[1]
    scores = np.where(np.tri(length, dtype=bool), scores, qkv.dtype.type(-np.inf))
    weights = softmax(scores)
    return Attention(_joined(weights @ value), weights)


def attention_backward(qkv: Floats, heads: int, weights: Floats, grad: Floats) -> Floats:
    """Return the gradient by *qkv*; *weights* are those of the forward pass."""
    query, key, value = _heads(qkv, heads)
    by_output = _split(grad, heads)
    by_value = weights.swapaxes(-1, -2) @ by_output
    by_weights = by_output @ value.swapaxes(-1, -2)
    by_scores = weights * (by_weights - (by_weights * weights).sum(axis=-1, keepdims=True))
    by_scores /= np.sqrt(qkv.dtype.type(query.shape[-1]))
    parts = (by_scores @ key, by_scores.swapaxes(-1, -2) @ query, by_value)
    return np.concatenate([_joined(part) for part in parts], axis=-1)


def softmax(scores: Floats) -> Floats:
    """Return probabilities along the last axis."""
    shares: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


def cross_entropy(logits: Floats, targets: Tokens) -> tuple[float, Floats]:
    """Return the mean of ``-log softmax(logits)[target]`` in nats over all positions, and its gradient by *logits*."""
    flat = logits.reshape(-1, logits.shape[-1])
    rows = np.arange(flat.shape[0])
    shifted = flat - flat.max(axis=-1, keepdims=True)
    shares = np.exp(shifted)
    total = shares.sum(axis=-1, keepdims=True)
    loss = np.mean(np.log(total[:, 0]) - shifted[rows, targets.ravel()])
    grad = shares / total
    grad[rows, targets.ravel()] -= 1
    grad /= flat.shape[0]
    return float(loss), grad.reshape(logits.shape)


class _Normal(NamedTuple):
    values: Floats
    scale: Floats


def _normal(x: Floats) -> _Normal:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
    return _Normal(centred * scale, scale)


def _heads(qkv: Floats, heads: int) -> list[Floats]:
    return [_split(part, heads) for part in np.split(qkv, 3, axis=-1)]


def _split(x: Floats, heads: int) -> Floats:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def _joined(x: Floats) -> Any:
    batch, heads, length, width = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * width)
