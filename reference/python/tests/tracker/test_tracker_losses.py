from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import array_api_compat
import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_like
from property_examples import examples
from toyspec.tracker import cross_entropy_loss, cross_entropy_with_entropy_loss, linear_cross_entropy

PAD = -100


def reference(logits: Any, labels: Any, pad_id: int | None, weight: float = 0.001) -> tuple[float, float, float]:
    """Return (ce_loss, entropy, total_loss), computed one position at a time in binary64."""
    losses, entropies = [], []
    for sequence, targets in zip(logits.astype(np.float64), labels, strict=True):
        for scores, target in zip(sequence[:-1], targets[1:], strict=True):
            logs = [score - max(scores) - math.log(math.fsum(np.exp(scores - max(scores)))) for score in scores]
            entropies.append(-math.fsum(math.exp(log) * log for log in logs if log > -math.inf))
            if target != pad_id:
                losses.append(-logs[int(target)])
    ce_loss = math.fsum(losses) / max(len(losses), 1)
    entropy = math.fsum(entropies) / max(len(entropies), 1)
    return ce_loss, entropy, ce_loss + weight * entropy


def example(seed: int = 0, shape: tuple[int, int, int] = (3, 9, 11)) -> tuple[Any, Any]:
    """Return random logits and labels, a third of them padding."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, shape[2], shape[:2])
    labels[rng.random(labels.shape) < 1 / 3] = PAD
    return (rng.normal(size=shape) * 4).astype(np.float32), labels


def with_numpy(array: Any) -> Any:
    """Return the array unchanged."""
    return array


def with_jax(array: Any) -> Any:
    """Return a JAX array."""
    return pytest.importorskip("jax.numpy").asarray(array)


def with_the_standard_alone(array: Any) -> Any:
    """Return an array that has nothing beyond the standard."""
    return array_api_strict.asarray(array)


def with_torch(array: Any) -> Any:
    """Return a PyTorch tensor."""
    return pytest.importorskip("torch").asarray(array)


complete_libraries = pytest.mark.parametrize("of", [with_numpy, with_jax, with_torch])
libraries = pytest.mark.parametrize("of", [with_numpy, with_jax, with_the_standard_alone, with_torch])


def rule_out(logits: Any, labels: Any) -> None:
    """Give the first token no chance, and let no label be it."""
    logits[..., 0] = -np.inf
    labels[labels == 0] = 1


SCENES: dict[str, tuple[int | None, Callable[[Any, Any], object]]] = {
    "plain": (PAD, lambda logits, labels: None),
    "padding that is a token": (3, lambda logits, labels: np.mod(labels, 11, out=labels)),
    "no padding": (None, lambda logits, labels: np.mod(labels, 11, out=labels)),
    "padding alone": (PAD, lambda logits, labels: labels.fill(PAD)),
    "ruled out": (PAD, rule_out),
    "large": (PAD, lambda logits, labels: np.multiply(logits, 1e4, out=logits)),
}


@libraries
@pytest.mark.parametrize("scene", SCENES)
def test_losses_agree_with_binary64(of: Callable[[Any], Any], scene: str) -> None:
    """On every library the losses are those of a computation in binary64, to 1e-5.

    A token that is ruled out has no share, and the losses stay finite; where all is padding the cross entropy is 0.0.
    """
    pad_id, change = SCENES[scene]
    logits, labels = example()
    change(logits, labels)
    parts = cross_entropy_with_entropy_loss(of(logits), of(labels), pad_id, entropy_weight=0.01)
    expected = reference(logits, labels, pad_id, 0.01)
    assert expected == pytest.approx([float(part) for part in parts], rel=1e-5)
    assert expected[0] == pytest.approx(float(cross_entropy_loss(of(logits), of(labels), pad_id)), rel=1e-5)


def test_torch_is_given_the_indices_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for PyTorch's namespace, labels of 32 bits give the same losses."""
    torch = torch_like.namespace()
    monkeypatch.setattr(array_api_compat, "array_namespace", lambda *arrays: torch)
    logits, labels = example()
    arrays = array_api_strict.asarray(logits), array_api_strict.asarray(labels.astype(np.int32))
    parts = cross_entropy_with_entropy_loss(*arrays, PAD)
    assert reference(logits, labels, PAD) == pytest.approx([float(part) for part in parts], rel=1e-5)


@complete_libraries
@pytest.mark.parametrize("shape", [(0, 9, 11), (3, 1, 11), (3, 0, 11)])
def test_no_position_loses_nothing(of: Callable[[Any], Any], shape: tuple[int, int, int]) -> None:
    """A batch without sequences, and sequences without a next token, give 0.0 three times."""
    logits, labels = of(np.zeros(shape, np.float32)), of(np.zeros(shape[:2], np.int64))
    parts = cross_entropy_with_entropy_loss(logits, labels, PAD)
    assert [0.0, 0.0, 0.0] == [float(part) for part in parts]


def test_a_broken_padded_position_does_not_count() -> None:
    """NaN in the logits of a position whose label is padding leaves the cross entropy unchanged."""
    logits, labels = example()
    expected = float(cross_entropy_loss(logits, labels, PAD))
    logits[:, :-1][labels[:, 1:] == PAD] = np.nan
    assert expected == float(cross_entropy_loss(logits, labels, PAD))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_half_precision_is_computed_in_single_and_double_stays(dtype: Any) -> None:
    """Logits of float16 give a float32 loss, those of float64 one in float64."""
    logits, labels = example()
    loss = cross_entropy_loss(logits.astype(dtype), labels, PAD)
    assert (np.float32 if dtype is np.float16 else np.float64) == loss.dtype
    assert reference(logits.astype(dtype), labels, PAD)[0] == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize(
    ("logits", "labels"), [((3,), ()), ((3, 4, 5), (3, 5)), ((3, 4, 5), (4,)), ((3, 4, 0), (3, 4))]
)
def test_shapes_that_do_not_fit_are_refused(logits: tuple[int, ...], labels: tuple[int, ...]) -> None:
    """Labels must have the shape of the logits without the vocabulary, which must not be empty."""
    with pytest.raises(ValueError, match=r"logits must be \[..., T, V\]"):
        cross_entropy_loss(np.zeros(logits), np.zeros(labels, int), PAD)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.floats(-1, 1))
