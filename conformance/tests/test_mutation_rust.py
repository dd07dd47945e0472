"""Mutants of the Rust crate: how they are named, chosen, built into a copy, asked and remembered."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conformance.corpus import questions_of, selected
from conformance.mutation import survivors
from conformance.mutation.rust import command, listing, replay, workshop
from conformance.mutation.rust.findings import Fate, Memory
from conformance.mutation.rust.listing import ListingError, Mutant
from conformance.mutation.rust.replay import Recording, RecordingError
from conformance.mutation.rust.score import page
from conformance.mutation.score import Findings
from conformance.mutation.subjects import ROOT
from conformance.mutation.survivors import Survivors
from conformance.probes.question import ROLES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SOURCE = "fn is_one(n: u8) -> bool {\n    // \u00e4\n    n == 1\n}\n"
CASES = ("toy-v1/step-skipped", "metrics-v1/golden")


def entry(genre: str, start: tuple[int, int], end: tuple[int, int], replacement: str) -> dict[str, Any]:
    """Return one entry of the list of cargo-mutants."""
    span = {name: {"line": line, "column": column} for name, (line, column) in (("start", start), ("end", end))}
    function = {"function_name": "is_one", "return_type": "-> bool"}
    return {"file": "src/one.rs", "genre": genre, "function": function, "span": span, "replacement": replacement}


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    """Return a folder with the source of a crate."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.rs").write_text(SOURCE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def mutants(crate: Path) -> list[Mutant]:
    """Return two mutants of it."""
    entries = [entry("BinaryOperator", (3, 7), (3, 9), "!="), entry("FnValue", (3, 5), (3, 11), "true")]
    return list(listing.mutants_of(entries, str(crate)))


def test_a_mutant_changes_what_cargo_mutants_names(mutants: list[Mutant], crate: Path) -> None:
    """Lines and columns are counted from 1, in characters."""
    operator, value = mutants
    assert SOURCE.replace("==", "!=") == operator.source(str(crate))
    assert SOURCE.replace("n == 1", "true") == value.source(str(crate))


def test_a_mutant_is_named_by_its_source(mutants: list[Mutant], crate: Path) -> None:
    """The name stays when lines are added above, and equal mutants are counted."""
    assert ("one", "is_one", "n == 1", "n != 1", 1) == mutants[0].place
    assert ("one", "is_one", "is_one -> bool", "true", 1) == mutants[1].place
    (crate / "src" / "one.rs").write_text(f"\n{SOURCE}", encoding="utf-8")
    moved = entry("BinaryOperator", (4, 7), (4, 9), "!=")
    first, second = listing.mutants_of([moved, moved], str(crate))
    assert mutants[0].key == first.key
    assert 2 == second.occurrence


def test_a_sample_is_always_the_same_and_grows_by_more_mutants(mutants: list[Mutant]) -> None:
    """The order depends on the names alone."""
    assert listing.sample(mutants, None) == listing.sample(mutants[::-1], None)
    assert listing.sample(mutants, None)[:1] == listing.sample(mutants, 1)


def test_a_missing_cargo_mutants_is_said_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader need not search for it."""
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'error: no such command: `mutants`' >&2\nexit 101\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(ListingError, match="run `cargo install cargo-mutants --locked`"):
        listing.listed()


def test_a_file_that_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    """Cargo builds what has a new time."""
    source, target = tmp_path / "a", tmp_path / "b"
    (source / "src").mkdir(parents=True)
    (source / "src" / "lib.rs").write_text("one")
    (source / "target").mkdir()
    (source / "target" / "big").write_text("")
    workshop._copy_newer(str(source), str(target))
    before = (target / "src" / "lib.rs").stat().st_mtime_ns
    workshop._copy_newer(str(source), str(target))
    assert before == (target / "src" / "lib.rs").stat().st_mtime_ns
    (source / "src" / "lib.rs").unlink()
    workshop._copy_newer(str(source), str(target))
    assert [] == [path.name for path in target.rglob("*") if path.is_file()]


def adapter(folder: Path, name: str, change: str = "") -> str:
    """Write an adapter that answers as the oracle does, after the statement *change*; return its path."""
    path = folder / name
    lines = (
        f"#!{sys.executable}",
        "import sys",
        f"sys.path.insert(0, {ROOT!r})",
        "from conformance.oracle import adapter, reading, writing",
        change,
        "sys.argv[0] = 'oracle'",
        "sys.exit(adapter.run(adapter.Oracle(), sys.argv[1:]))",
    )
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return str(path)


def test_a_replayed_mutant_is_killed_by_a_question_and_an_equal_program_is_not(tmp_path: Path) -> None:
    """Requests without files are replayed; others are played."""
    questions = questions_of(selected(CASES), ROLES)
    right = adapter(tmp_path, "right")
    recording = Recording(right, questions, str(tmp_path))
    assert recording.killer(right, "reader") is None
    empty: dict[str, object] = {"profile": None, "state": None, "valid": True, "findings": [], "suppressed": {}}
    wrong = f"adapter.Oracle.check = lambda *_: {empty}"
    question, reason = recording.killer(adapter(tmp_path, "wrong", wrong), "reader") or ("", "")
    assert "[checker]" in question
    assert reason
    silent = adapter(tmp_path, "silent", "adapter.Oracle.check = lambda *_: sys.exit(1)")
    assert "the program ended" in (recording.killer(silent, "reader") or ("", ""))[1]


def test_a_recording_is_used_again_for_the_same_program_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that goes on does not ask the unchanged program again."""
    questions = questions_of(selected(CASES[:1]), ["checker"])
    right = adapter(tmp_path, "right")
    size = Recording(right, questions, str(tmp_path)).size
    with monkeypatch.context() as patched:
        patched.setattr(replay, "_recorded", lambda *_: pytest.fail("asked again"))
        again = Recording(right, questions, str(tmp_path))
        assert (size, None) == (again.size, again.killer(right, "reader"))
        assert again.killer(adapter(tmp_path, "wrong", "adapter.Oracle.check = lambda *_: sys.exit(1)"), "reader")
    other = adapter(tmp_path, "other", "pass  # the same in another way")
    assert Recording(other, questions, str(tmp_path)).killer(other, "reader") is None


def test_a_mutant_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its question counts as failed."""
    monkeypatch.setattr(replay, "_SECONDS", 1.0)
    recording = Recording(adapter(tmp_path, "right"), questions_of(selected(CASES[:1]), ["checker"]), str(tmp_path))
    hangs = adapter(tmp_path, "hangs", "import time; adapter.Oracle.check = lambda *_: time.sleep(60)")
    assert "no answer within 1 seconds" == (recording.killer(hangs, "reader") or ("", ""))[1]


def test_a_crate_that_fails_unchanged_is_not_mutated(tmp_path: Path) -> None:
    """Each of its mutants would count as killed."""
    wrong = adapter(tmp_path, "wrong", "adapter.Oracle.check = lambda *_: sys.exit(1)")
    with pytest.raises(RecordingError, match="checker"):
        Recording(wrong, questions_of(selected(CASES[:1]), ["checker"]), str(tmp_path))


def test_findings_hold_while_what_they_depend_on_stays(mutants: list[Mutant], tmp_path: Path) -> None:
    """All depend on the function, a kill on its question; what survives knows the questions that it was asked."""
    memory = Memory(str(tmp_path))
    killed, survived = Fate(mutants[0], "corpus", "wrong"), Fate(mutants[1], None, None, 7)
    memory.keep_questions("corpus 1", ["b", "a"])
    memory.note(killed, "a case [reader]", "corpus 1")
    memory.note(survived, None, "corpus 1")
    again = Memory(str(tmp_path))
    assert killed == again.fate(mutants[0], {"a case [reader]"})
    assert again.fate(mutants[0], {"another [reader]"}) is None
    assert survived == again.fate(mutants[1], set())
    assert {"a", "b"} == again.questions(again.asked(mutants[1]))
    assert again.fate(replace(mutants[0], digest="another"), {"a case [reader]"}) is None


def test_the_page_separates_what_the_corpus_kills_from_what_only_tests_kill(mutants: list[Mutant]) -> None:
    """The score counts both, and leaves out what is listed."""
    fates = [Fate(mutants[0], "corpus", "wrong"), Fate(mutants[1], "tests", "wrong")]
    listed = Survivors({})
    text = "\n".join(page(fates, Findings(fates, listed, []), listed, 2500))
    assert "**2 of 2** mutants are killed: 100.0 %. The sample has 2 of 2,500 mutants, without" in text
    assert "| one.rs | 2 | 1 | 1 | 0 | 100.0 % |" in text


def test_the_list_is_well_formed() -> None:
    """Every entry has a verdict and a reason, and none is listed twice."""
    with open(command.PATH, encoding="utf-8") as file:
        modules = {item["file"] for item in json.load(file)["survivors"]}
    survivors.load(command.PATH, modules)
