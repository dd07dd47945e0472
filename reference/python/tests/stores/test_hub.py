"""A repository of Hugging Face is read in place, through the file system that its package brings to fsspec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import toyspec
from loopback_hub import NAME, serving
from loopback_store import stream

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")


def test_repository_is_read_in_place(tmp_path: Path) -> None:
    """Commands read a repository by its address, and say where there is none."""
    files = {f"all/{name}/events.jsonl": stream(5, run_id=name) for name in ("a", "b")}
    with serving(files) as endpoint:
        environment = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}
        checked = toyspec("check", f"hf://{NAME}/all", env=environment)
        absent = toyspec("check", "hf://me/other", env=environment)
    assert (0, b"2 runs: 2 complete", b"") == (checked.returncode, checked.stdout[:18], checked.stderr)
    assert 2 == absent.returncode
    assert b"hf://me/other: No such object" in absent.stdout
