"""What the core asks of rooms: each module is imported with the first use, so that the core needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.health import checking as health_checking
    from toyspec.health import options as health_options
    from toyspec.health import run_health
    from toyspec.stores import ray_cluster

    __all__ = [
        "health_checking",
        "health_options",
        "ray_cluster",
        "run_health",
    ]
else:
    from importlib import import_module

    _MODULES = {
        "health_checking": "toyspec.health.checking",
        "health_options": "toyspec.health.options",
        "ray_cluster": "toyspec.stores.ray_cluster",
        "run_health": "toyspec.health.run_health",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(_MODULES[name])
