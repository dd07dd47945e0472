"""The document for auditors: complete, and honest about what is missing."""

from __future__ import annotations

import json
from math import nan
from typing import TYPE_CHECKING

import pytest

import toyspec
from toyspec.agents import evidence
from toyspec.agents.evidence import evidence_of
from toyspec.core.command_line.main import main
from toyspec.core.generated.limits import MAX_LINE_BYTES

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


def test_records_beyond_the_limit_are_counted(audited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of many notes gives a document of bounded size, which says what is not in it."""
    monkeypatch.setattr(evidence, "_MOST_RECORDS", 0)
    found = evidence_of(audited)
    assert [] == found["decisions"]
    assert "0 metrics and 1 notes beyond the limits" in found["not_recorded"]


def test_lines_that_are_not_quoted_are_counted(audited: Path) -> None:
    """Of a damaged seal: one that is not a line of sha256sum, a second one of a file, one that may be cut off."""
    lines = [f"{digit * 64}  {name}\n" for digit, name in ("1a", "2b", "3a", "4c")]
    (audited / "SHA256SUMS").write_text("".join([*lines[:2], "\n", *lines[2:]])[:-1])
    found = evidence_of(audited)
    assert {"a": "1" * 64, "b": "2" * 64} == found["seal"]["files"]
    assert "3 lines of the seal" in found["not_recorded"][-1]


def test_seal_that_is_too_long_is_not_read(audited: Path) -> None:
    """As by a check: memory stays bounded, and the document says why it has no seal."""
    with (audited / "SHA256SUMS").open("wb") as file:
        file.truncate(MAX_LINE_BYTES + 1)
    found = evidence_of(audited)
    assert found["seal"] is None
    assert f"longer than {MAX_LINE_BYTES} bytes" in found["not_recorded"][-1]


def test_machine_of_each_process_is_listed(tmp_path: Path) -> None:
    """Each process says where it ran, in its own stream."""
    for rank, name in enumerate(["events.jsonl", "events.rank-1.jsonl"]):
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "rank": rank, "world_size": 2}
        (tmp_path / name).write_text(json.dumps(start | {"host": {"name": f"host-{rank}"}}) + "\n")
    machines = evidence_of(tmp_path)["machines"]
    assert [(0, "host-0"), (1, "host-1")] == [(each["rank"], each["host"]["name"]) for each in machines]


def test_document_is_the_same_until_the_run_changes(audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It quotes the seal, which covers every file: a log or a seal that changes makes another document."""

    def printed() -> str:
        assert 0 == main(["evidence", str(audited)])
        return capsys.readouterr().out

    toyspec.seal(audited)
    first = printed()
    assert first.isascii()
    assert ["events.jsonl", "notes.txt"] == list(json.loads(first)["seal"]["files"])
    assert ["code"] == json.loads(first)["not_recorded"]
    assert printed() == first
    (audited / "notes.txt").write_text("Beside\n")
    (audited / "SHA256SUMS").unlink()
    toyspec.seal(audited)
    second = printed()
    assert json.loads(first)["seal"] != json.loads(second)["seal"]
    log = audited / "events.jsonl"
    log.write_text(log.read_text().replace('"loss":3.0', '"loss":2.9'))
    assert printed() != second
