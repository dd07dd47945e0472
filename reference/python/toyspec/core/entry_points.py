"""What other packages bring to toyspec: entry points, by the name of their group."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from toyspec.core.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint


@cache
def entry_points_of(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of *group* of all installed packages, by name; none is loaded."""
    # Imported here: looking through all packages takes as long as starting, and only what ours do not know needs it.
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=group)}


def package_of(entry: EntryPoint) -> str:
    """Return name and version of the package that brings *entry*."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def brought(entry: EntryPoint) -> Any:
    """Return what *entry* names; raise ImportError, which says whose it is, if it cannot be loaded."""
    try:
        return entry.load()
    except Exception as error:
        raise ImportError(f"{entry.name}, of {package_of(entry)}, cannot be loaded: {cause_of(error)}") from error


@cache
def all_brought(group: str) -> Mapping[str, Any]:
    """Return what the entry points of *group* name, by name; what cannot be loaded is reported once and left out."""
    found = {}
    for name, entry in entry_points_of(group).items():
        try:
            found[name] = brought(entry)
        except ImportError as error:
            # What other packages bring works without it.
            say(str(error))
    return found
