"""What a mirror sends, and where to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from toyspec.convert.destinations.destination import destination_of
from toyspec.core.errors import check_choice
from toyspec.core.writing.companions import CompanionOrder, CompanionProcess

if TYPE_CHECKING:
    from toyspec.convert.destinations.destination import Destination
    from toyspec.core.writing.run_writer import RunWriter

Service = Literal["wandb", "mlflow", "tensorboard"]
"""What runs can be sent to."""

WAIT_SECONDS = 10.0
"""How long the end of a run waits for its mirrors; then they go on by themselves."""

PREFIXED_KINDS = ("step", "eval")


class Selecting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which points are sent. Equal records give equal rows, whenever they are read."""

    metrics: Sequence[str] = ("*",)
    """Patterns of the names that are sent, for example ``("loss", "val/*")``."""
    every: int = 1
    """Of ``step`` events, those whose step is a multiple of it; 0 for none."""
    megabytes: float | None = None
    """Most megabytes of JSON text in the whole run, settings included; one has 1,000,000 bytes."""
    prefixes: dict[str, str] = {}
    """What the names in ``step`` and ``eval`` events begin with; nothing and the name of the evaluation by default."""

    def __post_init__(self) -> None:
        if type(self.every) is not int or self.every < 0:
            raise ValueError(f"every is {self.every!r}; it must be an integer ≥ 0")
        if self.megabytes is not None and not self.megabytes >= 0:
            raise ValueError(f"megabytes is {self.megabytes!r}; it must be a number ≥ 0")
        if isinstance(self.metrics, str) or not self.metrics:
            raise ValueError(f"metrics is {self.metrics!r}; it must be a list of patterns such as ['loss', 'val/*']")
        msgspec.structs.force_setattr(self, "metrics", tuple(self.metrics))
        for kind in self.prefixes:
            if kind not in PREFIXED_KINDS:
                raise ValueError(f"prefixes has {kind!r}; it may have {' and '.join(PREFIXED_KINDS)}")


class Mirror(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a run in another tracker: what is sent, and where to. See ``start_run``."""

    to: Service
    """``"wandb"``, ``"mlflow"`` or ``"tensorboard"``; its package must be installed."""
    project: str | None = None
    """Project or experiment there; None means the group of the run, else ``toyspec``."""
    into: str | None = None
    """A directory, for MLflow a tracking URI; None means what the service is configured for."""
    select: Selecting | None = None
    """Which points are sent from now on; None means those of the mirror before, and all where there was none."""
    patience: float = 300.0
    """Seconds for which an ended run is tried again while the service takes nothing more."""

    def __post_init__(self) -> None:
        check_choice("to", self.to, get_args(Service))

    def started(self, run: RunWriter) -> CompanionProcess:
        """Return the process that sends *run* on while it is written."""
        return CompanionProcess(self.order(run.events_path), run)

    def destination(self) -> Destination:
        """Return the place of the tool; raise ImportError without its package, ServiceRefusedError if it cannot be."""
        return destination_of(self.to)(self.into)

    def order(self, stream: str | os.PathLike[str]) -> CompanionOrder:
        """Return the process that sends the run at *stream* on while it is written."""
        return CompanionOrder(
            "toyspec.convert.mirrors",
            msgspec.json.encode(MirrorOrder(os.path.abspath(stream), self)),
            wait_seconds=WAIT_SECONDS,
            late=f"{self.to}: the rest of the run is still being sent",
        )


class MirrorOrder(msgspec.Struct, frozen=True):
    """What the process of a ``Mirror`` is to do."""

    stream: str
    mirror: Mirror
