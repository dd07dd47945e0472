"""Sends runs on to other trackers: the bundle stays the truth, and the training never waits.

A mirror follows the committed records of a bundle from a process of its own. What it sends is a pure function of
the records and of its ``Selecting``, so each row has a number, and after any interruption it goes on with the next one.
"""

from toyspec.convert.mirrors.mirroring import Outcome, mirror_run
from toyspec.convert.mirrors.settings import Mirror

__all__ = ["Mirror", "Outcome", "mirror_run"]
