"""Tells media from other values without importing what makes them: most runs log none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toyspec.writing.media import Media


def media_of(value: Any) -> list[Media] | None:
    """Return the media that *value* is, one or several in a list; None for all else."""
    module = sys.modules.get("toyspec.writing.media")
    return None if module is None else module.media_of(value)
