"""A language model with one hidden layer; both passes are written out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toyspec.trainer import layers
from toyspec.trainer.architecture import ForwardPass, Node, description

if TYPE_CHECKING:
    from toyspec.trainer.architecture import Weights
    from toyspec.trainer.arrays import Floats, Tokens


class Mlp:
    """A network with one hidden layer on the embeddings of the last characters, after Bengio et al. (2003)."""

    name = "mlp"
    context = 12
    batch = 256
    predicted = 1
    d_model = 16
    d_ff = 128

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight."""
        return {
            "token_embd.weight": (self.vocab, self.d_model),
            "ffn_up.weight": (self.d_ff, self.context * self.d_model),
            "ffn_up.bias": (self.d_ff,),
            "output.weight": (self.vocab, self.d_ff),
            "output.bias": (self.vocab,),
        }

    def described(self) -> dict[str, Any]:
        """Return the model's sizes."""
        return description(self, d_model=self.d_model, n_layers=1, d_ff=self.d_ff)

    def graph(self) -> list[Node]:
        """Return the compute graph."""
        return [
            Node("tokens", "input", ()),
            Node("token_embd", "embedding", ("tokens",), "token_embd"),
            Node("ffn_up", "linear", ("token_embd",), "ffn_up"),
            Node("ffn_act", "tanh", ("ffn_up",)),
            Node("output", "linear", ("ffn_act",), "output"),
            Node("loss", "cross_entropy", ("output", "tokens")),
        ]

    def forward(self, weights: Weights, tokens: Tokens) -> ForwardPass:
        """Return the logits of the character after *tokens*."""
        read = weights["token_embd.weight"][tokens].reshape(len(tokens), -1)
        up = layers.linear(read, weights["ffn_up.weight"], weights["ffn_up.bias"])
        hidden = np.tanh(up)
        logits = layers.linear(hidden, weights["output.weight"], weights["output.bias"])
        return ForwardPass(logits[:, None, :], {"read": read, "hidden": hidden})

    def backward(self, weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradients."""
        hidden = done.kept["hidden"]
        by_hidden, output, output_bias = layers.linear_backward(hidden, weights["output.weight"], grad[:, 0, :])
        by_up = by_hidden * (1 - hidden * hidden)
        by_read, up, up_bias = layers.linear_backward(done.kept["read"], weights["ffn_up.weight"], by_up)
        return {
            "token_embd.weight": layers.embedding_backward(weights["token_embd.weight"], tokens, by_read),
            "ffn_up.weight": up,
            "ffn_up.bias": up_bias,
            "output.weight": output,
            "output.bias": output_bias,
        }
