"""Opens the service that a mirror sends to; its package is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from toyspec.mirrors.destination import Destination
    from toyspec.mirrors.settings import Mirror


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
        case _:
            assert_never(mirror.to)
