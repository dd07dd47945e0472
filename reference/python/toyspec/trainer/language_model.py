"""A language model in training: its text, its layers, one step, loss on held-out text, and text that it writes.

Both passes are written out by hand. All arrays keep the float type they come in, so that a check in fp64 runs the same
code as training in fp32.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from toyspec.trainer.settings import ARCHITECTURE
from toyspec.trainer.stepping import BackwardOutput, Parameter, train_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.trainer.stepping import AdamW, Floats, Single, Tokens


TEXT_NAME = "grey-point"
"""Name of the text in a log."""
_TRAINED_SHARE = 0.9


class Batch(NamedTuple):
    """What a model reads, and what it should predict."""

    inputs: Tokens
    """Batch by context."""
    targets: Tokens
    """The character after each context."""


class Text:
    """A text, its vocabulary, and its parts for training and for evaluation, which do not overlap."""

    def __init__(self, characters: str) -> None:
        self.vocabulary = sorted(set(characters))
        """The characters that occur, sorted; a token is an index into it."""
        self._tokens = {character: token for token, character in enumerate(self.vocabulary)}
        tokens = self.encoded(characters)
        cut = int(len(tokens) * _TRAINED_SHARE)
        self.trained, self.held_out = tokens[:cut], tokens[cut:]

    def encoded(self, characters: str) -> Tokens:
        """Return the tokens of *characters*; raise KeyError for one that is not in the vocabulary."""
        return np.array([self._tokens[character] for character in characters], dtype=np.int64)

    def decoded(self, tokens: Tokens) -> str:
        """Return the characters of *tokens*."""
        return "".join(self.vocabulary[token] for token in tokens)

    def batch(self, model: LanguageModel, seed: int, step: int) -> Batch:
        """Return the batch of *step*, which depends on nothing but *seed* and *step*: a resumed run goes on with it."""
        random = np.random.default_rng([seed, 1, step])
        starts = random.integers(0, len(self.trained) - model.context, size=model.batch)
        return _windows(self.trained, starts, model.context)

    def evaluation(self, model: LanguageModel) -> Batch:
        """Return all of the held-out text; each of its characters after the first context is predicted once."""
        return _windows(self.held_out, np.arange(len(self.held_out) - model.context), model.context)


def shipped_text() -> Text:
    """Return the text that is part of the package; a line break within a paragraph is read as a space."""
    path = os.path.join(os.path.dirname(__file__), "text.txt")
    with open(path, encoding="ascii") as file:
        paragraphs = file.read().strip().split("\n\n")
    return Text("\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs))


def _windows(tokens: Tokens, starts: Tokens, context: int) -> Batch:
    read = tokens[starts[:, None] + np.arange(context + 1)]
    return Batch(read[:, :-1], read[:, -1])


Weights: TypeAlias = "Mapping[str, Floats]"
"""Weights by the name that they have as GGUF tensors."""


class ForwardPass(NamedTuple):
    """What a forward pass returns."""

    logits: Floats
    """Batch by vocabulary."""
    read: Floats
    """The embeddings of each context, concatenated."""
    hidden: Floats
    """The hidden layer."""


def _linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Return ``x @ weight.T + bias``; *weight* is outputs by inputs."""
    y: Floats = x @ weight.T + bias
    return y


