"""Opens the service that a mirror sends to; its package is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

if TYPE_CHECKING:
    import threading

    from toyspec.mirrors.destination import Destination
    from toyspec.mirrors.settings import Mirror, Service


KEPT_IN_MEMORY: Final[frozenset[Service]] = frozenset(["prometheus"])
"""Services that have nothing of a run once the process has ended: each process sends them all of it."""


def destination(mirror: Mirror) -> Destination:
    """Return the destination of *mirror*; raise ImportError where its package is not installed."""
    match mirror.to:
        case "wandb":
            from toyspec.mirrors import wandb_service

            return wandb_service.destination(mirror)
        case "mlflow":
            from toyspec.mirrors import mlflow_service

            return mlflow_service.destination(mirror)
        case "trackio":
            from toyspec.mirrors import trackio_service

            return trackio_service.destination(mirror)
        case "tensorboard":
            from toyspec.mirrors import tensorboard_files

            return tensorboard_files.destination(mirror)
        case "otel":
            from toyspec.mirrors import otel_service

            return otel_service.destination(mirror)
        case "prometheus":
            from toyspec.mirrors import prometheus_service

            return prometheus_service.destination(mirror)
        case _:
            assert_never(mirror.to)


def prepare(mirror: Mirror) -> None:
    """Get ready for the runs of *mirror*; raise ImportError without its package, ServiceRefusedError if not possible.

    What services come for is served from now on, also before there is a run.
    """
    destination(mirror)
    if mirror.to == "prometheus":
        from toyspec.mirrors import prometheus_service

        prometheus_service.listen(mirror)


def wait_until_read(mirror: Mirror, over: threading.Event) -> None:
    """Wait until a service that comes for the values has the last ones, *over* is set, or the patience has ended."""
    if mirror.to == "prometheus":
        from toyspec.mirrors import prometheus_service

        prometheus_service.wait_until_read(mirror, over)
