"""Decides which tests another load on the machine may disturb: those that touch processes, locks or time."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

_MODULES = frozenset({"concurrent", "fcntl", "multiprocessing", "msvcrt", "signal", "threading", "time"})
_CALLS = frozenset({"Popen", "fork", "forkpty", "kill", "killpg"})
_NO_CLOCK = frozenset({"gmtime", "localtime", "mktime", "strftime", "strptime", "struct_time"})
"""What `time` has that only computes."""
_TOUCH = "(touches)"
"""Takes the place of a name that touches what is looked for."""


def touching(path: Path) -> frozenset[str]:
    """Return the definitions of the file at *path* that touch processes, locks or time, and the tests among them.

    Helpers count where they are used, in the file itself and in the modules beside it, fixtures too: a test that calls
    a function that waits waits itself. What the package does by itself counts where it is asked for worker processes.
    """
    return _touching(path, frozenset())


def _touching(path: Path, above: frozenset[Path]) -> frozenset[str]:
    if path in above or not path.is_file():
        return frozenset()
    return _found(path, above | {path})


@functools.cache
def _found(path: Path, above: frozenset[Path]) -> frozenset[str]:
    parsed = _parsed(path)
    found = _imported(parsed.imports, path, above)
    fixtures = _shared_fixtures(path, above)
    references = parsed.references
    while True:
        more = {name for name, used in references.items() if name not in found and used & (found | fixtures | {_TOUCH})}
        if not more:
            break
        found |= more
    return frozenset(references) if found & parsed.autouse else frozenset(found)


class _Parsed(NamedTuple):
    """What a file defines and imports, which does not depend on who asks."""

    imports: list[tuple[str, list[ast.alias]]]
    """Modules that names are imported from, and the names."""
    references: dict[str, set[str]]
    """What each definition uses."""
    autouse: set[str]
    """The fixtures that every test uses."""


@functools.cache
def _parsed(path: Path) -> _Parsed:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {name: node for node in tree.body for name in _defined(node)}
    imports = [
        (node.module, node.names)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    references = {name: _references(node) for name, node in parts.items()}
    return _Parsed(imports, references, {name for name, node in parts.items() if _is_autouse(node)})


def _imported(imports: list[tuple[str, list[ast.alias]]], path: Path, above: frozenset[Path]) -> set[str]:
    """Return the names of *imports* that touch what is looked for."""
    found: set[str] = set()
    for module, names in imports:
        if module.partition(".")[0] in _MODULES:
            found |= {each.asname or each.name for each in names if each.name not in _NO_CLOCK}
        elif "." not in module:
            helper = frozenset().union(*(_touching(each / f"{module}.py", above) for each in _folders(path)))
            found |= {each.asname or each.name for each in names if each.name in helper}
    return found


def _shared_fixtures(path: Path, above: frozenset[Path]) -> frozenset[str]:
    """Return the fixtures for all tests of the folder of *path* that touch what is looked for."""
    return frozenset().union(*(_touching(each / "conftest.py", above) for each in _folders(path)))


def _folders(path: Path) -> list[Path]:
    """Return the folders in which the tests at *path* find their helpers."""
    return [path.parent, *(each for each in path.parents if each.name == "tests" and each != path.parent)]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _references(node: ast.stmt) -> set[str]:
    """Return the names that *node* uses, with a mark where it touches processes, locks or time itself."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
        if _touches(each):
            found.add(_TOUCH)
    return found


def _touches(node: ast.AST) -> bool:
    """Return whether *node* itself touches processes, locks or time."""
    if isinstance(node, ast.Attribute):
        is_of_module = isinstance(node.value, ast.Name) and node.value.id in _MODULES
        return node.attr in _CALLS or (is_of_module and node.attr not in _NO_CLOCK)
    if isinstance(node, ast.Name):
        return node.id == "Popen"
    if isinstance(node, ast.keyword):
        return node.arg == "workers"
    return isinstance(node, ast.Constant) and node.value == "--workers"


def _is_autouse(node: ast.stmt) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any("autouse=True" in ast.unparse(each) for each in decorators)
