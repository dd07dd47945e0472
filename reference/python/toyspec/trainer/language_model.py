"""A language model in training: its text, its parameters, one step, loss on held-out text, and text that it writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toyspec.trainer.architectures import Mlp, Transformer, cross_entropy, softmax
from toyspec.trainer.stepping import BackwardOutput, Parameter, train_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.trainer.architectures import Architecture, ForwardPass
    from toyspec.trainer.stepping import AdamW, Single, Tokens


TEXT_NAME = "grey-point"
"""Name of the text in a log."""
_TRAINED_SHARE = 0.9


class Batch(NamedTuple):
    """What a model reads, and what it should predict."""

    inputs: Tokens
    """Batch by context."""
    targets: Tokens
    """Batch by predicted positions."""


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

    def batch(self, architecture: Architecture, seed: int, step: int) -> Batch:
        """Return the batch of *step*, which depends on nothing but *seed* and *step*: a resumed run goes on with it."""
        random = np.random.default_rng([seed, 1, step])
        starts = random.integers(0, len(self.trained) - architecture.context, size=architecture.batch)
        return _windows(self.trained, starts, architecture)

    def evaluation(self, architecture: Architecture) -> Batch:
        """Return all of the held-out text; each of its characters after the first context is predicted once."""
        starts = np.arange(0, len(self.held_out) - architecture.context, architecture.predicted)
        return _windows(self.held_out, starts, architecture)


def shipped_text() -> Text:
    """Return the text that is part of the package; a line break within a paragraph is read as a space."""
    path = os.path.join(os.path.dirname(__file__), "text.txt")
    with open(path, encoding="ascii") as file:
        paragraphs = file.read().strip().split("\n\n")
    return Text("\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs))


def _windows(tokens: Tokens, starts: Tokens, architecture: Architecture) -> Batch:
    read = tokens[starts[:, None] + np.arange(architecture.context + 1)]
    return Batch(read[:, :-1], read[:, 1:][:, -architecture.predicted :])


LOSS_NAME = "cross_entropy"
"""Name of the loss in a log."""
_TEMPERATURE = 0.7
ARCHITECTURES: dict[str, Callable[[int], Architecture]] = {Transformer.name: Transformer, Mlp.name: Mlp}
"""What makes a model for a vocabulary of so many characters, by name; the names are those of ``settings``."""


class Evaluation(NamedTuple):
    """The result of an evaluation."""

    loss: float
    """Mean loss in nats a character."""
    samples: int
    """Number of characters predicted."""


class LanguageModel:
    """Parameters for an architecture."""

    def __init__(self, architecture: Architecture, seed: int) -> None:
        self.architecture = architecture
        self.parameters = [Parameter(value, name=name) for name, value in start_values(architecture, seed).items()]

    @property
    def size(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.size for parameter in self.parameters)

    def weights(self) -> dict[str, Single]:
        """Return the weights in fp32, by name."""
        return {parameter.name: parameter.value() for parameter in self.parameters}

    def train(self, batch: Batch, optimizer: AdamW) -> float:
        """Take one step on *batch* and return the loss before it."""
        weights = self.weights()

        def forward(inputs: Tokens) -> ForwardPass:
            return self.architecture.forward(weights, inputs)

        def backward(done: ForwardPass, targets: Tokens) -> BackwardOutput:
            loss, grad = cross_entropy(done.logits, targets)
            by_weight = self.architecture.backward(weights, batch.inputs, done, grad)
            return BackwardOutput(loss, grad, [by_weight[parameter.name].ravel() for parameter in self.parameters])

        # A run that diverges shows it by a loss of null; NumPy's warnings would only repeat it.
        with np.errstate(all="ignore"):
            return train_step(*batch, LOSS_NAME, self.parameters, forward, backward, optimizer)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Return the loss on *batch*; nothing is changed."""
        with np.errstate(all="ignore"):
            done = self.architecture.forward(self.weights(), batch.inputs)
            loss, _ = cross_entropy(done.logits, batch.targets)
        return Evaluation(loss, batch.targets.size)

    def write(self, text: Text, prompt: str, count: int, seed: list[int]) -> str:
        """Return *count* characters that the model writes after *prompt*, drawn at random from *seed*.

        A model whose weights are not finite writes nothing.
        """
        random, weights, context = np.random.default_rng(seed), self.weights(), self.architecture.context
        # A prompt that is shorter than the context is at the start of a paragraph.
        tokens = text.encoded(prompt.rjust(context, "\n"))
        with np.errstate(all="ignore"):
            for _ in range(count):
                logits = self.architecture.forward(weights, tokens[None, -context:]).logits[0, -1]
                chances = softmax(logits.astype(np.float64) / _TEMPERATURE)
                if not np.isfinite(chances).all():
                    return ""
                tokens = np.append(tokens, random.choice(len(chances), p=chances))
        return text.decoded(tokens[-count:])


def start_values(architecture: Architecture, seed: int) -> dict[str, Single]:
    """Return start values from *seed*: norms 1, biases 0, tables spread 0.1, other weights 1 / sqrt(inputs)."""
    random = np.random.default_rng([seed, 0])
    found: dict[str, Single] = {}
    for name, shape in architecture.shapes().items():
        if name.endswith(".bias"):
            found[name] = np.zeros(shape, dtype=np.float32)
        elif name.endswith("norm.weight"):
            found[name] = np.ones(shape, dtype=np.float32)
        else:
            spread = 0.1 if "embd" in name else shape[1] ** -0.5
            found[name] = (spread * random.standard_normal(shape)).astype(np.float32)
    return found
