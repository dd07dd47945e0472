"""The language models: gradients against finite differences in fp64, causality, and learning."""

from __future__ import annotations

import math
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the extra `train` is not installed")

from toyspec.trainer import AdamW  # noqa: E402
from toyspec.trainer import architectures as layers  # noqa: E402
from toyspec.trainer.architectures import (  # noqa: E402
    Architecture,
    Mlp,
    Transformer,
)
from toyspec.trainer.language_model import (  # noqa: E402  # noqa: E402
    ARCHITECTURES,
    LanguageModel,
    Text,
    shipped_text,
    start_values,
)

STEP = 1e-6
VOCAB = 5


class SmallMlp(Mlp):
    """Small enough that each weight can be moved by itself."""

    context, d_model, d_ff = 3, 2, 4


class SmallTransformer(Transformer):
    """Small enough that each weight can be moved by itself."""

    context = predicted = 4
    d_model, n_heads, d_ff = 6, 2, 8


SMALL: list[Architecture] = [SmallMlp(VOCAB), SmallTransformer(VOCAB)]


def some_weights(architecture: Architecture) -> dict[str, Any]:
    """Return weights in fp64, none of them at a special place."""
    random = np.random.default_rng(3)
    return {name: random.normal(scale=0.7, size=shape) for name, shape in architecture.shapes().items()}


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


@pytest.mark.parametrize("architecture", SMALL, ids=lambda small: str(small.name))
def test_gradients_agree_with_finite_differences(architecture: Architecture) -> None:
    """The gradient by every single weight agrees with a central difference in fp64 to 1e-6."""
    random, weights = np.random.default_rng(4), some_weights(architecture)
    tokens = random.integers(0, VOCAB, size=(3, architecture.context))
    targets = random.integers(0, VOCAB, size=(3, architecture.predicted))

    def loss() -> float:
        return layers.cross_entropy(architecture.forward(weights, tokens).logits, targets)[0]

    done = architecture.forward(weights, tokens)
    _, grad = layers.cross_entropy(done.logits, targets)
    gradients = architecture.backward(weights, tokens, done, grad)
    assert list(weights) == list(gradients)
    for name, weight in weights.items():
        np.testing.assert_allclose(gradients[name], by_differences(loss, weight), rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("architecture", SMALL, ids=lambda small: str(small.name))
def test_training_stays_in_fp32(architecture: Architecture) -> None:
    """From fp32 weights all that is computed is fp32, so that no step pays for fp64."""
    weights = start_values(architecture, 1)
    tokens = np.zeros((2, architecture.context), dtype=np.int64)
    done = architecture.forward(weights, tokens)
    _, grad = layers.cross_entropy(done.logits, tokens[:, : architecture.predicted])
    gradients = architecture.backward(weights, tokens, done, grad)
    computed = [done.logits, grad, *done.kept.values(), *gradients.values()]
    assert {np.dtype(np.float32)} == {array.dtype for array in computed}


def test_transformer_does_not_see_what_follows() -> None:
    """A later character changes no earlier prediction."""
    architecture = SMALL[1]
    weights = some_weights(architecture)
    one, other = np.array([[0, 1, 2, 3]]), np.array([[0, 1, 4, 4]])
    first, second = (architecture.forward(weights, tokens).logits for tokens in (one, other))
    np.testing.assert_array_equal(first[:, :2], second[:, :2])
    assert not np.allclose(first[:, 2:], second[:, 2:])


def test_cross_entropy_agrees_with_its_definition() -> None:
    """The loss is the mean of -log p; scores of any size are fine, and all-equal scores give log(vocabulary)."""
    logits = np.array([[2.0, 0.0, -1.0], [0.5, 0.5, 1e4]])
    targets = np.array([1, 2])
    expected = (-math.log(1 / (math.exp(2) + 1 + math.exp(-1))) + 0.0) / 2
    assert expected == pytest.approx(layers.cross_entropy(logits, targets)[0], rel=1e-12)
    assert math.log(3) == pytest.approx(layers.cross_entropy(np.zeros((4, 3)), np.zeros(4, dtype=int))[0], rel=1e-12)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_loss_falls_on_the_shipped_text(arch: str) -> None:
    """Before training the loss is about that of guessing; 60 steps later it is far below, on unseen text too."""
    text = shipped_text()
    architecture = ARCHITECTURES[arch](len(text.vocabulary))
    model, optimizer = LanguageModel(architecture, 7), AdamW(lr=5e-3)
    unseen = text.evaluation(architecture)
    losses = [model.train(text.batch(architecture, 7, step), optimizer) for step in range(1, 61)]
    assert math.log(len(text.vocabulary)) == pytest.approx(losses[0], abs=0.3)
    assert losses[-1] < 0.72 * losses[0]
    assert model.evaluate(unseen).loss < 0.72 * losses[0]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_written_text_depends_on_the_seed_alone(arch: str) -> None:
    """Equal seeds write equal text of the asked length, and a model that is not finite writes nothing."""
    text = shipped_text()
    model = LanguageModel(ARCHITECTURES[arch](len(text.vocabulary)), 7)
    written = model.write(text, "The keeper", 20, [1])
    assert 20 == len(written)
    assert written == model.write(text, "The keeper", 20, [1])
    assert written != model.write(text, "The keeper", 20, [2])
    model.parameters[0].weight[:] = np.nan
    assert "" == model.write(text, "The keeper", 20, [1])


def test_batches_depend_on_seed_and_step_alone() -> None:
    """A batch can be had again without those before it, other steps and seeds have others, targets follow inputs."""
    text, architecture = shipped_text(), Transformer(44)
    batch = text.batch(architecture, 7, 30)
    np.testing.assert_array_equal(batch.inputs, text.batch(architecture, 7, 30).inputs)
    np.testing.assert_array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    for seed, step in ((7, 31), (8, 30)):
        assert not np.array_equal(batch.inputs, text.batch(architecture, seed, step).inputs)


@pytest.mark.parametrize("architecture", [SmallMlp(VOCAB), SmallTransformer(VOCAB)], ids=lambda small: str(small.name))
def test_evaluation_is_of_unseen_text(architecture: Architecture) -> None:
    """Held-out characters are each predicted once, and none of them is trained on."""
    text = Text("abcde" * 40)
    assert 180 == len(text.trained)
    assert text.decoded(text.trained) + text.decoded(text.held_out) == "abcde" * 40
    targets = text.evaluation(architecture).targets
    assert text.decoded(text.held_out)[architecture.context + 1 - architecture.predicted :].startswith(
        text.decoded(targets.ravel())
    )
    assert targets.size > 20 - architecture.context - architecture.predicted
