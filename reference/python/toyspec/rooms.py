"""What the core asks of rooms: each module is imported with the first use, so that the core needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.catalog import reading as catalog
    from toyspec.cli import health_options, metric_charts
    from toyspec.health import checking as health_checking
    from toyspec.health import live as health_live
    from toyspec.stores import ray_cluster
    from toyspec.writing import run_health

    __all__ = [
        "catalog",
        "health_checking",
        "health_live",
        "health_options",
        "metric_charts",
        "ray_cluster",
        "run_health",
    ]
else:
    from importlib import import_module

    _MODULES = {
        "catalog": "toyspec.catalog.reading",
        "health_checking": "toyspec.health.checking",
        "health_live": "toyspec.health.live",
        "health_options": "toyspec.cli.health_options",
        "metric_charts": "toyspec.cli.metric_charts",
        "ray_cluster": "toyspec.stores.ray_cluster",
        "run_health": "toyspec.writing.run_health",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(_MODULES[name])
