"""Imports optional packages when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str, purpose: str) -> Any:
    """Return *module*; raise ImportError with what to install for *purpose* if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: pip install 'toyspec[{extra}]'") from error
