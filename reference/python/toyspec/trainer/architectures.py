"""The language models that `toyspec train` knows. They read characters and predict the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from toyspec.trainer.mlp import Mlp
from toyspec.trainer.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.trainer.architecture import Architecture
    from toyspec.trainer.arrays import Single

ARCHITECTURES: dict[str, Callable[[int], Architecture]] = {Transformer.name: Transformer, Mlp.name: Mlp}
"""What makes a model for a vocabulary of so many characters, by name; the names are those of ``settings``."""


def start_values(architecture: Architecture, seed: int) -> dict[str, Single]:
    """Return start values from *seed*: norms 1, biases 0, tables spread 0.1, other weights 1 / sqrt(inputs)."""
    random = np.random.default_rng([seed, 0])
    found: dict[str, Single] = {}
    for name, shape in architecture.shapes().items():
        if name.endswith(".bias"):
            found[name] = np.zeros(shape, dtype=np.float32)
        elif name.endswith("norm.weight"):
            found[name] = np.ones(shape, dtype=np.float32)
        else:
            spread = 0.1 if "embd" in name else shape[1] ** -0.5
            found[name] = (spread * random.standard_normal(shape)).astype(np.float32)
    return found
