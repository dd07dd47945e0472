"""Counts steps, tokens and seconds of a training loop, and tells how fast it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toyspec.tracker.compute import (
    compute_mfu,
    compute_model_flops_per_token,
    compute_throughput,
    compute_tokens_in_batch,
    peak_flops,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.tracker.models import Model


class MetricsTracker:
    """Throughput and utilisation of a run, since its start and since the last ``reset_interval()``.

    Nothing here touches an array after the first look at the model, so that no property waits for a device.
    """

    __slots__ = (
        "_clock",
        "_flops_per_token",
        "_interval_start",
        "_interval_tokens",
        "_start",
        "model",
        "samples",
        "sequence_length",
        "start_time",
        "steps",
        "theoretical_peak_flops",
        "tokens",
        "world_size",
    )

    def __init__(  # noqa: PLR0913 - four of them are the call shape that this class keeps
        self,
        model: Model,
        sequence_length: int,
        world_size: int = 1,
        theoretical_peak_flops: float | str | None = None,
        *,
        flops_per_token: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count for *world_size* devices that train on sequences of *sequence_length* tokens.

        *theoretical_peak_flops* is per second, of all devices together; the name of an accelerator means its peak
        times *world_size*; None leaves the utilisation out. *flops_per_token* replaces the count that is made of the
        model at its first use, with the attention term where ``model.config`` tells depth and width. *clock* returns
        seconds. Raise ValueError for a length, size or peak that is not positive, LookupError for an unknown name.
        """
        for name, value in (("sequence_length", sequence_length), ("world_size", world_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        if isinstance(theoretical_peak_flops, str):
            theoretical_peak_flops = peak_flops(theoretical_peak_flops) * world_size
        if theoretical_peak_flops is not None and not theoretical_peak_flops > 0:
            raise ValueError(f"theoretical_peak_flops must be above 0, got {theoretical_peak_flops!r}")
        self.model = model
        self.sequence_length = sequence_length
        self.world_size = world_size
        self.theoretical_peak_flops = theoretical_peak_flops
        self.steps = 0
        """Number of optimizer steps."""
        self.tokens = 0
        """Number of tokens that all devices have seen."""
        self.samples = 0
        """Number of sequences that all devices have seen."""
        self.start_time = time.time()
        """Seconds since the Unix epoch at the start, UTC."""
        self._clock = clock
        self._flops_per_token = flops_per_token
        self._start = self._interval_start = clock()
        self._interval_tokens = 0

    def update(self, local_batch_size: int) -> None:
        """Count one optimizer step of *local_batch_size* sequences per device, before accumulation."""
        samples = local_batch_size * self.world_size
        self.steps += 1
        self.samples += samples
        self.tokens += compute_tokens_in_batch(samples, self.sequence_length)

    def reset_interval(self) -> None:
        """Let what is recent begin now."""
        self._interval_start = self._clock()
        self._interval_tokens = self.tokens

    @property
    def elapsed(self) -> float:
        """Seconds since the tracker was made."""
        return self._clock() - self._start

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all devices per second since the start."""
        return compute_throughput(self.tokens, self.elapsed)

    @property
    def recent_tokens_per_second(self) -> float:
        """Tokens of all devices per second since the last ``reset_interval()``."""
        return compute_throughput(self.tokens - self._interval_tokens, self._clock() - self._interval_start)

    @property
    def samples_per_second(self) -> float:
        """Sequences of all devices per second since the start."""
        return compute_throughput(self.samples, self.elapsed)

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations per token; counted once, so that parameters frozen later still count."""
        if self._flops_per_token is None:
            self._flops_per_token = compute_model_flops_per_token(self.model, sequence_length=self.sequence_length)
        return self._flops_per_token

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation since the start, 0 to 1; None without a peak."""
        return self._utilisation(self.tokens_per_second)

    @property
    def recent_mfu(self) -> float | None:
        """Model FLOPs utilisation since the last ``reset_interval()``, 0 to 1; None without a peak."""
        return self._utilisation(self.recent_tokens_per_second)

    def as_dict(self, include_recent: bool = True) -> dict[str, float | None]:
        """Return what the properties say by name; the utilisation only with a peak."""
        found: dict[str, float | None] = {
            "steps": self.steps,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
            "elapsed_seconds": self.elapsed,
        }
        if include_recent:
            found["recent_tokens_per_second"] = self.recent_tokens_per_second
        if self.theoretical_peak_flops is not None:
            found["mfu"] = self.mfu
            if include_recent:
                found["recent_mfu"] = self.recent_mfu
        return found

    def _utilisation(self, tokens_per_second: float) -> float | None:
        if self.theoretical_peak_flops is None:
            return None
        return compute_mfu(
            self.model, tokens_per_second, self.theoretical_peak_flops, flops_per_token=self.flops_per_token
        )

    def __str__(self) -> str:
        mfu = self.mfu
        shown = f"steps={self.steps:,}, tokens={self.tokens:,}, tok/s={self.tokens_per_second:,.2f}"
        return shown if mfu is None else f"{shown}, MFU={mfu:.2%}"
