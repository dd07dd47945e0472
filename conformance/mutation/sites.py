"""Finds every place of a module where an operator applies, and changes one of them at a time."""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.mutation import changes, operators
from conformance.mutation.subjects import MESSAGES, is_mutated, source_path

if TYPE_CHECKING:
    from collections.abc import Iterator


_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANNOTATIONS = frozenset({"annotation", "returns", "decorator_list", "body", "orelse", "finalbody", "handlers"})
EVERYWHERE = -1
"""In place of the number of a statement: it is executed when the module is imported."""


@dataclass(frozen=True)
class Mutant(changes.Mutant):
    """One change of one module. Its place is known by numbers that hold for the same source only.

    The original source is the statement; of a statement with a body, its first line.
    """

    statement: int
    """Number of the statement, as :func:`statements` counts, or EVERYWHERE."""
    index: int
    """Which change of the module it is."""


@dataclass(frozen=True)
class _Change:
    """What to put into one field of one node."""

    operator: str
    owner: ast.AST
    field: str
    index: int | None
    """Index in the field where that is a list."""
    put: Any

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the tree for a while."""
        before = getattr(self.owner, self.field)
        after = self.put
        if self.index is not None:
            after = [*before[: self.index], *self.put, *before[self.index + 1 :]]
        setattr(self.owner, self.field, after)
        try:
            yield
        finally:
            setattr(self.owner, self.field, before)


@dataclass(frozen=True)
class Statement:
    """One statement with its place."""

    node: ast.stmt | ast.excepthandler
    owner: ast.AST
    field: str
    index: int
    function: str
    number: int
    """Counts the statements in functions; EVERYWHERE outside of them. The head of a function has the number of
    what the function begins with, a handler that of its ``try``."""
    is_counted: bool
    """True where the number is that of this statement itself."""
    is_first: bool
    """True where a function begins with it, docstring aside."""


class Module:
    """The source of one module and all its mutants."""

    def __init__(self, name: str, source: str | None = None) -> None:
        """Take the module *name* of the oracle, or any *source*."""
        if source is None:
            with open(source_path(name), encoding="utf-8") as file:
                source = file.read()
        self.name = name
        self.tree = ast.parse(source)
        self.statements = list(statements(self.tree))
        self._changes: list[_Change] = []
        self.mutants = list(self._mutants())

    def unchanged(self) -> ast.Module:
        """Return a copy of the tree."""
        return copy.deepcopy(self.tree)

    def mutated(self, mutant: Mutant) -> ast.Module:
        """Return the tree of the module with the change of *mutant*."""
        with self._changes[mutant.index].applied():
            return ast.fix_missing_locations(copy.deepcopy(self.tree))

    def users(self, name: str) -> frozenset[int]:
        """Return the numbers of the statements in functions that use the constant *name*; none if others do too."""
        found: set[int] = set()
        for statement in self.statements:
            is_definition = isinstance(statement.node, (*_FUNCTIONS, ast.ClassDef)) and not statement.is_counted
            if not _uses(_own_parts(statement.node) if is_definition else [statement.node], name):
                continue
            if is_definition or statement.number == EVERYWHERE:
                return frozenset()
            found.add(statement.number)
        return frozenset(found)

    def imports(self, name: str) -> bool:
        """Return whether the module imports *name* from another one."""
        return any(
            isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
            for node in ast.walk(self.tree)
        )

    def _mutants(self) -> Iterator[Mutant]:
        seen: Counter[tuple[str, ...]] = Counter()
        for statement in self.statements:
            if not is_mutated(self.name, statement.function):
                continue
            original, texts = head(statement.node), set()
            for change in _changes(statement):
                with change.applied():
                    mutated = head(getattr(statement.owner, statement.field)[statement.index])
                if mutated == original or mutated in texts:
                    continue
                texts.add(mutated)
                place = (statement.function, original, mutated)
                seen[place] += 1
                yield Mutant(
                    module=self.name,
                    function=statement.function,
                    operator=change.operator,
                    original=original,
                    mutated=mutated,
                    occurrence=seen[place],
                    statement=statement.number,
                    index=len(self._changes),
                )
                self._changes.append(change)


def statements(tree: ast.Module) -> Iterator[Statement]:
    """Yield every statement of a module but imports and what only a type checker reads."""
    yield from _statements(tree, "", EVERYWHERE, itertools.count())


def head(node: ast.AST) -> str:
    """Return the source of a statement; of one with a body, only what comes before it."""
    if not hasattr(node, "body"):
        return ast.unparse(node)
    bare = copy.copy(node)
    for field in ("body", "orelse", "finalbody", "handlers", "decorator_list"):
        if hasattr(node, field):
            setattr(bare, field, [])
    if isinstance(node, ast.Try):
        return "try:"
    if isinstance(node, ast.ExceptHandler):
        return f"except {ast.unparse(node.type)}:" if node.type else "except:"
    return ast.unparse(bare).strip()


def _statements(owner: ast.AST, function: str, number: int, counter: Iterator[int]) -> Iterator[Statement]:
    """Yield the statements in *owner*, which has the number *number* itself."""
    in_function = isinstance(owner, _FUNCTIONS) or number != EVERYWHERE
    for field in ("body", "orelse", "finalbody", "handlers"):
        begun = not (field == "body" and isinstance(owner, _FUNCTIONS))
        for index, node in enumerate(getattr(owner, field, [])):
            if _is_skipped(node):
                continue
            name = _named(node, function, in_function=in_function)
            is_counted = in_function and isinstance(node, ast.stmt)
            own = next(counter) if is_counted else number
            inner = list(_statements(node, name, own, counter))
            if isinstance(node, _FUNCTIONS) and not is_counted:
                own = next((found.number for found in inner if found.is_counted), EVERYWHERE)
            yield Statement(node, owner, field, index, name, own, is_counted=is_counted, is_first=not begun)
            begun = True
            yield from inner


def _own_parts(node: ast.AST) -> list[ast.AST]:
    """Return what is executed where a function or a class is defined, and not when it is called."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *node.decorator_list]
    assert isinstance(node, _FUNCTIONS)
    defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
    return [*defaults, *node.decorator_list]


