"""The viewer's server and the viewer's reader of folders list the same of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toyspec.core.runs.run_facts import by_rank, metric_rank
from viewer_rows import DIALECT_ROWS, GROUPS, RANKS, ROOT, ROWS, dialect_text, groups_text, ranks_text, text

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_that_the_viewer_is_tested_with_are_those_of_the_server(tmp_path: Path) -> None:
    """`reference/viewer/test/rows.json` is up to date; `python reference/python/tests/viewer_rows.py` writes it."""
    assert ROWS.read_text("utf-8") == text(tmp_path)


def test_groups_that_the_viewer_is_tested_with_are_those_of_the_core() -> None:
    """`reference/viewer/test/groups.json` is up to date; the same command writes it."""
    assert GROUPS.read_text("utf-8") == groups_text()


def test_ranks_that_the_viewer_is_tested_with_are_those_of_the_server() -> None:
    """`reference/viewer/test/ranks.json` is up to date; the same command writes it."""
    assert RANKS.read_text("utf-8") == ranks_text()


def test_logs_of_other_programs_that_the_viewer_is_tested_with_are_read_so(tmp_path: Path) -> None:
    """`reference/viewer/test/dialect-rows.json` is up to date; the same command writes it."""
    assert DIALECT_ROWS.read_text("utf-8") == dialect_text(tmp_path)


def test_metrics_are_in_the_order_of_what_they_say() -> None:
    """The viewer is tested with the same ranks; of equal ones, the least nested name is first."""
    ranks = json.loads((ROOT / "reference/viewer/test/metric-ranks.json").read_text(encoding="utf-8"))
    by_name = {name: rank for name, goal, constant, rank in ranks if not goal and not constant}
    assert by_name == {name: metric_rank(name) for name in by_name}
    names = ["epoch", "acc", "val/loss", "eval_loss", "a/b", "val/acc", "loss"]
    assert ["loss", "eval_loss", "val/loss", "val/acc", "acc", "a/b", "epoch"] == by_rank(names)
