"""Looks into a model without knowing its library: a torch-like module, a pytree of arrays, or a parameter count.

No library of arrays is imported here: what a model is made of has been imported by whoever made it.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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
