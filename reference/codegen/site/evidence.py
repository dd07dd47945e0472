"""Finds the evidence for each statement: cases, tests, mutants and proven implementations."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codegen import sources
from conformance.corpus import selected
from conformance.mutants.all_mutants import ALL
from conformance.probes.question import ROLES
from conformance.probes.roles import questions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conformance.cases import Case
    from conformance.mutants.mutant import Mutant

PROVEN = "conformance/proven.json"
_TEST_FOLDERS = ("reference/python/tests", "conformance/tests")


@dataclass
class Evidence:
    """What there is to show about one statement."""

    accepts: dict[str, list[Case]] = field(default_factory=lambda: defaultdict(list))
    """The cases that have to be accepted, by their folder; a family has many in one."""
    rejects: dict[str, list[Case]] = field(default_factory=lambda: defaultdict(list))
    """The cases that must be refused, or that have findings about the statement."""
    roles: set[str] = field(default_factory=set)
    """The roles that are asked about it."""
    mutants: list[Mutant] = field(default_factory=list)
    """Implementations that are wrong in it and that the corpus tells."""
    tests: list[tuple[str, str]] = field(default_factory=list)
    """Tests of the tree that name it: path and name."""


def evidence() -> dict[str, Evidence]:
    """Return what there is by the id of the statement; a statement without any has an empty one."""
    found: dict[str, Evidence] = defaultdict(Evidence)
    for case in selected(()):
        roles = {question.role for question in questions(case, ROLES)}
        folder = case.name.partition("#")[0]
        for name in case.accepts:
            found[name].accepts[folder].append(case)
        for name in case.rejects:
            found[name].rejects[folder].append(case)
        for name in {*case.accepts, *case.rejects}:
            found[name].roles |= roles
    for mutant in ALL.values():
        found[mutant.proves].mutants.append(mutant)
    for name, path, test in _tests():
        found[name].tests.append((path, test))
    return found


def implementations() -> list[dict[str, Any]]:
    """Return what was proven for each implementation in the last run of all of them."""
    found: list[dict[str, Any]] = sources.load(sources.ROOT / PROVEN)["implementations"]
    return found


def _tests() -> Iterator[tuple[str, str, str]]:
    """Yield every statement that a mark ``proves`` names, with the path and the name of the test."""
    for folder in _TEST_FOLDERS:
        for path in sorted((sources.ROOT / folder).rglob("test_*.py")):
            tree = ast.parse(path.read_bytes(), str(path))
            for test in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
                for statement in _proven_by(test.decorator_list):
                    yield statement, path.relative_to(sources.ROOT).as_posix(), test.name


def _proven_by(decorators: Iterable[ast.expr]) -> Iterator[str]:
    for mark in decorators:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "proves":
            yield from (str(argument.value) for argument in mark.args if isinstance(argument, ast.Constant))