def _linear_backward(x: Floats, weight: Floats, grad: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the gradients by *x*, *weight* and bias."""
    return grad @ weight, grad.T @ x, grad.sum(axis=0)


def cross_entropy(logits: Floats, targets: Tokens) -> tuple[float, Floats]:
    """Return the mean of ``-log softmax(logits)[target]`` in nats, and its gradient by *logits*."""
    rows = np.arange(len(logits))
    shifted = logits - logits.max(axis=-1, keepdims=True)
    grad = np.exp(shifted)
    total = grad.sum(axis=-1, keepdims=True)
    loss = np.mean(np.log(total[:, 0]) - shifted[rows, targets])
    grad /= total
    grad[rows, targets] -= 1
    grad /= len(logits)
    return float(loss), grad


LOSS_NAME = "cross_entropy"
"""Name of the loss in a log."""
_TEMPERATURE = 0.7


class LanguageModel:
    """A network with one hidden layer on the embeddings of the last characters, after Bengio et al. (2003)."""

    name = ARCHITECTURE
    context = 12
    batch = 256
    d_model = 16
    d_ff = 128

    def __init__(self, vocab: int, seed: int) -> None:
        """Make a model for *vocab* characters, its start values drawn from *seed*."""
        self.vocab = vocab
        self.parameters = [Parameter(value, name=name) for name, value in self.start_values(seed).items()]

    def start_values(self, seed: int) -> dict[str, Single]:
        """Return start values from *seed*: biases 0, the table spread 0.1, other weights 1 / sqrt(inputs)."""
        random = np.random.default_rng([seed, 0])
        inputs = self.context * self.d_model

        def spread(scale: float, *shape: int) -> Single:
            return (scale * random.standard_normal(shape)).astype(np.float32)

        return {
            "token_embd.weight": spread(0.1, self.vocab, self.d_model),
            "ffn_up.weight": spread(inputs**-0.5, self.d_ff, inputs),
            "ffn_up.bias": np.zeros(self.d_ff, dtype=np.float32),
            "output.weight": spread(self.d_ff**-0.5, self.vocab, self.d_ff),
            "output.bias": np.zeros(self.vocab, dtype=np.float32),
        }

    def described(self) -> dict[str, Any]:
        """Return the ``model`` object of run_start."""
        named = {"arch": self.name, "name": f"toyspec-{self.name}", "vocab": self.vocab, "d_model": self.d_model}
        return named | {"n_layers": 1, "d_ff": self.d_ff, "weight_type": "f16"}

    @property
    def size(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.size for parameter in self.parameters)

    def weights(self) -> dict[str, Single]:
        """Return the weights in fp32, by name."""
        return {parameter.name: parameter.value() for parameter in self.parameters}

    @staticmethod
    def forward(weights: Weights, tokens: Tokens) -> ForwardPass:
        """Return the logits of the character after each row of *tokens*."""
        read = weights["token_embd.weight"][tokens].reshape(len(tokens), -1)
        hidden = np.tanh(_linear(read, weights["ffn_up.weight"], weights["ffn_up.bias"]))
        return ForwardPass(_linear(hidden, weights["output.weight"], weights["output.bias"]), read, hidden)

    @staticmethod
    def backward(weights: Weights, tokens: Tokens, done: ForwardPass, grad: Floats) -> dict[str, Floats]:
        """Return the gradients by the weights; *grad* is that by the logits."""
        table = weights["token_embd.weight"]
        by_hidden, output, output_bias = _linear_backward(done.hidden, weights["output.weight"], grad)
        by_up = by_hidden * (1 - done.hidden * done.hidden)
        by_read, up, up_bias = _linear_backward(done.read, weights["ffn_up.weight"], by_up)
        by_table = np.zeros_like(table)
        np.add.at(by_table, tokens.ravel(), by_read.reshape(-1, table.shape[1]))
        return {
            "token_embd.weight": by_table,
            "ffn_up.weight": up,
            "ffn_up.bias": up_bias,
            "output.weight": output,
            "output.bias": output_bias,
        }

    def train(self, batch: Batch, optimizer: AdamW) -> float:
        """Take one step on *batch* and return the loss before it."""
        weights = self.weights()

        def forward(inputs: Tokens) -> ForwardPass:
            return self.forward(weights, inputs)

        def backward(done: ForwardPass, targets: Tokens) -> BackwardOutput:
            loss, grad = cross_entropy(done.logits, targets)
            by_weight = self.backward(weights, batch.inputs, done, grad)
            return BackwardOutput(loss, grad, [by_weight[parameter.name].ravel() for parameter in self.parameters])

        # A run that diverges shows it by a loss of null; NumPy's warnings would only repeat it.
        with np.errstate(all="ignore"):
            return train_step(*batch, LOSS_NAME, self.parameters, forward, backward, optimizer)

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """Return the mean loss on *batch* in nats a character, and their number; nothing is changed."""
        with np.errstate(all="ignore"):
            loss, _ = cross_entropy(self.forward(self.weights(), batch.inputs).logits, batch.targets)
        return loss, batch.targets.size

    def write(self, text: Text, prompt: str, count: int, seed: list[int]) -> str:
        """Return *count* characters that the model writes after *prompt*, drawn at random from *seed*.

        A model whose weights are not finite writes nothing.
        """
        random, weights = np.random.default_rng(seed), self.weights()
        # A prompt that is shorter than the context is at the start of a paragraph.
        tokens = text.encoded(prompt.rjust(self.context, "\n"))
        with np.errstate(all="ignore"):
            for _ in range(count):
                logits = self.forward(weights, tokens[None, -self.context :]).logits[0]
                scores = logits.astype(np.float64) / _TEMPERATURE
                chances = np.exp(scores - scores.max())
                chances /= chances.sum()
                if not np.isfinite(chances).all():
                    return ""
                tokens = np.append(tokens, random.choice(len(chances), p=chances))
        return text.decoded(tokens[-count:])
