"""Which versions of packages a run names."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

from toyspec.core.writing.environment import package_versions

if TYPE_CHECKING:
    import pytest

RENAMED = {"ignite": "pytorch-ignite", "sklearn": "scikit-learn"}
"""Packages that are called otherwise than their module."""

FRAMEWORKS = (
    "accelerate clu datasets deepspeed flax ignite jax keras lightgbm lightning numpy optax optuna peft "
    "pytorch_lightning ray sklearn skorch stable_baselines3 tensorflow torch torch_xla torchtitan transformers trl "
    "xgboost"
)


def test_versions_of_the_frameworks_that_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is named as it is installed, with the version that it says, else with that of its distribution."""
    expected = {}
    for at, module in enumerate(FRAMEWORKS.split()):
        name = RENAMED.get(module, module.replace("_", "-"))
        monkeypatch.setitem(sys.modules, module, type("Module", (), {"__version__": f"{at}.0"} if at % 2 else {}))
        expected[name] = f"{at}.0" if at % 2 else f"of {name}"
    monkeypatch.setattr(metadata, "version", lambda name: f"of {name}")
    found = package_versions()
    assert (".".join(map(str, sys.version_info[:3])), True) == (found.pop("python"), bool(found.pop("toyspec")))
    assert expected == found
