"""Begins a program that ``toyspec run`` started: Python imports this before the program, by PYTHONPATH."""

import contextlib
import importlib
import os
import sys


def _begin() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    # The one that this machine has comes next.
    this = sys.modules.pop(__name__)
    with contextlib.suppress(ImportError):
        importlib.import_module(__name__)
    sys.modules.setdefault(__name__, this)
    try:
        from toyspec.integrations.standing_in import AS, take_places
    except ImportError as error:
        sys.stderr.write(f"toyspec run: {sys.executable} has no toyspec, so all trackers are the real ones: {error}\n")
        return
    take_places(os.environ[AS].split(","))


_begin()
