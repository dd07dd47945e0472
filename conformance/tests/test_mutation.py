"""Mutation testing: the operators do what they say, a known mutant is killed, a survivor and a stale entry fail."""

from __future__ import annotations

import ast
import json
import os

import pytest

from conformance.mutation import copies, operators, survivors
from conformance.mutation.instruments import HITS, Instruments
from conformance.mutation.memory import Memory
from conformance.mutation.score import Findings, page, report
from conformance.mutation.sites import EVERYWHERE, Module
from conformance.mutation.survivors import Listed, Survivors, SurvivorsError
from conformance.mutation.sweep import Corpus, Fate, Sweep, all_modules

pytestmark = pytest.mark.slow

CASES = ("toy-v1/time-goes-backwards", "toy-v1/step-skipped", "metrics-v1/golden")


def variants(operator: str, expression: str) -> set[str]:
    """Return what *operator* makes of *expression* and what is in it."""
    return {
        ast.unparse(found)
        for node in ast.walk(ast.parse(expression, mode="eval").body)
        for found in operators.OPERATORS[operator](node)
    }


@pytest.mark.parametrize(
    ("operator", "expression", "expected"),
    [
        ("comparison", "a < b", {"a >= b"}),
        ("comparison", "0 <= a < 9", {"0 > a < 9", "0 <= a >= 9"}),
        ("boundary", "a < b", {"a <= b"}),
        ("boundary", "a == b", set()),
        ("membership", "a in {1, 2}", {"a not in {1, 2}", "{2}", "{1}"}),
        ("boolean", "a and b", {"a or b", "a", "b"}),
        ("boolean", "a if b else c", {"a", "c"}),
        ("boolean", "f(x, strict=True)", {"False"}),
        ("arithmetic", "a + b", {"a - b"}),
        ("arithmetic", "'a' + b", set()),
        ("constant", "0", {"1", "-1"}),
        ("constant", "'a'", {"'a~'"}),
        ("slice", "a[1:b]", {"a[:b]", "a[1 + 1:b]", "a[1:]", "a[1:b - 1]"}),
        ("default", "a.get(b, c)", {"a.get(b)"}),
        ("call", "sorted(a, key=b)", {"list(a)"}),
    ],
)
def test_an_operator_makes_what_it_says(operator: str, expression: str, expected: set[str]) -> None:
    """Each operator makes exactly the expressions that its name promises."""
    assert variants(operator, expression) == expected


def test_patterns_lose_their_end_accept_other_digits_and_count_differently() -> None:
    """Regular expressions are changed in their classes, counts and end."""
    found = set(operators.patterns(r"[0-9]{2}[+-](?![\s\S])"))
    assert r"[\d]{2}[+-](?![\s\S])" in found
    assert r"[0-9]{1}[+-](?![\s\S])" in found
    assert r"[0-9]{2}[-](?![\s\S])" in found
    assert r"[0-9]{2}[+-]" in found
    assert r"[0-9]{2}[+-]$" in found


SOURCE = '''
"""A module."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os
LIMIT = 3

def f(a: int = 1) -> int:
    """Return something."""
    b = a + 1
    try:
        b += 2
    except (KeyError, ValueError):
        raise RefusedError("a message")
    return b

def g():
    yield 1
'''


@pytest.fixture(scope="module")
def module() -> Module:
    """Return a small module with all that the operators on statements need."""
    return Module("lines", SOURCE)


def changes(module: Module, operator: str) -> set[tuple[str, str]]:
    """Return the statements of *module* before and after a change by *operator*."""
    return {(mutant.original, mutant.mutated) for mutant in module.mutants if mutant.operator == operator}


def test_statements_are_deleted_and_functions_left_early(module: Module) -> None:
    """Simple statements are deleted, and functions return before their first statement and without a value."""
    assert ("b = a + 1", "pass") in changes(module, "statement deletion")
    assert ("b = a + 1", "return") in changes(module, "early return")
    assert ("return b", "return None") in changes(module, "early return")
    assert ("b += 2", "b = 2") in changes(module, "arithmetic")


def test_handlers_catch_nothing_or_less(module: Module) -> None:
    """A handler catches nothing, or one exception less."""
    assert changes(module, "exception") == {
        ("except (KeyError, ValueError):", f"except {types}:") for types in ("()", "(KeyError,)", "(ValueError,)")
    }


def test_a_generator_without_its_yield_stays_a_generator(module: Module) -> None:
    """The deletion of the only yield leaves an empty generator, not a function that returns None."""
    mutant = next(mutant for mutant in module.mutants if mutant.function == "g" and mutant.mutated == "if False:")
    names: dict[str, object] = {}
    exec(compile(module.mutated(mutant), "mutant", "exec"), names)
    assert list(names["g"]()) == []  # type: ignore[operator]


def test_a_mutant_changes_one_statement_and_leaves_the_module_as_it_was(module: Module) -> None:
    """No mutant is the module itself, and none changes the tree for the next one."""
    before = ast.unparse(module.tree)
    for mutant in module.mutants:
        assert ast.unparse(module.mutated(mutant)) != before
    assert ast.unparse(module.tree) == before


