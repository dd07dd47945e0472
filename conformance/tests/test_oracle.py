"""The oracle against the corpus, and the mutants that are made of it."""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from conformance import first_questions
from conformance.cases import Case
from conformance.corpus import questions_of
from conformance.inside import Inside
from conformance.kill_score import kill_all, report
from conformance.loading import CASES
from conformance.mutants.all_mutants import ALL
from conformance.mutants.rules import NOT_POSSIBLE
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.probes.question import ROLES, Question, Stage
from conformance.registry import ROOT
from conformance.revisions import CURRENT, listed
from conformance.session_cases import SESSIONS, load

# Observable statements without a mutant, each with the reason.
WITHOUT_MUTANT = {
    "encoding/integer-safe": "SHOULD NOT",
    "encoding/no-lone-surrogate": "half a pair cannot be sent as JSON",
    "stream/regions-nest": "SHOULD",
    "stream/final-step-of-values": "MAY: both ways are right, as its case shows",
    "stream/metrics-steps": "SHOULD",
    "stream/metrics-wall-time": "SHOULD NOT",
    "bundle/directory-name": "SHOULD; the request names the directory",
    "bundle/sidecar-object": "adapters are not asked to write sidecars",
    "bundle/walk": "an adapter is asked about one directory with one stream",
    "bundle/walk-regular": "an adapter is asked about one directory with one stream",
    "reading/total": "hangs and dies break it, and are listed with the protocol",
    "reading/v0": "SHOULD",
    "writing/schema-declared": "closed and resumed sessions show it by the records that come back",
    "toy/run_start/git-omitted": "the adapter decides what it is given as git",
    "toy/run_start/os-lower-case": "SHOULD",
    "toy/run_start/started-at-utc": "SHOULD",
    "kaun/run/version-written": "adapters are not asked to write sidecars",
}


def errors(asked: Iterable[Question], folder: Path) -> list[str]:
    """Return what the oracle answers wrong."""
    oracle = Oracle()
    stage = Stage(Inside(oracle), lambda: tempfile.mkdtemp(dir=folder), oracle.hello())
    return [f"{question.name}: {reason}" for question in asked for reason in question.play(stage)]


@pytest.mark.slow
def test_oracle_passes_the_core(tmp_path: Path) -> None:
    """The implementation that mutants are made of answers the questions that kill all of them."""
    assert [] == errors(chain.from_iterable(first_questions.parts(ROLES, CURRENT)), tmp_path)


@pytest.mark.slow
@pytest.mark.long  # CI asks it the core, above
def test_oracle_is_right(plain_cases: list[Case], tmp_path: Path) -> None:
    """The implementation that mutants are made of, and that reads what writers wrote, passes every plain case."""
    small = [case for case in plain_cases if len(case.data) < 100_000]
    assert [] == errors(questions_of((*small, *load()), ROLES), tmp_path)


def test_every_rule_has_mutants() -> None:
    """Each rule has a mutant without it, in each profile that can break it."""
    wanted = {
        (rule, profile)
        for rule, entry in tables.RULES.items()
        for profile in entry["profiles"]
        if (rule, profile) not in NOT_POSSIBLE
    } | {(rule, None) for rule, entry in tables.RULES.items() if not entry["profiles"]}
    found = {(getattr(mutant.make, "rule", ""), getattr(mutant.make, "profile", "")) for mutant in ALL.values()} - {
        ("", "")
    }
    assert wanted == found


def test_every_statement_has_an_mutant_or_a_reason() -> None:
    """Each observable statement is broken by a mutant, or has a reason why not."""
    import json

    statements = json.loads(Path(ROOT, "spec/requirements.json").read_text())["requirements"]
    observable = {entry["id"] for entry in statements if "observable" in entry}
    broken = {mutant.proves for mutant in ALL.values()}
    assert set() == broken - {entry["id"] for entry in statements}
    assert observable - broken == WITHOUT_MUTANT.keys()


def test_survivor_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A surviving mutant is shown with its defect, and lowers the score."""
    from dataclasses import replace

    harmless = replace(ALL["first-key-wins"], make=type("Harmless", (Oracle,), {"__doc__": "Is right."}))
    monkeypatch.setitem(ALL, "harmless", harmless)
    lines = list(report(kill_all(["harmless"])))
    assert lines[0] == "SURVIVED  harmless: Is right."
    assert lines[-1] == "kill score: 0 of 1 mutants"


def test_nothing_here_imports_an_implementation() -> None:
    """Runner, corpus and mutants need jsonschema and the standard library only."""
    allowed = {"conformance", "__future__", "jsonschema"} | set(__import__("sys").stdlib_module_names)
    found = {}
    for path in Path(ROOT, "conformance").rglob("*.py"):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found.update({name: path.name for name in names if name.partition(".")[0] not in allowed})
    assert {} == found


def test_sessions_are_well_formed() -> None:
    """Every session can be loaded, has a reason, proves a statement and has a unique name."""
    sessions = {session.name: session for revision in listed() for session in load(revision=revision)}.values()
    assert len(sessions) == sum("session.json" in files for _, _, files in os.walk(SESSIONS))
    assert [] == [session.name for session in sessions if not session.why.endswith(".")]
    assert [] == [session.name for session in sessions if not (*session.accepts, *session.rejects)]
    assert [] == [session.name for session in sessions if os.path.exists(os.path.join(CASES, session.name))]
