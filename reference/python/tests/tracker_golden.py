"""The runs of the tracker that lie in the corpus.

`python reference/python/tests/tracker_golden.py`, called at the root of the tree, renews them.

Renew them only when the tracker is meant to write something else, and look at the difference.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from logged_runs import renew
from toyspec.testing import ManualClock
from toyspec.tracker import MetricsTracker, TrainingLogger, cross_entropy_with_entropy_loss

RUNS = ("tracker-standard", "tracker-compact")
"""Names of the runs, by the form of their console lines; each is a case below toy-v1/golden."""

VOCABULARY, SEQUENCE_LENGTH, BATCH_SIZE, PAD_ID = 32, 64, 16, 0

_ENVIRONMENT: dict[str, Any] = {
    "host": {"name": "tpu-vm", "os": "linux", "arch": "x86_64"},
    "backend": {"kind": "tpu", "device": "TPU v4"},
    "git": {"sha": "4bf48d37c1a5d3e2b09f8e6a7d1c2b3a4f5e6d70", "branch": "main"},
    "model": {"arch": "bigram", "vocab": 32, "n_layers": 1},
}


def golden_run(name: str, root: Path) -> None:
    """Write the run *name* below *root*, and what the console showed of it."""
    console = io.StringIO()
    with contextlib.redirect_stdout(console):
        {"tracker-standard": _standard, "tracker-compact": _compact}[name](root)
    stream = root / name / "events.jsonl"
    start, *others = stream.read_bytes().splitlines(keepends=True)
    members = msgspec.json.decode(start)
    for of_this_program in ("argv", "packages"):
        members.pop(of_this_program, None)
    stream.write_bytes(b"".join([msgspec.json.encode(members) + b"\n", *others]))
    (root / name / "console.txt").write_text(console.getvalue(), encoding="utf-8", newline="\n")


def _standard(root: Path) -> None:
    clock, model, rng = ManualClock(), _new_model(), np.random.default_rng(7)
    tracker = MetricsTracker(model, SEQUENCE_LENGTH, world_size=8, theoretical_peak_flops=1e9, clock=clock.monotonic)
    with TrainingLogger(
        run_name="tracker-standard",
        runs_root=root,
        print_every=10,
        tags=["tpu", "bigram"],
        hyperparameters={"lr": 20.0, "seed": 7, "steps": 40},
        clock=clock,
        **_ENVIRONMENT,
    ) as logger:
        with logger.log_section("Training"):
            for step in range(1, 41):
                losses = _train(model, _new_batch(rng), 20.0)
                clock.advance(1.5)
                tracker.update(BATCH_SIZE)
                logger.log_step(
                    step=step,
                    loss=losses["total_loss"],
                    ce_loss=losses["ce_loss"],
                    entropy=losses["entropy"],
                    lr=20.0,
                    mfu=tracker.mfu,
                    tokens_per_sec=tracker.tokens_per_second,
                )
                if step % 20 == 0:
                    _evaluate(logger, model, rng)
        logger.log_system(memory_used_bytes=12 << 30, memory_limit_bytes=32 << 30, data_wait_us=1800, cpu_percent=12.5)


def _compact(root: Path) -> None:
    clock, model, rng = ManualClock(), _new_model(), np.random.default_rng(8)
    with TrainingLogger(
        run_name="tracker-compact",
        runs_root=root,
        print_every=5,
        log_every=10,
        record_every=5,
        compact_format=True,
        enable_histograms=True,
        clock=clock,
        **_ENVIRONMENT,
    ) as logger:
        for step in (*range(26), *range(21, 31)):
            before = model.copy()
            losses = _train(model, _new_batch(rng), 5.0)
            clock.advance(0.25)
            metrics = {"lr": 3e-4, "mfu": 0.56, "tokens_per_sec": 364_000.0, "tokens": 8192}
            logger.log_step(step=step, loss=losses["total_loss"], **metrics)
            logger.log_gradients({"bigram.weight": before - model})
        _evaluate(logger, model, rng)


def _new_model() -> Any:
    """Return the logits of the next token for each token, all zero."""
    return np.zeros((VOCABULARY, VOCABULARY), np.float32)


def _new_batch(rng: np.random.Generator) -> Any:
    """Return sequences of a language in which each token is followed by one of three."""
    tokens = np.empty((BATCH_SIZE, SEQUENCE_LENGTH), np.int64)
    tokens[:, 0] = rng.integers(1, VOCABULARY, BATCH_SIZE)
    for place in range(1, SEQUENCE_LENGTH):
        tokens[:, place] = (tokens[:, place - 1] * 5 + rng.integers(0, 3, BATCH_SIZE)) % (VOCABULARY - 1) + 1
    return tokens


def _train(model: Any, tokens: Any, lr: float) -> dict[str, Any]:
    """Take one step of gradient descent on the cross entropy, and return the losses before it."""
    logits = model[tokens]
    parts = cross_entropy_with_entropy_loss(logits, tokens, pad_id=PAD_ID, entropy_weight=0.001)
    shown, following = tokens[:, :-1].ravel(), tokens[:, 1:].ravel()
    gradient = np.exp(model[shown] - model[shown].max(axis=-1, keepdims=True))
    gradient /= gradient.sum(axis=-1, keepdims=True)
    gradient[np.arange(following.size), following] -= 1.0
    np.add.at(model, shown, -lr / following.size * gradient)
    return parts._asdict()


def _evaluate(logger: TrainingLogger, model: Any, rng: np.random.Generator) -> None:
    tokens = _new_batch(rng)
    val_loss = cross_entropy_with_entropy_loss(model[tokens], tokens, PAD_ID).ce_loss
    logger.log_validation(val_loss=val_loss, val_perplexity=np.exp(val_loss))


if __name__ == "__main__":
    sys.path.insert(0, "")
    for name in RUNS:
        with tempfile.TemporaryDirectory() as root:
            golden_run(name, Path(root))
            renew(Path("conformance/cases/toy-v1/golden", name), Path(root, name), ("events.jsonl", "console.txt"))
