"""Locates the files that ship with the code: schemas, specification pages, the corpus and the emitters to copy.

A wheel has them under ``toyspec/data``; a source tree has them in their own directories.
"""

from __future__ import annotations

import os
from typing import Literal

from toyspec.core.errors import ToyspecError

Area = Literal["schemas", "spec", "conformance", "reference/emitters", "reference/skill"]


class ResourceMissingError(ToyspecError, FileNotFoundError):
    """A file that ships with the package is not there; the installation is incomplete."""


def resource_path(area: Area, *parts: str) -> str:
    """Return the path of a shipped file or folder; raise ResourceMissingError when it is absent."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    shipped = os.path.join(package, "data")
    root = shipped if os.path.isdir(shipped) else os.path.join(package, "..", "..", "..")
    path = os.path.normpath(os.path.join(root, area, *parts))
    if not os.path.exists(path):
        raise ResourceMissingError(f"{path} is missing; reinstall toyspec")
    return path


def read_resource(area: Area, *parts: str) -> bytes:
    """Return the content of a shipped file; raise ResourceMissingError when it is absent."""
    with open(resource_path(area, *parts), "rb") as file:
        return file.read()
