"""The document for auditors: complete, honest about what is missing, and verified against the run."""

from __future__ import annotations

import json
from math import nan
from typing import TYPE_CHECKING

import jsonschema
import pytest

import toyspec
from toyspec.agents import evidence
from toyspec.agents.evidence import differences, evidence_of
from toyspec.core.command_line.main import main
from toyspec.core.files import read_resource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """Return a run with data, notes and an artifact."""
    with toyspec.start_run(tmp_path, run_id="a", git=None, config={"lr": 0.5}, data=[{"name": "books"}]) as run:
        for step in range(1, 6):
            run.log({"loss": nan if step == 2 else 3.0 / step}, step=step)
        run.note("We stop here <script>.", topic="decision", by={"kind": "human", "name": "Ada"})
    (tmp_path / "a" / "notes.txt").write_text("beside\n")
    return tmp_path / "a"


def test_document_has_what_is_asked(audited: Path) -> None:
    """Facts, metrics, decisions and digests are there; what is missing is listed."""
    found = evidence_of(audited)
    schema = json.loads(read_resource("schemas", "answers", "v1", "evidence.json"))
    jsonschema.Draft202012Validator(schema).validate(found)
    loss = found["metrics"]["loss"]
    assert (5, 1, 3.0, 0.6, 5) == tuple(loss[name] for name in ("count", "nan", "first", "best", "best_step"))
    assert ("a", "completed", 0.5) == (found["run"]["run_id"], found["end"]["reason"], found["settings"]["lr"])
    assert [{"name": "books"}] == found["data"]
    (note,) = found["decisions"]
    assert {"kind": "human", "name": "Ada"} == note["by"]
    assert ["events.jsonl", "notes.txt"] == [file["path"] for file in found["files"]]
    assert {"code", "seal"} <= set(found["not_recorded"])
    assert "data" not in found["not_recorded"]


def test_machine_of_each_process_is_listed(tmp_path: Path) -> None:
    """Each process says where it ran, in its own stream."""
    for rank, name in enumerate(["events.jsonl", "events.rank-1.jsonl"]):
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "rank": rank, "world_size": 2}
        (tmp_path / name).write_text(json.dumps(start | {"host": {"name": f"host-{rank}"}}) + "\n")
    machines = evidence_of(tmp_path)["machines"]
    assert [(0, "host-0"), (1, "host-1")] == [(each["rank"], each["host"]["name"]) for each in machines]


def test_records_beyond_the_limit_are_counted(audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of many notes gives a document of bounded size, which says what is not in it."""
    monkeypatch.setattr(evidence, "_MOST_RECORDS", 0)
    found = evidence_of(audited)
    assert [] == found["decisions"]
    assert "0 metrics and 1 notes beyond the limits" in found["not_recorded"]


@pytest.mark.parametrize("change", ["none", "file", "log", "added"])
def test_document_is_verified(audited: Path, change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A document holds until the log or a file of the run changes."""
    file = tmp_path / "evidence.json"
    assert 0 == main(["evidence", str(audited), "--json"])
    file.write_text(capsys.readouterr().out)
    assert file.read_text().isascii()
    if change == "file":
        (audited / "notes.txt").write_text("Beside\n")
    elif change == "log":
        log = audited / "events.jsonl"
        log.write_text(log.read_text().replace('"loss":3.0', '"loss":2.9'))
    elif change == "added":
        (audited / "more.txt").write_text("")
    capsys.readouterr()
    assert (0 if change == "none" else 1) == main(["evidence", str(audited), "--verify", str(file)])
    output = capsys.readouterr().out
    assert {"none": "it holds", "file": "/files/1/sha256", "log": "/metrics/loss/first", "added": "/files"}[
        change
    ] in output


def test_differences_tell_types_apart() -> None:
    """A missing member, another value and another type each have their place."""
    assert ["/a~1b", "/c/0"] == differences({"a/b": 1, "c": [True]}, {"c": [1]})
    assert [] == differences({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})


def test_wrong_use(audited: Path, tmp_path: Path) -> None:
    """Something else than a document, no run, and no folder to write to are wrong usage."""
    (tmp_path / "other.json").write_text("{}")
    assert 2 == main(["evidence", str(audited), "--verify", str(tmp_path / "other.json")])
    assert 2 == main(["evidence", str(audited), "--verify", str(tmp_path / "none.json")])
    assert 2 == main(["evidence", str(tmp_path / "none"), "--json"])
    assert 2 == main(["evidence", str(audited)])