def test_losses_agree_on_any_shape(seed: int, batch: int, length: int, vocabulary: int, weight: float) -> None:
    """Whatever the shape, the losses are those of a computation in binary64."""
    logits, labels = example(seed, (batch, length, vocabulary))
    parts = cross_entropy_with_entropy_loss(logits, labels, PAD, weight)
    assert reference(logits, labels, PAD, weight) == pytest.approx([float(p) for p in parts], rel=1e-4, abs=1e-5)


def test_gradient_is_finite_where_tokens_are_ruled_out() -> None:
    """A logit of minus infinity has the gradient zero, in the entropy too."""
    jax = pytest.importorskip("jax")
    logits, labels = example()
    rule_out(logits, labels)
    gradient = np.asarray(jax.grad(lambda x: cross_entropy_with_entropy_loss(x, labels, PAD).total_loss)(logits))
    assert np.isfinite(gradient).all()
    assert not gradient[..., 0].any()


def output_layer(seed: int = 0, width: int = 7, tokens: int = 11) -> tuple[Any, Any, Any]:
    """Return random hidden states, an output matrix and labels, a third of them padding."""
    _, labels = example(seed, (3, 9, tokens))
    rng = np.random.default_rng(seed + 1)
    hidden, weight = rng.normal(size=(3, 9, width)), rng.normal(size=(tokens, width))
    return hidden.astype(np.float32), weight.astype(np.float32), labels


@libraries
@pytest.mark.parametrize("chunk", [1, 4, 11, 4096])
@pytest.mark.parametrize("pad_id", [PAD, None])
def test_linear_cross_entropy_is_the_plain_loss(of: Callable[[Any], Any], chunk: int, pad_id: int | None) -> None:
    """However the vocabulary is cut, the loss is that of the full logits, to 1e-6."""
    hidden, weight, labels = output_layer()
    if pad_id is None:
        labels = np.abs(labels) % 11
    expected = float(cross_entropy_loss(hidden.astype(np.float64) @ weight.astype(np.float64).T, labels, pad_id))
    found = linear_cross_entropy(of(hidden), of(weight), of(labels), pad_id, vocabulary_chunk=chunk)
    assert expected == pytest.approx(float(found), rel=1e-6)


@pytest.mark.parametrize("with_gradient", [with_jax, with_torch])
def test_linear_cross_entropy_has_the_gradient_of_the_plain_loss(with_gradient: Callable[[Any], Any]) -> None:
    """Gradients flow to the hidden states and to the output matrix, chunk by chunk."""
    hidden, weight, labels = (with_gradient(array) for array in output_layer())
    if with_gradient is with_jax:
        jax = pytest.importorskip("jax")
        of = jax.grad(
            lambda states, rows: linear_cross_entropy(states, rows, labels, PAD, vocabulary_chunk=4), argnums=(0, 1)
        )
        plain = jax.grad(lambda states, rows: cross_entropy_loss(states @ rows.T, labels, PAD), argnums=(0, 1))
        found, expected = of(hidden, weight), plain(hidden, weight)
    else:
        torch = pytest.importorskip("torch")
        hidden.requires_grad_()
        weight.requires_grad_()
        found = torch.autograd.grad(
            linear_cross_entropy(hidden, weight, labels, PAD, vocabulary_chunk=4), (hidden, weight)
        )
        expected = torch.autograd.grad(cross_entropy_loss(hidden @ weight.T, labels, PAD), (hidden, weight))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-6)


def test_memory_of_linear_cross_entropy_does_not_grow_with_the_vocabulary() -> None:
    """Sixteen times the vocabulary takes no more than a tenth more memory at the peak."""

    def peak(tokens: int) -> int:
        hidden, weight, labels = output_layer(width=4, tokens=tokens)
        tracemalloc.start()
        linear_cross_entropy(hidden, weight, labels, PAD, vocabulary_chunk=1024)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1024)  # what is imported and made once
    assert peak(65_536) < 1.1 * peak(4_096)


def test_ruled_out_tokens_of_a_whole_chunk_leave_the_loss_finite() -> None:
    """A chunk whose logits are all minus infinity has no share in the loss."""
    hidden, weight, labels = np.ones((1, 3, 1), np.float32), np.zeros((4, 1), np.float32), np.array([[2, 3, 2]])
    weight[:2] = -np.inf
    assert math.log(2) == pytest.approx(float(linear_cross_entropy(hidden, weight, labels, PAD, vocabulary_chunk=2)))


@pytest.mark.parametrize(("weight", "chunk"), [((4, 3), 4), ((4,), 4), ((0, 2), 4), ((4, 2), 0)])
def test_linear_cross_entropy_refuses_shapes_that_do_not_fit(weight: tuple[int, ...], chunk: int) -> None:
    """A matrix of another width, a vector, an empty vocabulary and an empty chunk are errors that name the shape."""
    hidden, labels = np.ones((1, 3, 2), np.float32), np.zeros((1, 3), np.int64)
    with pytest.raises(ValueError, match=r"weight|vocabulary_chunk"):
        linear_cross_entropy(hidden, np.ones(weight, np.float32), labels, PAD, vocabulary_chunk=chunk)
