"""What the core, and a room of those above it, ask of rooms: each module is imported with the first use alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.expect import bands as expect_bands
    from toyspec.expect import live as expect_live
    from toyspec.expect import partings as expect_partings
    from toyspec.expect.commands import expect as expect_command
    from toyspec.health import checking as health_checking
    from toyspec.health import options as health_options
    from toyspec.health import run_health
    from toyspec.stores import ray_cluster

    __all__ = [
        "expect_bands",
        "expect_command",
        "expect_live",
        "expect_partings",
        "health_checking",
        "health_options",
        "ray_cluster",
        "run_health",
    ]
else:
    from importlib import import_module

    _MODULES = {
        "expect_bands": "toyspec.expect.bands",
        "expect_command": "toyspec.expect.commands.expect",
        "expect_live": "toyspec.expect.live",
        "expect_partings": "toyspec.expect.partings",
        "health_checking": "toyspec.health.checking",
        "health_options": "toyspec.health.options",
        "ray_cluster": "toyspec.stores.ray_cluster",
        "run_health": "toyspec.health.run_health",
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(_MODULES[name])
