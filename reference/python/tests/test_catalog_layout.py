"""The folder of a catalog, and who may write it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import CatalogError, build_catalog
from toyspec.catalog.layout import writing

if TYPE_CHECKING:
    from pathlib import Path


def test_two_builders(tmp_path: Path) -> None:
    """The second builder is refused, says why, and leaves the work of the first alone."""
    (tmp_path / "runs").mkdir()
    fact = "another process is writing this catalog"
    with writing(str(tmp_path / "catalog")) as work:
        with pytest.raises(CatalogError, match=fact):
            build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
        assert os.path.isdir(work)
    assert 0 == build_catalog(tmp_path / "runs", out=tmp_path / "catalog").runs
