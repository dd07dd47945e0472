"""A writer for loops of JAX, Flax and optax: ``writer = ToyspecWriter()``.

It is a ``clu.metric_writers.MetricWriter`` where clu 0.0.12 is installed, and works without it. Images, audio and video
are not logged, which is reported once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.integrations.training_run import run_of
from toyspec.system_calls import say

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
        self.run = run_of("clu", root, options, rank=_process_index())
        self._left_out: set[str] = set()

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Take the settings of the run."""
        self.run.add_config(hparams)

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Write numbers by name."""
        self.run.log(scalars, step=int(step))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write each text as a note."""
        for name, text in texts.items():
            self.run.note(f"{name}: {text}", step=int(step))

    def write_summaries(self, step: int, values: Mapping[str, Any], metadata: Any = None) -> None:
        """Leave it out."""
        del step, values, metadata
        self._leave_out("summaries")

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        """Leave them out."""
        del step, images
        self._leave_out("images")

    def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
        """Leave them out."""
        del step, videos
        self._leave_out("videos")

    def write_audios(self, step: int, audios: Mapping[str, Any], *, sample_rate: int) -> None:
        """Leave them out."""
        del step, audios, sample_rate
        self._leave_out("audios")

    def write_histograms(self, step: int, arrays: Mapping[str, Any], num_buckets: Any = None) -> None:
        """Leave them out."""
        del step, arrays, num_buckets
        self._leave_out("histograms")

    def flush(self) -> None:
        """Do nothing: what was logged is written."""

    def close(self) -> None:
        """End the run."""
        self.run.end()

    def _leave_out(self, what: str) -> None:
        if what not in self._left_out:
            self._left_out.add(what)
            say(f"{what} are not logged: a toy/v1 run has numbers and texts (reported once)")


def _process_index() -> int:
    import jax

    return int(jax.process_index())
