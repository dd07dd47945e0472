"""Cases are found and read; one that is not well formed raises an error that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import frozen
from conformance.cases import Case, CaseError, Finding
from conformance.corpus import matches, selected
from conformance.loading import find, load, load_case
from conformance.revisions import CURRENT, listed

LOCK = Path(__file__).resolve().parents[2] / "schemas/lock.json"

GOOD: dict[str, Any] = {
    "why": "A note.",
    "profile": "toy/v1",
    "state": "torn",
    "records": [{"kind": "note", "t": {"float": "1.0"}, "text": "x"}],
    "findings": [{"rule": "run-start-missing", "line": 1, "pointer": ""}],
    "proves": {"accepts": ["model/kind-from-tag"], "rejects": ["rules/run-start-missing"]},
}


def written(root: Path, content: Any, name: str = "toy-v1/topic/name") -> Path:
    """Write a case with one note and return its folder."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b'{"kind":"note","t":1.0,"text":"x"}\n')
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "case.json").write_text(text, encoding="utf-8")
    return folder


def test_case_is_read(tmp_path: Path) -> None:
    """Each member of a case is read."""
    folder = written(tmp_path, {**GOOD, "options": {"max_line_bytes": 100}, "scope": "bundle"})
    (folder / "run.json").write_bytes(b"{}")
    (case,) = load(str(tmp_path))
    assert "toy-v1/topic/name" == case.name
    assert b'{"kind":"note","t":1.0,"text":"x"}\n' == case.data
    assert {"events.jsonl", "run.json"} == case.files.keys()
    assert (Finding(rule="run-start-missing", line=1, pointer=""),) == case.findings
    assert ("model/kind-from-tag",) == case.accepts
    assert (100, None) == (case.options.max_line_bytes, case.options.profile)
    assert "bundle" == case.scope


def test_cases_are_found_in_a_fixed_order(tmp_path: Path) -> None:
    """Folders come sorted by path; those without a description are skipped."""
    for name in ("b/x/two", "a/y/one", "a/x/three"):
        written(tmp_path, GOOD, name)
    (tmp_path / "a/z").mkdir()
    assert ["a/x/three", "a/y/one", "b/x/two"] == [
        str(Path(found).relative_to(tmp_path)) for found in find(str(tmp_path))
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"why": 7}, "why"),
        ({"state": "broken"}, "state"),
        ({"records": [{"t": 1.0}]}, "records/0/t"),
        ({"records": ["x"]}, "records/0"),
        ({"findings": [{"rule": "x", "line": True, "pointer": ""}]}, "findings/0/line"),
        ({"findings": [{"rule": "x", "line": 1}]}, "findings/0/pointer"),
        ({"findings": [{"rule": "x", "line": 1, "pointer": "", "message": "m"}]}, "findings/0/message"),
        ({"proves": {"rejects": [7]}}, "proves/rejects/0"),
        ({"options": {"limit": 7}}, "options"),
        ({"modes": {"lenient": {}}}, "modes/lenient"),
        ({"suppressed": {"x": "1"}}, "suppressed/x"),
        ({"expected": []}, "expected"),
    ],
)
def test_problem_in_a_description_is_named(tmp_path: Path, change: dict[str, Any], place: str) -> None:
    """The error names the file and the place in it."""
    folder = written(tmp_path, {**GOOD, **change})
    with pytest.raises(CaseError) as caught:
        load_case(str(folder), str(tmp_path))
    assert str(folder / "case.json") == caught.value.path
    assert place == caught.value.place


@pytest.mark.parametrize("key", sorted(GOOD))
def test_missing_key_is_named(tmp_path: Path, key: str) -> None:
    """Each required key is required."""
    folder = written(tmp_path, {name: value for name, value in GOOD.items() if name != key})
    with pytest.raises(CaseError, match=f"case.json: {key} is missing"):
        load_case(str(folder), str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"why":"a","why":"b"}', "[" * 100_000])
def test_description_that_is_not_an_object_is_refused(tmp_path: Path, text: str) -> None:
    """Anything but a JSON object with distinct keys raises CaseError."""
    folder = written(tmp_path, text)
    with pytest.raises(CaseError):
        load_case(str(folder), str(tmp_path))


def test_two_streams_are_refused(tmp_path: Path) -> None:
    """A case has one stream."""
    folder = written(tmp_path, GOOD)
    (folder / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(CaseError, match="must have one stream"):
        load_case(str(folder), str(tmp_path))


@pytest.mark.parametrize("revision", [revision for revision in listed() if revision != CURRENT])
def test_earlier_revisions_ask_what_they_asked(revision: str) -> None:
    """The list of an earlier revision is the one whose digest is locked, and its cases are those that it lists."""
    assert json.loads(LOCK.read_bytes())["corpus"][revision] == frozen.digest(revision)
    assert Path(frozen.path_of(revision)).read_text(encoding="utf-8") == frozen.text(revision)


def test_case_is_asked_in_its_revisions_only(tmp_path: Path) -> None:
    """A case that a later revision added, or whose answer it changed, is not one of the others."""
    written(tmp_path, {**GOOD, "since": "1.3"}, "a/b/new")
    written(tmp_path, {**GOOD, "until": "1.2"}, "a/b/old")
    written(tmp_path, GOOD, "a/b/same")
    found = {revision: [case.name for case in load(str(tmp_path), revision)] for revision in ("1.2", "1.3")}
    assert {"1.2": ["a/b/old", "a/b/same"], "1.3": ["a/b/new", "a/b/same"]} == found


@pytest.mark.parametrize(
    "pattern",
    ["toy-v1/step-*", "toy-v1/torn/", "kaun-v1/torn/cut-after-every-byte#cut-1*", "*/golden/*", "none/[a-m]*"],
)
def test_only_what_a_pattern_can_name_is_loaded(pattern: str, cases: list[Case]) -> None:
    """What is selected is what would be selected of all cases."""
    expected = [case.name for case in cases if matches(case, pattern)]
    assert expected
    assert expected == [case.name for case in selected([pattern])]
