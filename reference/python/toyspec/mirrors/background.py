"""Runs a mirror in a process of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from toyspec.mirrors.settings import Mirror
from toyspec.writing.companion_processes import CompanionProcess

if TYPE_CHECKING:
    from toyspec.mirrors.mirroring import Outcome

WAIT_SECONDS = 10.0
"""How long the end of a run waits for its mirrors; then they go on by themselves."""


class Order(msgspec.Struct, frozen=True):
    """What the process is to do."""

    stream: str
    mirror: Mirror


class BackgroundMirror(CompanionProcess):
    """The process that mirrors one run. It ends when the run has ended and was sent, or when this process is gone."""

    def __init__(self, stream: str | os.PathLike[str], mirror: Mirror) -> None:
        """Start the process; raise OSError where that fails."""
        super().__init__(
            "toyspec.mirrors",
            msgspec.json.encode(Order(os.path.abspath(stream), mirror)),
            wait_seconds=WAIT_SECONDS,
            late=f"{mirror.to}: the rest of the run is still being sent",
        )


def describe(outcome: Outcome, order: Order) -> str | None:
    """Return what a person has to know of *outcome*; None where all is well."""
    if outcome == "abandoned":
        run, to = os.path.dirname(order.stream), order.mirror.to
        return f"{to} does not answer; `toyspec mirror --backfill {run} --to {to}` sends what is missing"
    return None