def _uses(nodes: list[ast.AST], name: str) -> bool:
    parts = (part for node in nodes for part in ast.walk(node))
    return any(isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load) for part in parts)


def _named(node: ast.AST, function: str, *, in_function: bool) -> str:
    own = ""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        own = node.name
    elif not in_function and isinstance(node, (ast.Assign, ast.AnnAssign)):
        own = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    return ".".join(part for part in (function, own) if part)


def _is_skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id[0].isupper() and not node.targets[0].id.isupper()  # the name of a type
    if isinstance(node, ast.Raise) and node.exc is not None and ast.unparse(node.exc).startswith("AssertionError("):
        return True
    # An assertion tells readers and type checkers what always holds.
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.Assert, ast.Pass, ast.Nonlocal, ast.Global))


def _changes(statement: Statement) -> Iterator[_Change]:
    if statement.is_counted:
        yield from _statement_changes(statement)
    if isinstance(statement.node, ast.ExceptHandler):
        yield from _handler_changes(statement.node)
    yield from _condition_changes(statement.node)
    is_constant = statement.number == EVERYWHERE and isinstance(statement.node, (ast.Assign, ast.AnnAssign))
    for owner, field, index, node in _expressions(statement.node):
        if is_constant or (isinstance(statement.node, ast.For) and field == "iter"):
            for put in operators.shortened(node):
                yield _Change("membership", owner, field, index, put if index is None else [put])
        for name, operator in operators.OPERATORS.items():
            for put in operator(node):
                yield _Change(name, owner, field, index, put if index is None else [put])


def _statement_changes(statement: Statement) -> Iterator[_Change]:
    node, place = statement.node, (statement.owner, statement.field, statement.index)
    if statement.is_first and not isinstance(node, ast.Return):
        yield _Change("early return", *place, [ast.Return(None), node])
    if isinstance(node, _SIMPLE):
        kept = ast.If(ast.Constant(value=False), [node], [])  # a generator stays one without its only yield
        has_yield = any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(node))
        yield _Change("statement deletion", *place, [kept if has_yield else ast.Pass()])
    if isinstance(node, ast.Return) and node.value is not None and not _is_no(node.value):
        yield _Change("early return", node, "value", None, ast.Constant(None))
    if isinstance(node, ast.AugAssign):
        yield _Change("arithmetic", *place, [ast.Assign([node.target], node.value, lineno=node.lineno)])
        other = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd}.get(type(node.op))
        if other is not None:
            yield _Change("arithmetic", node, "op", None, other())


def _handler_changes(node: ast.ExceptHandler) -> Iterator[_Change]:
    yield _Change("exception", node, "type", None, ast.Tuple([], ast.Load()))
    if isinstance(node.type, ast.Tuple):
        for shorter in operators.shortened(node.type):
            yield _Change("exception", node, "type", None, shorter)


def _condition_changes(node: ast.AST) -> Iterator[_Change]:
    """Decide the condition of a statement or a comprehension for good."""
    if isinstance(node, (ast.If, ast.While)):
        for value in (True, False):
            yield _Change("boolean", node, "test", None, ast.Constant(value))
    if isinstance(node, ast.With):
        for item in node.items:
            if ast.unparse(item.context_expr).startswith("contextlib.suppress("):
                nothing = ast.parse("contextlib.nullcontext()", mode="eval").body
                yield _Change("exception", item, "context_expr", None, nothing)
    for _, _, _, inner in _expressions(node):
        for generator in getattr(inner, "generators", []):
            for index in range(len(generator.ifs)):
                yield _Change("boolean", generator, "ifs", index, [])


def _expressions(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield owner, field, index and node of each expression in *node*, but not in its body nor in messages."""
    for field, value in ast.iter_fields(node):
        if field in _ANNOTATIONS and not (field in {"body", "orelse"} and isinstance(value, ast.expr)):
            continue
        for index, inner in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(inner, ast.AST) or _is_message(inner) or isinstance(inner, (ast.FormattedValue,)):
                if isinstance(inner, ast.FormattedValue):
                    yield inner, "value", None, inner.value
                    yield from _expressions(inner.value)
                continue
            if not isinstance(node, ast.JoinedStr) and not _is_pattern(node, inner):
                yield node, field, index, inner
            yield from _expressions(inner)


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MESSAGES


def _is_pattern(owner: ast.AST, node: ast.AST) -> bool:
    return isinstance(owner, ast.Call) and ast.unparse(owner.func) == "re.compile" and node in owner.args


def _is_no(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)
