"""A copy of the oracle that notes which of its statements a question executes."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from conformance.mutation import copies
from conformance.mutation.sites import EVERYWHERE, Module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

    from conformance.mutation.sites import Mutant

HITS = "__hits__"
"""The name, in each copy, of the bytes in which statements leave a mark."""


class Instruments:
    """The codes of all modules with a mark before each statement."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.codes: dict[str, CodeType] = {}
        self._offsets: dict[str, int] = {}
        count = 0
        for module in modules:
            self._offsets[module.name] = count
            self.codes[module.name] = copies.compiled(module.name, marked(module, count))
            count += sum(statement.is_counted for statement in module.statements)
        self.hits = bytearray(count)

    def mark(self, mutant: Mutant) -> int:
        """Return the index of the mark of the statement that *mutant* changes, or EVERYWHERE."""
        if mutant.statement == EVERYWHERE:
            return EVERYWHERE
        return self.offset(mutant.module) + mutant.statement

    def offset(self, module: str) -> int:
        """Return the index of the mark of the first statement of *module*."""
        return self._offsets[module]


def marked(module: Module, offset: int) -> ast.Module:
    """Return the tree of *module*; the mark of its first statement has the index *offset*."""
    # The statements of the copy are found at the same places as those of the original.
    tree, memo = _copied(module.tree)
    numbers = {id(memo[id(found.node)]): found.number for found in module.statements if found.is_counted}
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [part for inner in block for part in _with_mark(inner, numbers, offset)])
    return ast.fix_missing_locations(tree)


def _copied(tree: ast.Module) -> tuple[ast.Module, dict[int, ast.AST]]:
    memo: dict[int, ast.AST] = {}
    return copy.deepcopy(tree, memo), memo


def _with_mark(node: ast.stmt, numbers: dict[int, int], offset: int) -> list[ast.stmt]:
    if id(node) not in numbers:
        return [node]
    return [*ast.parse(f"{HITS}[{numbers[id(node)] + offset}] = 1").body, node]
