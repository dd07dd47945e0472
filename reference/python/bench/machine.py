"""Describes the machine that figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "msgspec", "jsonschema", "orjson", "fastjsonschema", "jsonschema-rs", "sourcemeta-jsonschema",
    "wandb", "torch", "tensorboard", "lightning", "mlflow", "mlflow-skinny", "trackio"
)  # fmt: skip


def describe() -> dict[str, str]:
    """Return what a figure depends on: processor, system, interpreter, and versions of libraries that are there."""
    found = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}",
        "Python": platform.python_version(),
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    node = _node()
    return found | ({"node": node} if node else {})


def load() -> str:
    """Return the load of the machine over the last minute; empty where it does not tell."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _node() -> str:
    try:
        done = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
