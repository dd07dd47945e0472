"""Which statements depend on a name of a module: a constant, a class, or a function called once for all tests."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from conformance.mutation.sites import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from conformance.mutation.sites import Module, Mutant, Statement

Numbers = dict[str, set[int]]
"""Numbers of statements in functions, by the name of their module."""
_ROOT = "toyspec"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES = frozenset({"body", "orelse", "finalbody", "handlers"})
_NOT_RUN = frozenset({"annotation", "returns"})


class Users:
    """Who uses the names of *modules*, over the imports between them."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._names = {name: _Names(module) for name, module in modules.items()}

    def affected(self, mutant: Mutant) -> Numbers:
        """Return the statements one of which a test executes that can notice *mutant*.

        Of a change in a function these are the statement itself, and those that use what a process computes once: a
        function that keeps its results, or a constant. What is executed at import is noticed where its name is used.
        """
        name = mutant.function.partition(".")[0]
        if mutant.statement == EVERYWHERE:
            return self._depending([(mutant.module, name)])
        found = self._depending(self._kept(mutant.module, name))
        found.setdefault(mutant.module, set()).add(mutant.statement)
        return found

    def _depending(self, names: Iterable[tuple[str, str]]) -> Numbers:
        """Return the statements in functions that use one of *names*, or a name that is made of one at import."""
        found: Numbers = defaultdict(set)
        waiting = list(names)
        seen = set(waiting)
        while waiting:
            module, name = waiting.pop()
            found[module] |= self._names[module].methods.get(name, set())
            for user, number, owner in self._uses(module, name):
                if number != EVERYWHERE:
                    found[user].add(number)
                if (number == EVERYWHERE or owner in self._names[user].kept) and (user, owner) not in seen:
                    seen.add((user, owner))
                    waiting.append((user, owner))
        return dict(found)

    def _kept(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Yield what is computed once with the function *name*: itself, or what calls it, directly or in its module."""
        waiting, seen = [name], {name}
        while waiting:
            called = waiting.pop()
            if called in self._names[module].kept:
                yield module, called
            for user, number, owner in self._uses(module, called):
                if number == EVERYWHERE or owner in self._names[user].kept:
                    yield user, owner
                elif user == module and owner not in seen:
                    seen.add(owner)
                    waiting.append(owner)

    def _uses(self, module: str, name: str) -> Iterator[tuple[str, int, str]]:
        """Yield module, number and top-level name of each statement that uses *name* of *module*."""
        if not name:
            # A statement without a name, as a loop: all of the module may depend on it.
            yield from ((module, number, "") for number in self._names[module].numbers)
            return
        yield from ((module, *use) for use in self._names[module].uses.get(name, ()))
        for user, alias in self._aliases.get((module, name), ()):
            yield from ((user, *use) for use in self._names[user].uses.get(alias, ()))

    @cached_property
    def _aliases(self) -> Mapping[tuple[str, str], list[tuple[str, str]]]:
        """What names a name of a module in other modules: the name of such a module, and the text that it is there."""
        found = defaultdict(list)
        for user, names in self._names.items():
            for module, name, alias in names.imported():
                if module in self._names:
                    found[module, name].append((user, alias))
                    continue
                # The module itself is imported, and its names are attributes.
                submodule = f"{module.removesuffix('/__init__')}/{name}".removeprefix("__init__/")
                for text in names.uses if submodule in self._names else ():
                    if text.startswith(f"{alias}."):
                        found[submodule, text.partition(".")[2]].append((user, text))
        return found


class _Names:
    """The names that one module uses."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def uses(self) -> Mapping[str, list[tuple[int, str]]]:
        """Number and top-level name of each statement that uses a name, by the name; ``a.b`` is one too."""
        found = defaultdict(list)
        for statement in self._module.statements:
            use = statement.number, statement.function.partition(".")[0]
            for text in sorted({text for part in _own_parts(statement) for text in _read(part)}):
                found[text].append(use)
        return found

    @cached_property
    def methods(self) -> Mapping[str, set[int]]:
        """The numbers of the statements in methods, by the name of the class."""
        classes = {node.name for node in self._module.tree.body if isinstance(node, ast.ClassDef)}
        found = defaultdict(set)
        for statement in self._module.statements:
            name = statement.function.partition(".")[0]
            if name in classes and statement.number != EVERYWHERE:
                found[name].add(statement.number)
        return found

    @cached_property
    def kept(self) -> frozenset[str]:
        """The functions that keep their results."""
        functions = (node for node in self._module.tree.body if isinstance(node, _FUNCTIONS))
        return frozenset(node.name for node in functions if any(map(_keeps, node.decorator_list)))

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The numbers of all statements in functions."""
        return frozenset(each.number for each in self._module.statements) - {EVERYWHERE}

    def imported(self) -> Iterator[tuple[str, str, str]]:
        """Yield module, name and name here of what is imported from the package."""
        for node in ast.walk(self._module.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _ROOT:
                path = (node.module or "").partition(".")[2].replace(".", "/")
                for alias in node.names:
                    yield path or "__init__", alias.name, alias.asname or alias.name


def _own_parts(statement: Statement) -> Iterator[ast.AST]:
    """Yield the expressions of *statement*, without those of the statements in it."""
    node = statement.node
    if isinstance(node, _FUNCTIONS):
        yield from node.decorator_list
        yield node.args
        return
    for field, value in ast.iter_fields(node):
        if field not in _BODIES | _NOT_RUN:
            yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))


def _read(node: ast.AST) -> Iterator[str]:
    """Yield the names that *node* reads, and ``a.b`` for each attribute of a name."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            yield f"{part.value.id}.{part.attr}"


def _keeps(decorator: ast.expr) -> bool:
    """Return whether *decorator* lets a function keep its results."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] in ("cache", "lru_cache")
