"""A small decoder-only transformer; both passes are written out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toyspec.trainer import layers
from toyspec.trainer.architecture import ForwardPass, Node, description

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.trainer.architecture import Weights
    from toyspec.trainer.arrays import Floats, Tokens


class Transformer:
    """A decoder with the block of GPT-2: norm, causal attention, norm, GELU; the output shares the embedding."""

    name = "transformer"
    context = 48
    batch = 12
    predicted = context
    d_model = 48
    n_layers = 2
    n_heads = 4
    d_ff = 4 * d_model

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight."""
        width = self.d_model
        found: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.vocab, width),
            "position_embd.weight": (self.context, width),
        }
        for block in range(self.n_layers):
            for part, shape in (
                ("attn_norm", (width,)),
                ("attn_qkv", (3 * width, width)),
                ("attn_output", (width, width)),
                ("ffn_norm", (width,)),
                ("ffn_up", (self.d_ff, width)),
                ("ffn_down", (width, self.d_ff)),
            ):
                found[f"blk.{block}.{part}.weight"] = shape
                found[f"blk.{block}.{part}.bias"] = shape[:1]
        return found | {"output_norm.weight": (width,), "output_norm.bias": (width,)}

    def described(self) -> dict[str, Any]:
        """Return the model's sizes."""
        return description(
            self,
            d_model=self.d_model,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            n_kv=self.n_heads,
            d_head=self.d_model // self.n_heads,
            d_ff=self.d_ff,
        )

    def graph(self) -> list[Node]:
        """Return the compute graph."""
        nodes = [
            Node("tokens", "input", ()),
            Node("token_embd", "embedding", ("tokens",), "token_embd"),
            Node("position_embd", "embedding", (), "position_embd"),
            Node("embd", "add", ("token_embd", "position_embd")),
        ]
        for block in range(self.n_layers):
            nodes += _block_graph(f"blk.{block}", nodes[-1].id)
        return [
            *nodes,
            Node("output_norm", "layer_norm", (nodes[-1].id,), "output_norm"),
            Node("output", "matmul", ("output_norm", "token_embd")),
            Node("loss", "cross_entropy", ("output", "tokens")),
        ]

    def forward(self, weights: Weights, tokens: Tokens) -> ForwardPass:
        """Return the logits of the character after each of *tokens*."""
        kept: dict[str, Floats] = {}
        x = weights["token_embd.weight"][tokens] + weights["position_embd.weight"][: tokens.shape[1]]
        for block in range(self.n_layers):
            x = self._block_forward(f"blk.{block}", weights, x, kept)
        kept["output_norm"] = x
        kept["output"] = _normed("output_norm", weights, x)
        return ForwardPass(kept["output"] @ weights["token_embd.weight"].T, kept)

    def _block_forward(self, name: str, weights: Weights, x: Floats, kept: dict[str, Floats]) -> Floats:
        kept[f"{name}.attn_norm"] = x
        kept[f"{name}.attn_qkv"] = _normed(f"{name}.attn_norm", weights, x)
        qkv = kept[f"{name}.qkv"] = _linear(f"{name}.attn_qkv", weights, kept[f"{name}.attn_qkv"])
        seen = layers.attention(qkv, self.n_heads)
        kept[f"{name}.shares"], kept[f"{name}.attn_output"] = seen.weights, seen.output
        x = x + _linear(f"{name}.attn_output", weights, seen.output)
        kept[f"{name}.ffn_norm"] = x
        kept[f"{name}.ffn_up"] = _normed(f"{name}.ffn_norm", weights, x)
        up = kept[f"{name}.up"] = _linear(f"{name}.ffn_up", weights, kept[f"{name}.ffn_up"])
        kept[f"{name}.ffn_down"] = layers.gelu(up)
        return x + _linear(f"{name}.ffn_down", weights, kept[f"{name}.ffn_down"])

    def backward(self, weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradients."""
        table, found = weights["token_embd.weight"], _Gradients(weights, done.kept)
        by_table: Floats = grad.reshape(-1, self.vocab).T @ done.kept["output"].reshape(-1, self.d_model)
        by_x = found.norm("output_norm", grad @ table)
        for block in reversed(range(self.n_layers)):
            by_x = self._block_backward(f"blk.{block}", found, by_x)
        found.by["token_embd.weight"] = by_table + layers.embedding_backward(table, tokens, by_x)
        by_position = np.zeros_like(weights["position_embd.weight"])
        by_position[: tokens.shape[1]] = by_x.sum(axis=0)
        found.by["position_embd.weight"] = by_position
        return {name: found.by[name] for name in self.shapes()}

    def _block_backward(self, name: str, found: _Gradients, by_x: Floats) -> Floats:
        by_up = layers.gelu_backward(found.kept[f"{name}.up"], found.linear(f"{name}.ffn_down", by_x))
        by_x = by_x + found.norm(f"{name}.ffn_norm", found.linear(f"{name}.ffn_up", by_up))
        by_qkv = layers.attention_backward(
            found.kept[f"{name}.qkv"],
            self.n_heads,
            found.kept[f"{name}.shares"],
            found.linear(f"{name}.attn_output", by_x),
        )
        return by_x + found.norm(f"{name}.attn_norm", found.linear(f"{name}.attn_qkv", by_qkv))


class _Gradients:
    """Gradients by weight, found layer by layer; *kept* has the input of each layer under the layer's name."""

    def __init__(self, weights: Weights, kept: Mapping[str, Floats]) -> None:
        self.weights, self.kept = weights, kept
        self.by: dict[str, Floats] = {}

    def linear(self, name: str, grad: Floats) -> Floats:
        """Keep the gradients by the weights of a linear layer and return that by its input."""
        by_x, self.by[f"{name}.weight"], self.by[f"{name}.bias"] = layers.linear_backward(
            self.kept[name], self.weights[f"{name}.weight"], grad
        )
        return by_x

    def norm(self, name: str, grad: Floats) -> Floats:
        """Keep the gradients by the weights of a layer norm and return that by its input."""
        by_x, self.by[f"{name}.weight"], self.by[f"{name}.bias"] = layers.layer_norm_backward(
            self.kept[name], self.weights[f"{name}.weight"], grad
        )
        return by_x


def _linear(name: str, weights: Weights, x: Floats) -> Floats:
    return layers.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _normed(name: str, weights: Weights, x: Floats) -> Floats:
    return layers.layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _block_graph(name: str, source: str) -> list[Node]:
    return [
        Node(f"{name}.attn_norm", "layer_norm", (source,), f"{name}.attn_norm"),
        Node(f"{name}.attn_qkv", "linear", (f"{name}.attn_norm",), f"{name}.attn_qkv"),
        Node(f"{name}.attn", "causal_attention", (f"{name}.attn_qkv",)),
        Node(f"{name}.attn_output", "linear", (f"{name}.attn",), f"{name}.attn_output"),
        Node(f"{name}.attn_sum", "add", (source, f"{name}.attn_output")),
        Node(f"{name}.ffn_norm", "layer_norm", (f"{name}.attn_sum",), f"{name}.ffn_norm"),
        Node(f"{name}.ffn_up", "linear", (f"{name}.ffn_norm",), f"{name}.ffn_up"),
        Node(f"{name}.ffn_act", "gelu", (f"{name}.ffn_up",)),
        Node(f"{name}.ffn_down", "linear", (f"{name}.ffn_act",), f"{name}.ffn_down"),
        Node(f"{name}.ffn_sum", "add", (f"{name}.attn_sum", f"{name}.ffn_down")),
    ]
