"""A writer for loops of JAX, Flax and optax: ``writer = ToyspecWriter()``.

It is a ``clu.metric_writers.MetricWriter`` where clu 0.0.12 is installed, and works without it. Images, audio and video
are left out, which is reported once for each name, and counted in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.integrations.training_run import run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

try:
    from clu.metric_writers.interface import MetricWriter
except ImportError:
    MetricWriter = object


class ToyspecWriter(MetricWriter):
    """Writes the run of one loop; the options are those of RunOptions.

    With a *run_id*, a restarted loop continues the run.
    """

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        self.run = run_of("clu", root, options)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write the settings of the run."""
        self.run.begin(hparams)

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Write numbers by name."""
        self.run.log(scalars, step=int(step))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write texts by name."""
        self.run.log(texts, step=int(step))

    def write_summaries(self, step: int, values: Mapping[str, Any], metadata: Any = None) -> None:
        """Leave it out."""
        del step, metadata
        self._leave_out("write_summaries", values)

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        """Leave them out."""
        del step
        self._leave_out("write_images", images)

    def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
        """Leave them out."""
        del step
        self._leave_out("write_videos", videos)

    def write_audios(self, step: int, audios: Mapping[str, Any], *, sample_rate: int) -> None:
        """Leave them out."""
        del step, sample_rate
        self._leave_out("write_audios", audios)

    def write_histograms(self, step: int, arrays: Mapping[str, Any], num_buckets: Any = None) -> None:
        """Leave them out."""
        del step, num_buckets
        self._leave_out("write_histograms", arrays)

    def flush(self) -> None:
        """Do nothing: what was logged is written."""

    def close(self) -> None:
        """End the run."""
        self.run.end()

    def _leave_out(self, call: str, values: Mapping[str, Any]) -> None:
        for name in values:
            why = f"ToyspecWriter does not log what {call} is given; log it as numbers or texts"
            self.run.begin().leave_out(str(name), why)
