"""Chooses the engine: the compiled one of the distribution ``toyspec-engine``, or plain Python.

Both give equal results. ``TOYSPEC_ENGINE=python`` does without the compiled one, and ``native`` demands it.
"""

from __future__ import annotations

import os
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from toyspec.core.errors import EngineError
from toyspec.core.escaping import shortened
from toyspec.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

VARIABLE = "TOYSPEC_ENGINE"
"""The environment variable that names the engine."""

_INSTALL = "install it with `python -m pip install 'toyspec[fast]'`, or in a clone with `make engine`"


# All that toyspec_engine.pyi declares: in a clone, an engine that was built before has the same version.
_NAMES = (
    "EngineFailure", "Options", "Checker", "Checker.feed", "Checker.finish",
    "Batch", "Batch.submit", "Batch.next", "Batch.received",
    "Walk", "Walk.next", "Walk.records",
    "Pyramid", "Pyramid.add", "Pyramid.add_block", "Pyramid.first_places", "Pyramid.buckets",
    "StepBlock", "StepBlock.kinds", "StepBlock.phase", "StepBlock.times", "StepBlock.steps", "StepBlock.names",
    "StepBlock.minimized", "StepBlock.extremes", "StepBlock.last_place", "StepBlock.opened",
    "Packing", "Packing.levels", "Packing.data", "step_blocks",
    "folded", "run_ends", "digests", "tensorboard_lines", "fail",
)  # fmt: skip


class EngineChoice(NamedTuple):
    """The engine in use, and why."""

    name: Literal["native", "python"]
    reason: str


def native() -> ModuleType | None:
    """Return the compiled engine; None if plain Python is used. Raise EngineError if it is demanded and missing."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "python":
        return None
    module, trouble = _loaded()
    if wanted == "native" and module is None:
        raise EngineError(f"{VARIABLE} is native, but {trouble}; {_INSTALL}")
    if wanted not in ("", "native"):
        raise EngineError(f"{VARIABLE} is {shortened(wanted)}; it must be python or native, or not set")
    return module


def choice() -> EngineChoice:
    """Return which engine is used, and why; raise EngineError as ``native`` does."""
    wanted = os.environ.get(VARIABLE, "")
    if native() is not None:
        return EngineChoice(
            "native", f"{VARIABLE} is native" if wanted else f"toyspec-engine {__version__} is installed"
        )
    return EngineChoice("python", f"{VARIABLE} is python" if wanted else _loaded()[1])


@cache
def _loaded() -> tuple[ModuleType | None, str]:
    """Return the compiled engine, or None and why it cannot be used."""
    try:
        import toyspec_engine
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "toyspec_engine"
        return None, "toyspec-engine is not installed" if is_missing else f"toyspec-engine does not load: {error}"
    if toyspec_engine.__version__ != __version__:
        return None, f"toyspec-engine {toyspec_engine.__version__} is of another version than toyspec {__version__}"
    try:
        attrgetter(*_NAMES)(toyspec_engine)
    except AttributeError:
        return None, "toyspec-engine was built from older sources; build it again with `make engine`"
    return toyspec_engine, ""
