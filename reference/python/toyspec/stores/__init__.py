"""Runs beyond this machine: object stores, kept in step with a folder of runs, and work on a cluster.

What is kept in a place is always whole committed lines of a stream, and each version of an object begins with the bytes
of the one before. So nothing is remembered on this side: whatever was interrupted is compared with the place, and goes
on there.

``workers=`` of ``toyspec.check``, ``import_runs``, ``build_catalog`` and ``update_catalog`` takes a
number of processes, or ``Ray("auto")``.
"""

from __future__ import annotations

from toyspec.stores.ray_cluster import Ray

__all__ = ["Ray"]
