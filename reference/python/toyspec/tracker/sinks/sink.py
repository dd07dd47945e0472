"""What every place that gets metrics has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.tracker.histograms import GradientStatistics

Numbering = Literal["given", "counted"]
"""Whether the caller gave the number of a step, or the logger counted it."""


class Sink:
    """A place that gets metrics, each value converted already. It overrides what it has a use for.

    No method may raise because of the system: training goes on whatever happens to its log.
    """

    __slots__ = ("every",)

    def __init__(self, every: int) -> None:
        self.every = every
        """Steps between two that it gets; 0 for none."""

    def log_step(self, step: int, metrics: Mapping[str, float], numbering: Numbering, /) -> None:
        """Take the metrics of a step that is due."""

    def go_back(self, step: int, /) -> None:
        """Take that the training goes on with *step*, which is before the last one, due or not."""

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Take the metrics of an evaluation."""

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Take what is known of the machine."""

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Take the statistics of the gradient of one parameter."""

    def enter_section(self, name: str) -> None:
        """Take the start of a section of the training."""

    def exit_section(self, name: str, seconds: float, /) -> None:
        """Take the end of a section, which took *seconds*."""

    def finish(self, error: BaseException | None, /) -> None:
        """Take the end of the run, by *error* if there is one; nothing comes after it."""
