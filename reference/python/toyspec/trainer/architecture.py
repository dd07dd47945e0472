"""What training needs to know of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.trainer.arrays import Floats, Tokens

Weights: TypeAlias = "Mapping[str, Floats]"
"""Weights by the name that they have as GGUF tensors."""


class ForwardPass(NamedTuple):
    """What a forward pass returns."""

    logits: Floats
    """Batch by predicted positions by vocabulary."""
    kept: Mapping[str, Floats]
    """What the backward pass needs."""


class Node(NamedTuple):
    """One operation of the compute graph."""

    id: str
    op: str
    inputs: Sequence[str]
    """Ids of the nodes whose results it takes."""
    layer: str = ""
    """What the names of its weights begin with; empty when it has none."""


class Architecture(Protocol):
    """What training needs to know of a model; it holds no weights."""

    name: str
    """The value of ``--arch`` and of ``model.arch``."""
    context: int
    """Number of characters that are read."""
    batch: int
    """Number of texts in a batch."""
    predicted: int
    """Number of positions at the end of a text whose next character is predicted."""
    vocab: int
    """Number of different characters."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight, by name, in the order of the parameters."""

    def described(self) -> dict[str, Any]:
        """Return the ``model`` object of run_start."""

    def graph(self) -> list[Node]:
        """Return the nodes of the compute graph, each after its inputs."""

    def forward(self, weights: Weights, tokens: Tokens) -> ForwardPass:
        """Return the logits for *tokens*, batch by context."""

    def backward(self, weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradient by each weight; *grad* is that by the logits of *done*."""


def description(architecture: Architecture, **sizes: int) -> dict[str, Any]:
    """Return the ``model`` object of run_start for *architecture*, with its *sizes*."""
    named = {"arch": architecture.name, "name": f"toyspec-{architecture.name}", "vocab": architecture.vocab}
    return named | sizes | {"weight_type": "f16"}


def flow(architecture: Architecture) -> dict[str, Any]:
    """Return the content of flow.json: ``nodes`` with id, op and the shapes of their weights, and ``edges``."""
    nodes, shapes = architecture.graph(), architecture.shapes()
    return {
        "arch": architecture.name,
        "nodes": [
            {"id": node.id, "op": node.op}
            | {"weights": {name: list(shape) for name, shape in shapes.items() if _is_of(name, node.layer)}}
            for node in nodes
        ],
        "edges": [{"from": source, "to": node.id} for node in nodes for source in node.inputs],
    }


def _is_of(weight: str, layer: str) -> bool:
    return bool(layer) and weight.rpartition(".")[0] == layer
