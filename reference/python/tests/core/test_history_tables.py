"""What a notebook and a Python prompt show of the history of a run."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from toyspec.core.runs.history import History, table_library

if TYPE_CHECKING:
    from pathlib import Path


def test_history_names_its_columns_and_what_it_lacks() -> None:
    """Names of the log are inert, and what is in no cell is counted."""
    columns: dict[str, list[Any]] = {"step": [1, 2], "loss": [1 / 3, None], "a\n\x1b": ["b", None]}
    assert repr(History(columns)) == "2 rows of step, loss, a\\x0a\\x1b"
    missing = {"left_out": Counter(a=2), "dropped": Counter(step=3)}
    assert repr(History({"step": []}, 7, missing)) == (
        "0 rows of step; 7 bytes of the log cannot be read; 2 values were left out of the log; "
        "3 records were not written"
    )


def test_table_of_a_library_that_is_missing_says_how_to_install_it() -> None:
    """A table of a library is that of its module, and needs it."""
    assert table_library("json") is json
    with pytest.raises(ImportError, match=r"this table needs no_such_library: python -m pip install no_such_library$"):
        table_library("no_such_library")


def test_step_that_no_array_has_is_in_the_history(tmp_path: Path) -> None:
    """Steps of other programs may be fractions, and those before them stay."""
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,0.5\n2,0.25\n2.5,0.125\n3,1.5\n", encoding="utf-8")
    table = toyspec.history(path)
    assert ([1, 2, 2.5, 3], [0.5, 0.25, 0.125, 1.5]) == (list(table["step"]), list(table["loss"]))
