"""Families are expanded into the right bytes and expectations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.cases import Case, CaseError, Finding
from conformance.loading import load

LINES = [
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"x"}\n',
    '{"kind":"note","t":0.0,"text":"é"}\n'.encode(),
    b'{"kind":"run_end","t":0.0,"reason":"completed"}\n',
]
DATA = b"".join(LINES)
RECORDS = [
    {"kind": "run_start", "schema": "toy/v1", "t": {"float": "0.0"}, "run_id": "x"},
    {"kind": "note", "t": {"float": "0.0"}, "text": "é"},
    {"kind": "run_end", "t": {"float": "0.0"}, "reason": "completed"},
]


def expanded(root: Path, family: str, data: bytes = DATA, **changes: Any) -> dict[str, Case]:
    """Return the members of a family of the stream *data* by the last part of their names."""
    folder = root / "toy-v1/topic/x"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(data)
    content = {
        "why": "A family.",
        "family": family,
        "profile": "toy/v1",
        "state": "complete",
        "records": RECORDS,
        "findings": [],
        "proves": {"accepts": ["a/b"]},
        **changes,
    }
    (folder / "family.json").write_text(json.dumps(content), encoding="utf-8")
    return {case.name.partition("#")[2]: case for case in load(str(root))}


def shown(case: Case) -> tuple[str | None, str | None, int, list[str]]:
    """Return profile, state, number of records and findings of *case*."""
    return case.profile, case.state, len(case.records), [f"{f.rule}@{f.line}" for f in case.findings]


def test_stream_is_cut_after_each_byte(tmp_path: Path) -> None:
    """Each cut commits the lines before it; the whole stream is complete."""
    members = expanded(tmp_path, "truncations")
    assert len(DATA) + 1 == len(members)
    first, second = len(LINES[0]), len(LINES[0]) + len(LINES[1])
    assert ("toy/v1", "torn", 0, ["stream-empty@1"]) == shown(members["cut-0"])
    assert ("toy/v1", "torn", 0, ["unterminated-line@1"]) == shown(members[f"cut-{first - 1}"])
    assert ("toy/v1", "torn", 1, ["run-end-missing@1"]) == shown(members[f"cut-{first}"])
    assert ("toy/v1", "torn", 1, ["unterminated-line@2"]) == shown(members[f"cut-{first + 1}"])
    assert ("toy/v1", "torn", 2, ["run-end-missing@2"]) == shown(members[f"cut-{second}"])
    assert ("toy/v1", "torn", 2, ["unterminated-line@3"]) == shown(members[f"cut-{len(DATA) - 1}"])
    assert ("toy/v1", "complete", 3, []) == shown(members[f"cut-{len(DATA)}"])
    assert all(DATA[: int(name[4:])] == case.data for name, case in members.items())


def test_variants_are_edited(tmp_path: Path) -> None:
    """Each edit changes the bytes, and its other members change the expectations."""
    variants = [
        {
            "name": "put",
            "edits": [{"find": "é", "put": "ab", "times": 2}],
            "records": [{"record": 1, "pointer": "/text", "value": "abab"}],
        },
        {
            "name": "left-out",
            "edits": [{"find": ',"text":"é"', "put": ""}],
            "records": [{"record": 1, "pointer": "/text"}],
            "findings": [{"rule": "missing-key", "line": 2, "pointer": "/text"}],
        },
        {
            "name": "stretched",
            "edits": [{"find": '"kind":"note",', "stretch_to": 100}],
            "state": "damaged",
            "records": [{"record": 1, "readable": False}],
            "proves": {"rejects": ["c/d"]},
        },
        {
            "name": "repeated",
            "edits": [{"repeat_line": 2, "times": 3}],
            "suppressed": {"x": 1},
            "findings": [{"rule": "x", "lines": [2, 4], "pointer": ""}],
        },
    ]
    members = expanded(tmp_path, "variants", parameters={"variants": variants})
    assert LINES[1].replace("é".encode(), b"abab") == members["put"].data.splitlines(keepends=True)[1]
    assert "abab" == members["put"].records[1]["text"]
    assert ("toy/v1", "complete", 3, ["missing-key@2"]) == shown(members["left-out"])
    assert "text" not in members["left-out"].records[1]
    assert 100 == len(members["stretched"].data.splitlines()[1])
    assert ("toy/v1", "damaged", 2, []) == shown(members["stretched"])
    assert (("c/d",), ()) == (members["stretched"].rejects, members["stretched"].accepts)
    assert ("toy/v1", "complete", 5, ["x@2", "x@3", "x@4"]) == shown(members["repeated"])
    assert LINES[0] + LINES[1] * 3 + LINES[2] == members["repeated"].data
    assert ({"x": 1}, ("a/b",)) == (members["repeated"].suppressed, members["repeated"].accepts)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("truncations", {"state": "torn"}),
        ("truncations", {"findings": [{"rule": "x", "line": 1, "pointer": ""}]}),
        ("glued", {"records": RECORDS[:2]}),
        ("nul-tails", {}),
        ("nul-tails", {"parameters": {"nul_bytes": 1}}),
        ("variants", {"parameters": {"variants": [{}]}}),
        ("variants", {"parameters": {"variants": [{"name": "a", "edits": [{"find": "missing", "put": ""}]}]}}),
        ("variants", {"parameters": {"variants": [{"name": "a", "edits": [{"find": "kind", "put": ""}]}]}}),
        ("variants", {"parameters": {"variants": [{"name": "a", "edits": [], "finding": []}]}}),
        ("other", {}),
    ],
)
def test_family_that_does_not_fit_is_refused(tmp_path: Path, family: str, changes: dict[str, Any]) -> None:
    """Invalid parameters raise CaseError, which names the file."""
    with pytest.raises(CaseError, match=r"family\.json"):
        expanded(tmp_path, family, **changes)


def test_members_differ_in_what_is_said_only(tmp_path: Path) -> None:
    """A member has the folder, the options and the reason of its base."""
    members = expanded(tmp_path, "truncations", options={"max_line_bytes": 99})
    assert {99} == {case.options.max_line_bytes for case in members.values()}
    assert {"A family."} == {case.why for case in members.values()}
    assert Finding(rule="stream-empty", line=1, pointer="") in members["cut-0"].findings
