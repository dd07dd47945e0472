"""The language model: gradients against finite differences in fp64, and learning."""

from __future__ import annotations

import math
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the extra `train` is not installed")

from toyspec.trainer.language_model import LanguageModel, Text, cross_entropy, shipped_text  # noqa: E402

STEP = 1e-6
VOCAB = 5


class SmallModel(LanguageModel):
    """Small enough that each weight can be moved by itself."""

    context, d_model, d_ff = 3, 2, 4


SMALL = SmallModel(VOCAB, 1)


def by_differences(function: Any, x: Any) -> Any:
    """Return the gradient of *function* at *x*, by moving one element at a time."""
    found = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        kept = x[index]
        x[index] = kept + STEP
        above = function()
        x[index] = kept - STEP
        found[index] = (above - function()) / (2 * STEP)
        x[index] = kept
    return found


def test_gradients_agree_with_finite_differences() -> None:
    """The gradient by every single weight agrees with a central difference in fp64 to 1e-6."""
    random = np.random.default_rng(3)
    weights = {name: random.normal(scale=0.7, size=weight.shape) for name, weight in SMALL.weights().items()}
    tokens = random.integers(0, VOCAB, size=(3, SMALL.context))
    targets = random.integers(0, VOCAB, size=3)

    def loss() -> float:
        return cross_entropy(SMALL.forward(weights, tokens).logits, targets)[0]

    done = SMALL.forward(weights, tokens)
    _, grad = cross_entropy(done.logits, targets)
    gradients = SMALL.backward(weights, tokens, done, grad)
    assert list(weights) == list(gradients)
    for name, weight in weights.items():
        np.testing.assert_allclose(gradients[name], by_differences(loss, weight), rtol=1e-6, atol=1e-8, err_msg=name)


def test_cross_entropy_agrees_with_its_definition() -> None:
    """The loss is the mean of -log p; scores of any size are fine, and all-equal scores give log(vocabulary)."""
    logits = np.array([[2.0, 0.0, -1.0], [0.5, 0.5, 1e4]])
    targets = np.array([1, 2])
    expected = (-math.log(1 / (math.exp(2) + 1 + math.exp(-1))) + 0.0) / 2
    assert expected == pytest.approx(cross_entropy(logits, targets)[0], rel=1e-12)
    assert math.log(3) == pytest.approx(cross_entropy(np.zeros((4, 3)), np.zeros(4, dtype=int))[0], rel=1e-12)


def test_written_text_depends_on_the_seed_alone() -> None:
    """Equal seeds write equal text of the asked length, and a model that is not finite writes nothing."""
    text = shipped_text()
    model = LanguageModel(len(text.vocabulary), 7)
    written = model.write(text, "The keeper", 20, [1])
    assert 20 == len(written)
    assert written == model.write(text, "The keeper", 20, [1])
    assert written != model.write(text, "The keeper", 20, [2])
    model.parameters[0].weight[:] = np.nan
    assert "" == model.write(text, "The keeper", 20, [1])


def test_evaluation_is_of_unseen_text() -> None:
    """Held-out characters are each predicted once, from those before them, and none of them is trained on."""
    text = Text("abcde" * 40)
    assert 180 == len(text.trained)
    assert text.decoded(text.trained) + text.decoded(text.held_out) == "abcde" * 40
    inputs, targets = text.evaluation(SMALL)
    assert text.decoded(text.held_out)[SMALL.context :] == text.decoded(targets)
    np.testing.assert_array_equal(inputs[1:, -1], targets[:-1])
