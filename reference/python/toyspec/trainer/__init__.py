"""A training step on NumPy: fp16 weights, AdamW, and the caller's own forward and backward. Needs the extra ``train``.

::

    weight = Parameter([0.5, -0.5])
    loss = train_step(
        inputs, target, "mse", [weight],
        forward=lambda x: x @ weight.value(),
        backward=lambda predictions, target: ...,  # a BackwardOutput
        optimizer=AdamW(lr=1e-2),
    )
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toyspec.trainer.stepping import (
        AdamW,
        BackwardOutput,
        Parameter,
        SizeError,
        grad_norm,
        grad_norms,
        mse_loss_backward,
        train_step,
    )

__all__ = [
    "AdamW",
    "BackwardOutput",
    "Parameter",
    "SizeError",
    "grad_norm",
    "grad_norms",
    "mse_loss_backward",
    "train_step",
]

INSTALLATION = "install what it needs with: pip install 'toyspec[train]'"


# Imported when asked for: the command line needs the settings beside these modules, but not NumPy.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.stepping")
    except ModuleNotFoundError as error:
        raise ImportError(f"toyspec.trainer computes with NumPy ({error}); {INSTALLATION}") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
