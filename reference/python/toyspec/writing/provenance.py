"""Finds out how a training was started: its command line and the versions of the packages that it uses."""

from __future__ import annotations

import sys
from typing import Final

from toyspec.format.redaction import command_line_without_secrets
from toyspec.version import __version__

# Module and distribution. Only these are asked for: a list of all that is installed says little, and takes long.
_DISTRIBUTIONS: Final = {
    "accelerate": "accelerate",
    "clu": "clu",
    "datasets": "datasets",
    "deepspeed": "deepspeed",
    "flax": "flax",
    "ignite": "pytorch-ignite",
    "jax": "jax",
    "keras": "keras",
    "lightgbm": "lightgbm",
    "lightning": "lightning",
    "numpy": "numpy",
    "optax": "optax",
    "optuna": "optuna",
    "peft": "peft",
    "pytorch_lightning": "pytorch-lightning",
    "ray": "ray",
    "sklearn": "scikit-learn",
    "skorch": "skorch",
    "stable_baselines3": "stable-baselines3",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "torch_xla": "torch-xla",
    "torchtitan": "torchtitan",
    "transformers": "transformers",
    "trl": "trl",
    "xgboost": "xgboost",
}


def command_line() -> list[str]:
    """Return the words that started this program, without secrets."""
    return command_line_without_secrets(getattr(sys, "argv", []))


def package_versions() -> dict[str, str]:
    """Return the versions of Python, of toyspec, and of each known framework that this program has imported."""
    found = {"python": ".".join(map(str, sys.version_info[:3])), "toyspec": __version__}
    for module, distribution in _DISTRIBUTIONS.items():
        if module not in sys.modules:
            continue
        version = getattr(sys.modules[module], "__version__", None)
        if not isinstance(version, str):
            version = _installed_version(distribution)
        if version is not None:
            found[distribution] = version
    return found


def _installed_version(distribution: str) -> str | None:
    # Slow to import, and most packages say their version themselves.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
