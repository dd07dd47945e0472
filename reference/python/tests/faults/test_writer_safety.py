"""What the writer of this package says about failures, which no row of the table of faults by language asks."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import FailingCalls


def test_e06_e11_a_failed_sync_ends_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is acknowledged after it, and run_end least of all."""
    failing = FailingCalls(at=3, error=errno.EIO, only="fsync")
    run = RunWriter(tmp_path / "r", run_id="r", calls=failing.calls)
    run.run_start()
    run.step()
    run.run_end()
    assert (False, 1) == (run.active, run.dropped)
    assert "fsync failed (Input/output error); lines already written may be lost" in capfd.readouterr().err
    assert 3 == failing.made.count("fsync")


@pytest.mark.parametrize(
    "value", [dict.fromkeys(["\ud800", "\udfff"], 1), {1: "a", "1": "b"}, {"n": 10**400}, {"a": {None: 1, "null": 2}}]
)
def test_a_value_that_would_lose_something_is_refused(value: dict[Any, Any], tmp_path: Path) -> None:
    """Two keys that are written alike, and an integer that most readers take as infinity."""
    run = RunWriter(tmp_path / "r", run_id="r", on_error="raise")
    with pytest.raises(InvalidEventError, match=r"two keys that are written|within binary64"):
        run.run_start(config=value)
    run.close()
    assert not (tmp_path / "r").exists()
