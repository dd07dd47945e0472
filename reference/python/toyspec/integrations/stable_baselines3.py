"""A ``KVWriter`` for Stable-Baselines3: ``model.set_logger(toyspec_logger())``.

Written against stable-baselines3 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger

from toyspec.integrations.training_run import Logs, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = "toyspec"


class ToyspecOutputFormat(Logs, KVWriter):
    """Writes the run of one model; the options are those of RunOptions. The step is the number of environment steps."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        self.run = run_of(root, options)

    def write(self, key_values: Mapping[str, Any], key_excluded: Mapping[str, tuple[str, ...]], step: int = 0) -> None:
        """Write the numbers among *key_values* but those that are excluded."""
        kept = {key: value for key, value in key_values.items() if _FORMAT not in (key_excluded.get(key) or ())}
        self.run.log(kept, step=step)


def toyspec_logger(root: str = "runs", *, verbose: bool = False, **options: Any) -> Logger:
    """Return a logger that writes a run below *root*, and with *verbose* also prints the usual tables."""
    import sys

    formats: list[KVWriter] = [ToyspecOutputFormat(root, **options)]
    if verbose:
        formats.append(HumanOutputFormat(sys.stdout))
    return Logger(folder=None, output_formats=formats)
