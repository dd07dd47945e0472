"""Finds what the tests of the package share: these tests run in environments of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
# Other programs report home and send statistics unless told otherwise.
os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "DVC_NO_ANALYTICS": "1", "HF_HUB_OFFLINE": "1"}
os.environ |= {"KERAS_BACKEND": "jax", "MLFLOW_ALLOW_FILE_STORE": "true", "GIT_PYTHON_REFRESH": "quiet"}

settings.register_profile("interop", deadline=None, max_examples=10)
settings.load_profile("interop")
