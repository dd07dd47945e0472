"""Paths as text: a name may have any byte, also those that are not valid in any encoding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from toyspec.core.findings import Finding


def shown(path: str) -> str:
    """Return *path* for a person, inert, without the ``./`` of a search from the current directory."""
    return printable(path.removeprefix("./") or path)


def place(path: str, finding: Finding) -> str:
    """Return the path of the file that *finding* is in: the stream at *path*, or a file beside it."""
    return path if finding.sidecar is None else os.path.join(os.path.dirname(path), finding.sidecar)
