"""Runs the two integrations of the tracker: ``python -m toyspec.tracker.example [RUNS_ROOT]``.

A bigram model learns a made-up language with NumPy. Weights & Biases stay offline unless WANDB_MODE says otherwise.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from toyspec.tracker import LossTracker, MetricsTracker, TrainingLogger, cross_entropy_with_entropy_loss

VOCABULARY = 32
SEQUENCE_LENGTH = 64
BATCH_SIZE = 16
STEPS = 100
PAD_ID = 0
_LARGEST_LR = 20.0
# About what one core of a processor can do.
_PEAK_FLOPS = 1e11


def minimal_integration(runs_root: str) -> None:
    """Log a run in three lines."""
    model, rng = new_model(), np.random.default_rng(1)
    logger = TrainingLogger(project="my-project", run_name="experiment-1", runs_root=runs_root)
    for step in range(STEPS):
        loss = train(model, new_batch(rng), _LARGEST_LR)["total_loss"]
        logger.log_step(step=step, loss=loss.item(), lr=_LARGEST_LR)
    logger.finish()


def full_integration(runs_root: str) -> None:
    """Log a run with throughput, utilisation, running averages and evaluations."""
    model, rng = new_model(), np.random.default_rng(2)
    tracker = MetricsTracker(model, sequence_length=SEQUENCE_LENGTH, world_size=1, theoretical_peak_flops=_PEAK_FLOPS)
    averages = LossTracker(window_size=20)
    with TrainingLogger(project="my-project", runs_root=runs_root, print_every=10, tracker=tracker) as logger:
        with logger.log_section("Training"):
            for step in range(STEPS):
                lr = _LARGEST_LR * min(1.0, (step + 1) / 10)
                losses = train(model, new_batch(rng), lr)
                tracker.update(local_batch_size=BATCH_SIZE)
                averages.update(**losses)
                logger.log_step(
                    step=step,
                    loss=losses["total_loss"].item(),
                    ce_loss=losses["ce_loss"].item(),
                    entropy=losses["entropy"].item(),
                    mfu=tracker.mfu,
                    tokens_per_sec=tracker.tokens_per_second,
                    lr=lr,
                )
        val_loss = averages.get_average("ce_loss") or 0.0
        logger.log_validation(step=STEPS - 1, val_loss=val_loss, val_perplexity=float(np.exp(val_loss)))
        logger.log_system(step=STEPS - 1, parameters=model.size)


def new_model() -> Any:
    """Return the logits of the next token for each token, all zero."""
    return np.zeros((VOCABULARY, VOCABULARY), np.float32)


def new_batch(rng: np.random.Generator) -> Any:
    """Return sequences of a language in which each token is followed by one of three."""
    tokens = np.empty((BATCH_SIZE, SEQUENCE_LENGTH), np.int64)
    tokens[:, 0] = rng.integers(1, VOCABULARY, BATCH_SIZE)
    for place in range(1, SEQUENCE_LENGTH):
        tokens[:, place] = (tokens[:, place - 1] * 5 + rng.integers(0, 3, BATCH_SIZE)) % (VOCABULARY - 1) + 1
    return tokens


def train(model: Any, tokens: Any, lr: float) -> dict[str, Any]:
    """Take one step of gradient descent on the cross entropy, and return the losses before it."""
    logits = model[tokens]
    parts = cross_entropy_with_entropy_loss(logits, tokens, pad_id=PAD_ID, entropy_weight=0.001)
    shown, following = tokens[:, :-1].ravel(), tokens[:, 1:].ravel()
    gradient = np.exp(model[shown] - model[shown].max(axis=-1, keepdims=True))
    gradient /= gradient.sum(axis=-1, keepdims=True)
    gradient[np.arange(following.size), following] -= 1.0
    np.add.at(model, shown, -lr / following.size * gradient)
    return parts._asdict()


def main(arguments: list[str]) -> None:
    """Run both integrations; their bundles go below the first of *arguments*, by default ``runs``."""
    os.environ.setdefault("WANDB_MODE", "offline")
    runs_root = arguments[0] if arguments else "runs"
    minimal_integration(runs_root)
    full_integration(runs_root)
    sys.stdout.write(f"The bundles are in {runs_root}; look at them with: toyspec check {runs_root}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