def test_marks_tell_which_statements_were_executed() -> None:
    """The marks of a writer are set by a writer, and not by a reader."""
    modules = all_modules()
    instruments = Instruments(modules)
    adapter = copies.load(instruments.codes, {HITS: instruments.hits})()
    writing = next(module for module in modules if module.name == "writing")
    mutants = {mutant.function: mutant for mutant in writing.mutants if mutant.statement != EVERYWHERE}
    instruments.hits[:] = bytes(len(instruments.hits))
    adapter.answer({"role": "reader", "stream": b'{"kind":"note","t":1}\n', "mode": "salvage"})
    assert not instruments.hits[instruments.mark(mutants["Writing.record"])]
    adapter.answer({"role": "writer", "profile": "metrics/v1", "records": []})
    assert instruments.hits[instruments.mark(mutants["Writing.stream"])]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Corpus, dict[str, Module], Memory]:
    """Return the questions about a few cases, the modules, and an empty memory."""
    modules, memory = all_modules(), Memory(str(tmp_path_factory.mktemp("memory")))
    return Corpus(modules, memory, 1, CASES), {module.name: module for module in modules}, memory


def fates(sweep: tuple[Corpus, dict[str, Module], Memory], *changed: tuple[str, str, str]) -> list[Fate]:
    """Return what becomes of mutants: module, function, changed source."""
    corpus, modules, memory = sweep
    mutants = [
        mutant
        for name, function, mutated in changed
        for mutant in modules[name].mutants
        if mutant.function == function and mutant.mutated == mutated
    ]
    assert len(mutants) == len(changed)
    found: list[Fate] = []
    Sweep(list(modules.values()), corpus, memory).run(mutants, 2, found.append)
    return sorted(found, key=lambda fate: mutants.index(fate.mutant))


LATE = ("stream_rules", "ToyRules.time", "if self.t is not None and t >= self.t:")
SURVIVOR = ("bundles", "is_safe_run_id", "return None")


def test_the_oracle_answers_these_questions_right(sweep: tuple[Corpus, dict[str, Module], Memory]) -> None:
    """Without a change the copy of the oracle passes."""
    assert not sweep[0].problems
    assert len(sweep[0].questions) > 50


def test_a_known_mutant_is_killed_and_remembered(sweep: tuple[Corpus, dict[str, Module], Memory]) -> None:
    """A clock that may not stand still is caught, and the next sweep need not ask again."""
    found = fates(sweep, LATE)
    assert found[0].reason is not None
    corpus, _, memory = sweep
    assert memory.is_killed(found[0].mutant.key, frozenset(corpus.digests)) == found[0].reason


def test_a_mutant_that_never_ends_is_killed(sweep: tuple[Corpus, dict[str, Module], Memory]) -> None:
    """An endless loop is ended by the deadline of its question."""
    endless = next(
        mutant
        for mutant in sweep[1]["tables"].mutants
        if mutant.function == "resolved"
        and mutant.original.startswith("found = definitions")
        and mutant.mutated == "pass"
    )
    ended: list[Fate] = []
    Sweep(list(sweep[1].values()), sweep[0], sweep[2]).run([endless], 1, ended.append)
    assert ended[0].reason == "no answer in time"


def test_a_mutant_that_no_question_shows_survives(sweep: tuple[Corpus, dict[str, Module], Memory]) -> None:
    """A survivor is reported and fails, unless it is listed."""
    found = fates(sweep, SURVIVOR)
    assert found[0].reason is None
    nothing = Survivors({})
    findings = Findings(found, nothing, [])
    assert not findings.is_good
    assert any(line.startswith("SURVIVED  bundles: is_safe_run_id") for line in report(findings))
    listed = Survivors({found[0].mutant.place: Listed(found[0].mutant.place, "permitted", "a test")})
    assert Findings(found, listed, []).is_good
    assert "**0 of 0** mutants are killed: -." in list(page(Findings(found, listed, []), listed))


def test_a_stale_entry_fails(sweep: tuple[Corpus, dict[str, Module], Memory]) -> None:
    """A listed mutant that is killed fails, as does an entry that names no mutant."""
    found = fates(sweep, LATE)
    place = found[0].mutant.place
    listed = Survivors({place: Listed(place, "equivalent", "it is not")})
    assert Findings(found, listed, []).stale == found
    assert any(line.startswith("STALE") for line in report(Findings(found, listed, [])))
    gone = Survivors({("lines", "f", "a", "b", 1): Listed(("lines", "f", "a", "b", 1), "equivalent", "x")})
    assert not Findings([], gone, gone.unknown([found[0].mutant])).is_good


def test_the_list_is_well_formed_and_names_mutants() -> None:
    """The committed list can be read, and each entry names a mutant of today."""
    listed = survivors.load()
    mutants = [mutant for module in all_modules() for mutant in module.mutants]
    assert [entry.place for entry in listed.unknown(mutants)] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "harmless"}, "verdict"),
        ({"reason": " "}, "reason is empty"),
        ({"file": "nothing"}, "not mutated"),
        ({"note": 1}, "expected the keys"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path: str, change: dict[str, object], message: str) -> None:
    """An entry without verdict or reason is refused with a message that says what is wrong."""
    entry = survivors.as_json(Module("lines", SOURCE).mutants[0], "equivalent", "a reason") | change
    path = os.path.join(tmp_path, "survivors.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"survivors": [entry]}, file)
    with pytest.raises(SurvivorsError, match=message):
        survivors.load(path)
