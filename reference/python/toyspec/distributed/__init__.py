"""Spreads work over processes of this machine or over a Ray cluster, with the results of one process.

``workers=`` of ``toyspec.check``, ``import_runs``, ``export_runs``, ``build_catalog`` and ``update_catalog`` takes a
number of processes, or ``Ray("auto")``.
"""

from __future__ import annotations

from toyspec.distributed.crews import Workers
from toyspec.distributed.ray_cluster import Ray

__all__ = ["Ray", "Workers"]
