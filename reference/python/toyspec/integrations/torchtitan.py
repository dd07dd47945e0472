"""A logger of the shape of torchtitan's ``BaseLogger``: ``log(metrics, step)`` and ``close()``.

It needs no package, so any loop that takes such a logger can use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.integrations.training_run import Logs, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToyspecLogger(Logs):
    """Writes one run; the options are those of RunOptions. With a *run_id*, a restarted loop continues it."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        self.run = run_of(root, options)

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Write the numbers among *metrics*."""
        self.run.log(metrics, step=int(step))
