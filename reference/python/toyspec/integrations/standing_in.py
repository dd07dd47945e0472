"""Lets a program that imports a tracker get its stand-in: ``toyspec run --as wandb -- python train.py``."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from email.message import Message
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

AS: Final = "TOYSPEC_AS"
"""The environment variable that names the trackers, with commas."""
ROOT: Final = "TOYSPEC_ROOT"
"""The environment variable that names the directory of all runs."""
TRACKERS: Final[dict[str, dict[str, str]]] = {
    "wandb": {"wandb": "wandb"},
    "mlflow": {"mlflow": "mlflow"},
    "tensorboard": {
        "torch.utils.tensorboard": "summary_writer",
        "tensorboardX": "summary_writer",
        "tensorboard": "summary_writer",
    },
}
"""By tracker, the packages that stand-ins take the place of, each with the module that does."""
VERSIONS: Final = {"wandb": "0.31.0", "mlflow": "3.17.2", "tensorboard": "2.20.0", "tensorboardX": "2.6.4"}
"""The versions that programs find: those whose names the stand-ins have."""


def take_places(trackers: Iterable[str]) -> None:
    """Let imports of *trackers*, and of all modules in them, get the stand-ins from now on."""
    modules = {package: module for name in trackers for package, module in TRACKERS[name].items()}
    sys.meta_path.insert(0, _Finder(modules))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of trackers, their parts and their versions."""

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of a tracker; None for others."""
        del path, target
        return ModuleSpec(fullname, self, origin=__name__, is_package=True) if self._package(fullname) else None

    def _package(self, name: str) -> str | None:
        return next((each for each in self._modules if name == each or name.startswith(f"{each}.")), None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in, or for a part of the package a module with what the stand-in has."""
        package = self._package(spec.name)
        assert package is not None, "find_spec has found it"
        module = importlib.import_module(f"toyspec.integrations.{self._modules[package]}")
        return module if spec.name == package else _Part(spec.name, module, spec.name.removeprefix(f"{package}."))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is ready."""

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """Return what says the version of a tracker that is asked for by its name."""
        name = getattr(context, "name", None)
        return [_Installed(name)] if name in VERSIONS and self._package(name) else []


class _Part(ModuleType):
    """A module of a tracker's package: what its stand-in has by the same name, else what is left out."""

    def __init__(self, name: str, substitute: ModuleType, path: str) -> None:
        super().__init__(name)
        self.__dict__.update(_substitute=substitute, _name=path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in vars(self._substitute):
            return getattr(self._substitute, name)
        return getattr(self._substitute.part(self._name), name)


class _Installed(Distribution):
    """The version of one tracker."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def metadata(self) -> Any:
        """Name and version."""
        message = Message()
        message["Name"], message["Version"] = self._name, VERSIONS[self._name]
        return message

    def read_text(self, filename: str) -> str | None:
        """Return None: it has no files."""
        del filename
        return None

    def locate_file(self, path: str | PathLike[str]) -> Any:
        """Return *path*: it has no files."""
        return path
