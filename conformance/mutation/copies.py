"""Loads the oracle a second time, under other names, from changed trees of its modules."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

from conformance.mutation.subjects import ADAPTER_CLASS, MODULES, source_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType

PREFIX = "mutated."
"""What the names of the copies begin with."""


def load(codes: Mapping[str, CodeType], given: Mapping[str, Any] | None = None) -> Any:
    """Return the class of adapters made of *codes*, one for each module; *given* are names that all of them have."""
    forget()
    finder = _Finder(codes, given or {})
    sys.meta_path.insert(0, finder)
    try:
        return getattr(importlib.import_module(PREFIX + MODULES["adapter"]), ADAPTER_CLASS)
    finally:
        sys.meta_path.remove(finder)


def forget() -> None:
    """Forget the copies that were loaded before."""
    for name in [name for name in sys.modules if f"{name}.".startswith(PREFIX)]:
        del sys.modules[name]


def compiled(module: str, tree: ast.Module) -> CodeType:
    """Return the code of *module* with imports of the oracle led to the copies."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and _is_copied(node):
            node.module = PREFIX + node.module
    return compile(tree, source_path(module), "exec", dont_inherit=True)


def _is_copied(node: ast.ImportFrom) -> bool:
    names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return not names.isdisjoint(MODULES.values())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the copies, and empty packages around them."""

    def __init__(self, codes: Mapping[str, CodeType], given: Mapping[str, Any]) -> None:
        self._codes = {PREFIX + MODULES[short]: (source_path(short), code) for short, code in codes.items()}
        self._given = given

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where *fullname* is loaded from, if it is a copy."""
        del path, target
        if not f"{fullname}.".startswith(PREFIX):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname not in self._codes)

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of a copy."""
        if module.__name__ in self._codes:
            module.__file__, code = self._codes[module.__name__]
            module.__dict__.update(self._given)
            exec(code, module.__dict__)  # noqa: S102  (this is what mutation testing is)
