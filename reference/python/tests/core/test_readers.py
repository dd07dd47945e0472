"""Readers of other packages: one that is installed reads its logs in every command, and none where ours is sure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from toyspec import check, list_runs, read
from toyspec.core.reading import readers

MODULE = """
from toyspec.core.reading.readers import dialects


class Reader:
    order = 1.0
    asked = []

    def recognise(self, head, path, asked):
        self.asked.append(path)
        if not head.startswith(b"ZLOG"):
            return None
        table = {
            "name": "zlog",
            "title": "Zlog",
            "rank": "program",
            "form": {"type": "pattern", "patterns": ["at (?P<at>[0-9]+) got (?P<gain>[0-9.]+)"]},
            "recognize": {"keys": ["at"]},
            "step": ["at"],
        }
        return dialects().opened(dialects().made(table), head)


READER = Reader()
"""
LOG = "ZLOG 1\n" + "".join(f"at {step} got {step / 4}\n" for step in range(3))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install a package that brings a reader, and return the paths that it is asked about."""
    place = tmp_path / "site"
    information = place / "zlog-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: zlog\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[toyspec.readers]\nzlog = zlog_reader:READER\n")
    (place / "zlog_reader.py").write_text(MODULE)
    monkeypatch.syspath_prepend(place)
    readers._others.cache_clear()
    monkeypatch.delitem(sys.modules, "zlog_reader", raising=False)
    yield import_module("zlog_reader").READER.asked
    readers._others.cache_clear()


def test_reader_of_another_package_reads_its_logs(tmp_path: Path, asked: list[str]) -> None:
    """Rows, lists and checks have what it reads; without it the file is of no known format."""
    path = tmp_path / "logs" / "a.zlog"
    path.parent.mkdir()
    path.write_text(LOG)
    with read(path) as reading:
        assert [(0, {"gain": 0.0}), (1, {"gain": 0.25}), (2, {"gain": 0.5})] == [
            (row.step, row.values) for row in reading
        ]
        assert reading.read_as is not None
        assert ("zlog", "Zlog") == (reading.read_as.use.name, reading.read_as.title)
    (run,) = list_runs(path)
    assert (2, "zlog") == (run.facts.last_step, run.facts.dialect and run.facts.dialect.name)
    (report,) = check(path).files
    assert (3, ()) == (report.records, tuple(report.findings))
    assert asked


def test_it_is_not_asked_about_a_log_that_ours_is_sure_of(tmp_path: Path, asked: list[str]) -> None:
    """A dialect of one program is sure; a guess by the names of keys is not."""
    sure, guess = tmp_path / "trainer_state.json", tmp_path / "a.jsonl"
    sure.write_text('{"log_history":[{"step":1,"loss":2.5}],"best_metric":null}')
    guess.write_text('{"step":1,"loss":2.5}\n')
    for path in (sure, guess):
        with read(path, mode="salvage") as reading:
            assert [1] == [row.step for row in reading]
    assert [str(guess)] == asked
