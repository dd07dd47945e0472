"""The mutants of the Python package, and a sample of them."""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
import subprocess
from importlib.util import find_spec
from typing import TYPE_CHECKING

from conformance.mutation import instruments
from conformance.mutation.sites import Module
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.mutation.sites import Mutant

PACKAGE = os.path.join("reference", "python", "toyspec")
NOT_MUTATED = ("core/generated/", "data/", "version", "integrations/", "__main__")
"""What module names begin with that no test of the package can kill: generated code, and code for frameworks that the
tests of the package do not install."""
NEEDED = {
    "convert/aim_repos": "aim",
    "convert/destinations/mlflow_runs": "mlflow",
}
"""Modules that are little but calls of a package. Where it is not installed their tests are skipped; `nox -s interop`
installs it."""
_NAMES_ONLY = frozenset({"__all__", "__slots__"})


def module_names(root: str = ROOT) -> list[str]:
    """Return the name of each mutated module: its path in the package without the suffix."""
    package = os.path.join(root, PACKAGE)
    found = []
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), package).replace(os.sep, "/")
            if path.endswith(".py") and not path.startswith(NOT_MUTATED):
                found.append(path.removesuffix(".py"))
    return found


def mutated_names(root: str = ROOT) -> list[str]:
    """Return the names of the modules whose tests can run here: all but those of NEEDED without their package."""
    return [name for name in module_names(root) if name not in NEEDED or find_spec(NEEDED[name]) is not None]


def every_mutant(root: str = ROOT) -> Iterator[Mutant]:
    """Yield the mutants of all modules whose tests can run here."""
    for name in mutated_names(root):
        yield from loaded(name, root).mutants


def source_path(module: str, root: str = ROOT) -> str:
    """Return the path of the source of *module* in the tree *root*."""
    return os.path.join(root, PACKAGE, *f"{module}.py".split("/"))


def loaded(module: str, root: str = ROOT) -> Module:
    """Return the mutants of *module*."""
    with open(source_path(module, root), encoding="utf-8") as file:
        return _parsed(module, file.read())


@functools.cache
def _parsed(module: str, source: str) -> Module:
    """Return the mutants of *source*; to find those of the whole package takes a minute, and nothing changes them."""
    return Module(module, source)


def changed(module: Module, mutant: Mutant) -> str:
    """Return the source of *module* with the change of *mutant*."""
    return ast.unparse(module.mutated(mutant))


def is_asked(mutant: Mutant) -> bool:
    """Return whether *mutant* differs in more than a name for type checkers or the words of an error.

    A pattern of bytes that became one of text is left out: any use of it fails, so that it says nothing about tests.
    """
    is_wording = mutant.original.startswith("raise ") and mutant.operator == "constant"
    is_broken = "re.compile(b" in mutant.original and re.search(r"re\.compile\(['\"]b", mutant.mutated) is not None
    return mutant.function.rpartition(".")[2] not in _NAMES_ONLY and not is_wording and not is_broken


def sample(mutants: Sequence[Mutant], size: int | None, seed: str) -> list[Mutant]:
    """Return *size* of *mutants* in an order that *seed* and their names decide; all where *size* is None."""

    def digest(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}\0{mutant.key}".encode()).digest()

    return sorted(mutants, key=digest)[:size]


def commit() -> str:
    """Return the digest of the commit, "none" where there is no git tree."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return done.stdout.strip() or "none"


def marked(module: Module, offset: int) -> str:
    """Return the source of *module* with a mark before each statement; that of its first one has the index *offset*."""
    tree = instruments.marked(module, offset)
    place = 0
    while place < len(tree.body) and _is_head(tree.body[place]):
        place += 1
    tree.body[place:place] = ast.parse(f"from toyspec_marks import MARKS as {instruments.HITS}").body
    return ast.unparse(ast.fix_missing_locations(tree))


def functions(module: Module) -> list[str]:
    """Return the name of the function of each counted statement of *module*, by its number."""
    return [statement.function for statement in module.statements if statement.is_counted]


@functools.cache
def digest(module: Module) -> str:
    """Return what tells whether the statements of *module* are still those that were recorded."""
    return hashlib.sha256(ast.unparse(module.tree).encode()).hexdigest()[:16]


def _is_head(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
