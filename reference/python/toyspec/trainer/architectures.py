"""The models that can be trained, and the layers that they are built from; both passes are written out by hand.

A layer has no state: its backward pass takes what the forward pass was given, and the gradient of the loss by what it
returned. All arrays keep the float type they come in, so that a check in fp64 runs the same code as training in fp32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.trainer.stepping import Floats, Tokens


Weights: TypeAlias = "Mapping[str, Floats]"
"""Weights by the name that they have as GGUF tensors."""


class ForwardPass(NamedTuple):
    """What a forward pass returns."""

    logits: Floats
    """Batch by predicted positions by vocabulary."""
    kept: Mapping[str, Floats]
    """What the backward pass needs."""


def description(architecture: Architecture, **sizes: int) -> dict[str, Any]:
    """Return the ``model`` object of run_start for *architecture*, with its *sizes*."""
    named = {"arch": architecture.name, "name": f"toyspec-{architecture.name}", "vocab": architecture.vocab}
    return named | sizes | {"weight_type": "f16"}


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
    return _normal(x)[0] * weight + bias


def layer_norm_backward(x: Floats, weight: Floats, grad: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the gradients by *x*, *weight* and bias."""
    normal, scale = _normal(x)
    lead = tuple(range(x.ndim - 1))
    inner = grad * weight
    by_x = inner - inner.mean(axis=-1, keepdims=True)
    by_x -= normal * (inner * normal).mean(axis=-1, keepdims=True)
    return by_x * scale, (grad * normal).sum(axis=lead), grad.sum(axis=lead)


def embedding_backward(table: Floats, tokens: Tokens, grad: Floats) -> Floats:
    """Return the gradient by *table*, whose rows ``table[tokens]`` were used."""
    by_table = np.zeros_like(table)
    np.add.at(by_table, tokens.ravel(), grad.reshape(-1, table.shape[1]))
    return by_table


def attention(qkv: Floats, heads: int) -> tuple[Floats, Floats]:
    """Return causal self-attention, batch by length by width, and the share of each earlier position.

    *qkv* is batch by length by queries, keys and values, concatenated. Shares are batch by heads by length by length;
    their rows sum to 1.
    """
    query, key, value = _heads(qkv, heads)
    scores = (query @ key.swapaxes(-1, -2)) / np.sqrt(qkv.dtype.type(query.shape[-1]))
    length = qkv.shape[1]
    scores = np.where(np.tri(length, dtype=bool), scores, qkv.dtype.type(-np.inf))
    weights = softmax(scores)
    return _joined(weights @ value), weights


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


def _normal(x: Floats) -> tuple[Floats, Floats]:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
    return centred * scale, scale


def _heads(qkv: Floats, heads: int) -> list[Floats]:
    return [_split(part, heads) for part in np.split(qkv, 3, axis=-1)]


def _split(x: Floats, heads: int) -> Floats:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)


def _joined(x: Floats) -> Any:
    batch, heads, length, width = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * width)


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

    def forward(self, weights: Weights, tokens: Tokens) -> ForwardPass:
        """Return the logits of the character after *tokens*."""
        read = weights["token_embd.weight"][tokens].reshape(len(tokens), -1)
        up = linear(read, weights["ffn_up.weight"], weights["ffn_up.bias"])
        hidden = np.tanh(up)
        logits = linear(hidden, weights["output.weight"], weights["output.bias"])
        return ForwardPass(logits[:, None, :], {"read": read, "hidden": hidden})

    def backward(self, weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradients."""
        hidden = done.kept["hidden"]
        by_hidden, output, output_bias = linear_backward(hidden, weights["output.weight"], grad[:, 0, :])
        by_up = by_hidden * (1 - hidden * hidden)
        by_read, up, up_bias = linear_backward(done.kept["read"], weights["ffn_up.weight"], by_up)
        return {
            "token_embd.weight": embedding_backward(weights["token_embd.weight"], tokens, by_read),
            "ffn_up.weight": up,
            "ffn_up.bias": up_bias,
            "output.weight": output,
            "output.bias": output_bias,
        }


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
        kept[f"{name}.attn_output"], kept[f"{name}.shares"] = attention(qkv, self.n_heads)
        x = x + _linear(f"{name}.attn_output", weights, kept[f"{name}.attn_output"])
        kept[f"{name}.ffn_norm"] = x
        kept[f"{name}.ffn_up"] = _normed(f"{name}.ffn_norm", weights, x)
        up = kept[f"{name}.up"] = _linear(f"{name}.ffn_up", weights, kept[f"{name}.ffn_up"])
        kept[f"{name}.ffn_down"] = gelu(up)
        return x + _linear(f"{name}.ffn_down", weights, kept[f"{name}.ffn_down"])

    def backward(self, weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradients."""
        table, found = weights["token_embd.weight"], _Gradients(weights, done.kept)
        by_table: Floats = grad.reshape(-1, self.vocab).T @ done.kept["output"].reshape(-1, self.d_model)
        by_x = found.norm("output_norm", grad @ table)
        for block in reversed(range(self.n_layers)):
            by_x = self._block_backward(f"blk.{block}", found, by_x)
        found.by["token_embd.weight"] = by_table + embedding_backward(table, tokens, by_x)
        by_position = np.zeros_like(weights["position_embd.weight"])
        by_position[: tokens.shape[1]] = by_x.sum(axis=0)
        found.by["position_embd.weight"] = by_position
        return {name: found.by[name] for name in self.shapes()}

    def _block_backward(self, name: str, found: _Gradients, by_x: Floats) -> Floats:
        by_up = gelu_backward(found.kept[f"{name}.up"], found.linear(f"{name}.ffn_down", by_x))
        by_x = by_x + found.norm(f"{name}.ffn_norm", found.linear(f"{name}.ffn_up", by_up))
        by_qkv = attention_backward(
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
        return self._keep(name, linear_backward(self.kept[name], self.weights[f"{name}.weight"], grad))

    def norm(self, name: str, grad: Floats) -> Floats:
        """Keep the gradients by the weights of a layer norm and return that by its input."""
        return self._keep(name, layer_norm_backward(self.kept[name], self.weights[f"{name}.weight"], grad))

    def _keep(self, name: str, found: tuple[Floats, Floats, Floats]) -> Floats:
        by_x, self.by[f"{name}.weight"], self.by[f"{name}.bias"] = found
        return by_x


def _linear(name: str, weights: Weights, x: Floats) -> Floats:
    return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _normed(name: str, weights: Weights, x: Floats) -> Floats:
    return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


Architecture: TypeAlias = Mlp | Transformer
"""A model, which holds no weights; training asks nothing else of it than what both have."""
