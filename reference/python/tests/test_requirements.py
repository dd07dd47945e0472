"""Every observable statement and every rule is proven: by cases of the corpus, or by a test that names it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cases import Case
from conformance.loading import load
from conformance.session_cases import load as load_sessions

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = json.loads((ROOT / "spec/requirements.json").read_bytes())["requirements"]
BY_ID = {entry["id"]: entry for entry in REQUIREMENTS}
OBSERVABLE = [entry["id"] for entry in REQUIREMENTS if "observable" in entry]
RULES = [rule["id"] for rule in json.loads((ROOT / "schemas/rules.json").read_bytes())["rules"]]
# A case gives bytes to those who read. Tests show what a writer gets and what a directory looks like.
TESTED = frozenset({"writer", "canonical-writer", "follower"})
DIRECTORIES = frozenset({"bundle/walk", "bundle/walk-regular", "reading/no-writes"})


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Return the cases of the corpus."""
    return list(load())


@pytest.fixture(scope="module")
def accepted(cases: list[Case]) -> frozenset[str]:
    """Return the statements and rules that some case accepts."""
    return frozenset(name for case in cases for name in case.accepts)


@pytest.fixture(scope="module")
def rejected(cases: list[Case]) -> frozenset[str]:
    """Return the statements and rules that some case rejects."""
    return frozenset(name for case in cases for name in case.rejects)


@pytest.fixture(scope="module")
def tested() -> frozenset[str]:
    """Return the statements that some test or some session of a writer names."""
    folders = ("reference/python/tests", "conformance/tests")
    by_tests = {
        statement for folder in folders for path in (ROOT / folder).glob("test_*.py") for statement in named_in(path)
    }
    return frozenset(by_tests.union(*((*session.accepts, *session.rejects) for session in load_sessions())))


def named_in(path: Path) -> Iterator[str]:
    """Yield the arguments of each mark ``proves`` in the Python file *path*, without importing it."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "proves":
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


@pytest.mark.parametrize("statement", OBSERVABLE)
def test_statement_is_proven(
    statement: str, accepted: frozenset[str], rejected: frozenset[str], tested: frozenset[str]
) -> None:
    """A statement has a case that is accepted and one that is rejected; those about writing may have a test."""
    may_be_tested = statement in DIRECTORIES or TESTED.issuperset(BY_ID[statement]["applies"])
    if not (may_be_tested and statement in tested):
        assert statement in accepted, "no case accepts it"
        assert statement in rejected, "no case rejects it"


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_proven(rule: str, accepted: frozenset[str], rejected: frozenset[str]) -> None:
    """A rule has a case that breaks it, and one that comes close and does not."""
    assert f"rules/{rule}" in rejected
    assert f"rules/{rule}" in accepted


def test_named_statements_exist(accepted: frozenset[str], rejected: frozenset[str], tested: frozenset[str]) -> None:
    """No case and no test names a statement that there is none of."""
    assert set() == (accepted | rejected | tested) - BY_ID.keys()
