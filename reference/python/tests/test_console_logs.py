"""The console output of programs, which print much before their first metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from live_streams import append, nothing, watch
from test_dialects import rows_of, sample
from toyspec import check, read
from toyspec.reading.follower import TailEvent
from toyspec.reading.log_detection import CONSOLE_BYTES, HEAD_BYTES
from toyspec.reading.rows import Row

SETTINGS = b"I1120 10:00:00 pyconfig.py:591] Config param checkpoint {'period': 0}\n" * 1500


@pytest.mark.parametrize("name", ["maxtext-console", "nanogpt-console", "key-value-console", "mllog"])
def test_metrics_after_many_settings_are_found(name: str, tmp_path: Path) -> None:
    """A program is known by its first metrics, however far within the first part of the output they are."""
    path, expected = sample(name)
    assert HEAD_BYTES < len(SETTINGS) < CONSOLE_BYTES
    log = tmp_path / "slurm-1.out"
    log.write_bytes(SETTINGS + path.read_bytes())
    (report,) = check(log).files
    assert report.dialect is not None
    assert (name, expected["rows"], ()) == (report.dialect.name, report.records, tuple(report.findings))
    assert [row.values for row in rows_of(path)] == [row.values for row in rows_of(log)]
    assert name in toyspec("doctor", "--json", str(tmp_path)).stdout.decode()


@pytest.mark.parametrize("size", [0, 700, len(SETTINGS)])
def test_followed_settings_are_not_damage(size: int, tmp_path: Path) -> None:
    """While only text is there, nothing is reported; the metrics come as soon as they are printed."""
    path, _ = sample("maxtext-console")
    log = tmp_path / "train.log"
    lines = path.read_bytes().splitlines(keepends=True)
    log.write_bytes(SETTINGS[:size] + b"\n")
    actions = [append(log, line) for line in lines]
    items = watch(log, nothing, *actions, nothing)
    assert [row.raw for row in rows_of(path)] == [item.raw for item in items if isinstance(item, Row)]
    assert [] == [item for item in items if isinstance(item, TailEvent)]


def test_text_without_metrics_is_reported_at_the_end(tmp_path: Path) -> None:
    """A follower gives the gaps that a reading of the whole gives; tail names three, and counts the others."""
    log = tmp_path / "notes.txt"
    log.write_bytes(b"I am text\n" * 40)
    gaps = [item for item in watch(log, nothing) if isinstance(item, TailEvent)]
    reading = read(log, mode="salvage")
    assert [] == list(reading)
    assert [gap.line for gap in reading.report.gaps] == [gap.line for gap in gaps]
    said = toyspec("tail", "--once", "--all", str(log)).stderr.decode().splitlines()
    assert 4 == len(said)
    assert "toyspec tail: 37 more lines were skipped; see `toyspec check`" == said[-1]
