"""The changes that make mutants of expressions; each yields what may replace one node."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_INVERTED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.In: ast.NotIn, ast.NotIn: ast.In}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_CLASS = re.compile(r"\[[^\]]*\]")
_BRACES = re.compile(r"\{(\d+)(?:,(\d+))?\}")
_END = r"(?![\s\S])"
_MARK = "~"


def comparison(node: ast.AST) -> Iterator[ast.expr]:
    """Negate one comparison."""
    yield from _with_operators(node, _NEGATED)


def boundary(node: ast.AST) -> Iterator[ast.expr]:
    """Let a comparison include its bound, or leave it out."""
    yield from _with_operators(node, _MOVED)


def membership(node: ast.AST) -> Iterator[ast.expr]:
    """Invert ``in``, or leave out one member of a set."""
    yield from _with_operators(node, _INVERTED)
    if isinstance(node, ast.Set):
        yield from _shortened(node)
    if isinstance(node, ast.Compare) and isinstance(node.ops[-1], (ast.In, ast.NotIn)):
        for shorter in _shortened(node.comparators[-1]):
            if not isinstance(shorter, ast.Set):
                yield ast.Compare(node.left, node.ops, [*node.comparators[:-1], shorter])


def boolean(node: ast.AST) -> Iterator[ast.expr]:
    """Exchange ``and`` and ``or``, leave out one operand or ``not``, decide a condition."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)


def arithmetic(node: ast.AST) -> Iterator[ast.expr]:
    """Replace an arithmetic operator, or leave out a sign."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def constant(node: ast.AST) -> Iterator[ast.expr]:
    """Change a number by one, or a text."""
    if isinstance(node, ast.Call) and _name(node.func) == "re.compile" and isinstance(node.args[0], ast.Constant):
        for pattern in patterns(str(node.args[0].value)):
            yield ast.Call(node.func, [ast.Constant(pattern), *node.args[1:]], node.keywords)
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return
    value = node.value
    if isinstance(value, int):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1) if value else ast.UnaryOp(ast.USub(), ast.Constant(1))
    elif isinstance(value, float):
        yield ast.Constant(value * 2)
        yield ast.Constant(value / 2)
    elif isinstance(value, str):
        yield ast.Constant(value + _MARK)
    elif isinstance(value, bytes):
        yield ast.Constant(value + _MARK.encode())


def bounds(node: ast.AST) -> Iterator[ast.expr]:
    """Leave out a bound of a slice, or move it by one."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return
    one = ast.Constant(1)
    lower, upper, step = node.slice.lower, node.slice.upper, node.slice.step
    changed: list[tuple[ast.expr | None, ast.expr | None]] = []
    if lower is not None:
        changed += [(None, upper), (ast.BinOp(lower, ast.Add(), one), upper)]
    if upper is not None:
        changed += [(lower, None), (lower, ast.BinOp(upper, ast.Sub(), one))]
    if step is not None:
        yield ast.Subscript(node.value, ast.Slice(lower, upper, None), node.ctx)
    for low, high in changed:
        yield ast.Subscript(node.value, ast.Slice(low, high, step), node.ctx)


def default(node: ast.AST) -> Iterator[ast.expr]:
    """Leave out the default of ``get``, ``next`` and the like, or one named argument."""
    if not isinstance(node, ast.Call):
        return
    name = _name(node.func)
    if name.endswith((".get", ".pop")) and len(node.args) == 2:
        yield ast.Call(node.func, node.args[:1], node.keywords)
    if name == "next" and len(node.args) == 2:
        yield ast.Call(node.func, node.args[:1], node.keywords)
    for index in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, [*node.keywords[:index], *node.keywords[index + 1 :]])


def call(node: ast.AST) -> Iterator[ast.expr]:
    """Sort nothing; exchange ``min`` and ``max``, ``any`` and ``all``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return
    if node.func.id in _SWAPPED:
        yield ast.Call(ast.Name(_SWAPPED[node.func.id], ast.Load()), node.args, node.keywords)
    if node.func.id == "sorted":
        yield ast.Call(ast.Name("list", ast.Load()), node.args, [])
    if node.func.id == "reversed":
        yield node.args[0]


OPERATORS: dict[str, Callable[[ast.AST], Iterator[ast.expr]]] = {
    "comparison": comparison,
    "boundary": boundary,
    "membership": membership,
    "boolean": boolean,
    "arithmetic": arithmetic,
    "constant": constant,
    "slice": bounds,
    "default": default,
    "call": call,
}
"""Every operator on expressions by its name. Those on statements are in ``sites.py``."""


def patterns(pattern: str) -> Iterator[str]:
    """Yield regular expressions that differ from *pattern* in one place."""
    for found in _CLASS.finditer(pattern):
        inside = found.group()[1:-1]
        if "0-9" in inside:
            yield _spliced(pattern, found, f"[{inside.replace('0-9', chr(92) + 'd')}]")
        for part in re.findall(r"\\.|.-.|.", inside.removeprefix("^")):
            rest = inside.replace(part, "", 1)
            if rest.strip("^"):
                yield _spliced(pattern, found, f"[{rest}]")
    for found in _BRACES.finditer(pattern):
        low, high = found.groups()
        if high is None:
            yield _spliced(pattern, found, f"{{{int(low) - 1}}}")
            yield _spliced(pattern, found, f"{{{low},}}")
        else:
            yield _spliced(pattern, found, f"{{{low},{int(high) - 1}}}")
            yield _spliced(pattern, found, f"{{{low},{int(high) + 1}}}")
    if pattern.endswith(_END):
        yield pattern.removesuffix(_END)
        yield pattern.removesuffix(_END) + "$"


def shortened(node: ast.AST) -> Iterator[ast.expr]:
    """Yield a display of values with one of them left out: a set, list, tuple or dictionary."""
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index in range(len(node.keys)):
            yield ast.Dict(
                [*node.keys[:index], *node.keys[index + 1 :]], [*node.values[:index], *node.values[index + 1 :]]
            )
    elif isinstance(node, ast.expr):
        yield from _shortened(node)


def _shortened(node: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(node, (ast.Set, ast.Tuple, ast.List)):
        return
    for index in range(len(node.elts)):
        rest = [*node.elts[:index], *node.elts[index + 1 :]]
        if rest and isinstance(node, ast.Set):
            yield ast.Set(rest)
        elif isinstance(node, ast.List):
            yield ast.List(rest, ast.Load())
        else:
            yield ast.Tuple(rest, ast.Load())


def _with_operators(node: ast.AST, others: Mapping[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[ast.expr]:
    if not isinstance(node, ast.Compare):
        return
    for index, operator in enumerate(node.ops):
        if type(operator) in others:
            changed = [*node.ops[:index], others[type(operator)](), *node.ops[index + 1 :]]
            yield ast.Compare(node.left, changed, node.comparators)


def _is_text(node: ast.BinOp) -> bool:
    """Return whether *node* joins texts or lists, which no other operator does."""
    return any(
        isinstance(side, (ast.JoinedStr, ast.List))
        or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
        for side in (node.left, node.right)
    )


def _name(function: ast.expr) -> str:
    return ast.unparse(function)


def _spliced(pattern: str, found: re.Match[str], by: str) -> str:
    return pattern[: found.start()] + by + pattern[found.end() :]
