"""Tests of the logs of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import imported, records, scalars
from sample_rows import SOURCES, sample_of


def test_attempts_of_mllog_are_runs(tmp_path: Path) -> None:
    """A file that a relaunch has gone on with gives a run for each ``init_start``."""
    line = ':::MLLOG {"namespace":"","time_ms":%d,"event_type":"POINT_IN_TIME","key":"%s","value":%s,"metadata":{}}\n'
    log = [("init_start", "null"), ("loss", "1.5"), ("init_start", "null"), ("loss", "0.5"), ("cause", '"x"')]
    text = "".join(line % (1763632800000 + at, key, value) for at, (key, value) in enumerate(log))
    (tmp_path / "result_0.txt").write_text(text)
    first, second = imported(tmp_path / "result_0.txt", tmp_path / "runs").runs
    assert [("loss", None, 1.5)] == scalars(first.target)
    assert [("loss", None, 0.5)] == scalars(second.target)
    texts = [record["texts"] for record in records(second.target) if "texts" in record]
    assert "x" == texts[-1]["cause"]


@given(st.data())
def test_damaged_logs_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is cut or changed in the log of any program, each item is accounted for and the result is valid."""
    tmp_path = tmp_path_factory.mktemp("log")
    name = data.draw(st.sampled_from([*SOURCES]))
    source = sample_of(name)
    whole = source.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(st.sampled_from([b"", b"-", b"e99", b'"', b"\xff", b"\n", b"\0", b"null"]))
    keep = data.draw(st.sampled_from([at, at + 1, len(whole)]))
    file = tmp_path / source.name
    file.write_bytes(whole[:at] + changed + whole[keep:])
    if file.stat().st_size:
        imported(file, tmp_path / "runs", name)
