"""The format of a seal is that of sha256sum, which reads what is written, and writes what is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealed_runs import broken, write_run
from toyspec.core.reading.sealed_files import SealLine, parse_seal_line, parts_of, seal_line
from toyspec.core.writing.sealing import seal

DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give a sealed run."""
    return write_run(tmp_path / "runs" / "demo", is_sealed=True)


names = st.binary(min_size=1, max_size=30).filter(lambda name: b"\0" not in name)


@given(names)
def test_names_survive_the_format(name: bytes) -> None:
    """Any name can be written and read back; only the one that sha256sum cannot name gets a directory."""
    line = seal_line(DIGEST, name)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    expected = b"./-" if name == b"-" else name
    assert SealLine(DIGEST, expected) == parse_seal_line(line[:-1])
    assert parts_of(name) == parts_of(expected)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="sha256sum is not installed")
def test_seals_of_sha256sum_are_read(run: Path) -> None:
    """What sha256sum writes in text and binary mode, escapes included, is a seal."""
    for name in ("a b", "c\\d", "e\nf", "é", "-"):
        (run / name).write_text(name)
    files = sorted(path.name for path in run.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    for option in ("--text", "--binary"):
        done = subprocess.run(
            ["sha256sum", option, "--", *(f"./{name}" for name in files)], cwd=run, capture_output=True, check=True
        )
        (run / "SHA256SUMS").write_bytes(done.stdout)
        assert [] == broken(run)
    (run / "SHA256SUMS").unlink()
    seal(run)
    subprocess.run(["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"], cwd=run, check=True)
