"""Readers of other packages: one that is installed reads its logs in every command, and none where ours is sure."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from toyspec import check, list_runs, read

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
def asked(install_package: Callable[..., None]) -> list[str]:
    """Install a package that brings a reader, and return the paths that it is asked about."""
    install_package("zlog", {"toyspec.readers": {"zlog": "zlog_reader:READER"}}, {"zlog_reader.py": MODULE})
    found: list[str] = import_module("zlog_reader").READER.asked
    return found


def test_reader_of_another_package_reads_its_logs(tmp_path: Path, asked: list[str]) -> None:
    """Rows, lists and checks have what it reads; without it the file is of no known format."""
    path = tmp_path / "logs" / "a.zlog"
    path.parent.mkdir()
    path.write_text(LOG)
    with read(path) as reading:
        assert [(0, {"gain": 0.0}), (1, {"gain": 0.25}), (2, {"gain": 0.5})] == [
            (row.step, row.values) for row in reading
        ]
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
