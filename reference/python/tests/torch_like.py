"""Stand-ins for what the tracker uses of PyTorch, so that its paths are tested where PyTorch is not installed."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np


class Parameter:
    """A parameter of a module: its size, whether it learns, and its gradient, an array of the plain standard."""

    def __init__(self, *shape: int, requires_grad: bool = True, item_bytes: int = 4) -> None:
        self.shape = shape
        self.requires_grad = requires_grad
        self.grad: Any = None
        self._item_bytes = item_bytes

    def numel(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._item_bytes


class Module:
    """A module with named parameters, and a config where one is given."""

    def __init__(self, config: Any = None, **parameters: Parameter) -> None:
        self._parameters = parameters
        if config is not None:
            self.config = config

    def parameters(self) -> list[Parameter]:
        """Return the parameters."""
        return list(self._parameters.values())

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return the parameters with their names."""
        return list(self._parameters.items())


class Tensor:
    """A tensor of one element that counts what is asked of it."""

    def __init__(self, value: float) -> None:
        self._value = value
        self.conversions = 0
        self.detached = 0

    def detach(self) -> Tensor:
        """Return the tensor without its graph."""
        self.detached += 1
        return self

    def item(self) -> float:
        """Return the value, as a device would."""
        self.conversions += 1
        return self._value


class HalfTensor:
    """A gradient in a precision that NumPy does not know."""

    def __init__(self, values: list[float]) -> None:
        self._values = values
        self.shape = (len(values),)
        self._steps: list[str] = []

    def detach(self) -> HalfTensor:
        """Return the tensor without its graph."""
        self._steps.append("detach")
        return self

    def double(self) -> HalfTensor:
        """Return the tensor in binary64."""
        self._steps.append("double")
        return self

    def cpu(self) -> HalfTensor:
        """Return the tensor on the host."""
        self._steps.append("cpu")
        return self

    def numpy(self) -> Any:
        """Return the values; only after all that PyTorch asks for before."""
        assert ["detach", "double", "cpu"] == self._steps
        return np.asarray(self._values)


def namespace() -> ModuleType:
    """Return a namespace called torch: the standard and nothing else, with PyTorch's rule for indices."""
    torch = ModuleType("torch")
    for name in dir(array_api_strict):
        if not name.startswith("_"):
            setattr(torch, name, getattr(array_api_strict, name))

    def take_along_axis(array: Any, indices: Any, *, axis: int) -> Any:
        assert array_api_strict.int64 == indices.dtype, "PyTorch takes int64 indices alone"
        return array_api_strict.take_along_axis(array, indices, axis=axis)

    torch.take_along_axis = take_along_axis  # type: ignore[attr-defined]
    return torch


def cuda(*devices: tuple[int, int], name: str = "NVIDIA H100 80GB HBM3") -> Any:
    """Return ``torch`` as far as its devices go; each is (free, total) bytes."""
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: bool(devices),
            is_initialized=lambda: bool(devices),
            device_count=lambda: len(devices),
            mem_get_info=lambda index: devices[index],
            get_device_name=lambda: name,
            get_device_capability=lambda: (9, 0),
        )
    )
