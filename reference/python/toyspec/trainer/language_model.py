"""The language models that can be trained: parameters, one step, loss on held-out text, and text that they write."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from toyspec.trainer import layers
from toyspec.trainer.mlp import Mlp
from toyspec.trainer.optimizer import Parameter
from toyspec.trainer.stepping import BackwardOutput, train_step
from toyspec.trainer.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.trainer.architecture import Architecture, ForwardPass
    from toyspec.trainer.arrays import Single, Tokens
    from toyspec.trainer.optimizer import AdamW
    from toyspec.trainer.text import Batch, Text

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
            loss, grad = layers.cross_entropy(done.logits, targets)
            by_weight = self.architecture.backward(weights, batch.inputs, done, grad)
            return BackwardOutput(loss, grad, [by_weight[parameter.name].ravel() for parameter in self.parameters])

        # A run that diverges shows it by a loss of null; NumPy's warnings would only repeat it.
        with np.errstate(all="ignore"):
            return train_step(*batch, LOSS_NAME, self.parameters, forward, backward, optimizer)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Return the loss on *batch*; nothing is changed."""
        with np.errstate(all="ignore"):
            done = self.architecture.forward(self.weights(), batch.inputs)
            loss, _ = layers.cross_entropy(done.logits, batch.targets)
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
                chances = layers.softmax(logits.astype(np.float64) / _TEMPERATURE)
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
