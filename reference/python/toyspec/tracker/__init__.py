"""Metrics of a training run on JAX, PyTorch or NumPy: throughput, losses, and a logger of three lines.

::

    logger = TrainingLogger(project="my-project", run_name="experiment-1")
    for step, batch in enumerate(batches, 1):
        logger.log_step(step=step, loss=loss, lr=lr, mfu=tracker.mfu)
    logger.finish()

Importing this imports no library of arrays.
"""

from __future__ import annotations

from toyspec.tracker.compute import (
    DeviceMemory,
    UnknownAcceleratorError,
    compute_gradient_norm,
    compute_mfu,
    compute_model_flops_per_token,
    compute_model_size_mb,
    compute_throughput,
    compute_tokens_in_batch,
    device_memory,
    peak_flops,
)
from toyspec.tracker.formatting import format_metrics
from toyspec.tracker.losses import (
    LossParts,
    cross_entropy_loss,
    cross_entropy_with_entropy_loss,
    linear_cross_entropy,
)
from toyspec.tracker.trackers import LossTracker, MetricsTracker
from toyspec.tracker.training_logger import LogConfig, TrainingLogger

__all__ = [
    "DeviceMemory",
    "LogConfig",
    "LossParts",
    "LossTracker",
    "MetricsTracker",
    "TrainingLogger",
    "UnknownAcceleratorError",
    "compute_gradient_norm",
    "compute_mfu",
    "compute_model_flops_per_token",
    "compute_model_size_mb",
    "compute_throughput",
    "compute_tokens_in_batch",
    "cross_entropy_loss",
    "cross_entropy_with_entropy_loss",
    "device_memory",
    "format_metrics",
    "linear_cross_entropy",
    "peak_flops",
]
