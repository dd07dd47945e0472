"""Runs of a catalog, from columns, are those that are read one by one; and what a query says."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import Catalog, CatalogError, ExpressionError, build_catalog, list_runs, update_catalog

if TYPE_CHECKING:
    from pathlib import Path

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s","started_at":"%s"}\n'
END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n'


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with runs that have settings and metrics, and their catalog."""
    tmp_path = tmp_path_factory.mktemp("measured")
    lines = (
        ('"config":{"lr":0.5,"opt":{"size":[1,2]}},"model":{"size":7}', (0.25, 0.5), (3, 0.75)),
        ('"config":{"lr":1,"loss":"set","nan.loss":null}', (0.5, 0.125), ("null", "null")),
        ('"config":{"lr":"auto","deep":{"never":true}},"tags":["a"]', ("null", 0.5), ("null", 1)),
        ('"config":{"größe":2}', (4, 0.5), (3, 0.5)),
        ('"notes":"none"', (2, 0.25), (1.5, "null")),
    )
    step = '{"kind":"step","t":1.5,"step":%d,"loss":%s,"extra":{"val/acc":%s}}\n'
    for number, (start, *steps) in enumerate(lines):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        head = f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r{number}",{start}}}\n'
        text = head + "".join(step % (at, *each) for at, each in enumerate(steps)) + END
        (tmp_path / "runs" / str(number) / "events.jsonl").write_text(text, encoding="utf-8")
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    return tmp_path


def test_settings_and_metrics_are_those_of_the_runs(measured: Path) -> None:
    """The same facts as from the runs, also where the last value is not finite and where a name is used twice."""
    whole = [each.facts for each in list_runs(measured / "runs", read="whole")]
    # A catalog has the number of findings too.
    kept = [msgspec.structs.replace(each.facts, findings=None) for each in Catalog(measured / "catalog").runs()]
    assert 5 == len(whole)
    assert whole == kept


def test_reader_of_a_catalog_that_is_updated(tmp_path: Path) -> None:
    """What was opened before an update is read after it, as it was."""
    for number in range(2):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        (tmp_path / "runs" / str(number) / "events.jsonl").write_text(START % (number, "2026-11-22T10:00:00Z"))
        if number:
            assert 1 == update_catalog(tmp_path / "catalog").read
        else:
            build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
            before = Catalog(tmp_path / "catalog")
    assert (1, 2) == (
        len(before.runs()),
        len(Catalog(tmp_path / "catalog").runs()),
    )
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    with pytest.raises(CatalogError, match=r"was written twice while it was read .*; try again"):
        before.runs()


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("select * from other", "The tables are runs and names."),
        ("select final_los from runs", 'Candidate bindings: "final_loss"'),
        ("select config.lr from runs", '"config.lr"'),
        ("select * from read_text('/etc/passwd')", "reaches only the tables of the catalog"),
    ],
)
def test_failed_query_says_what_to_do(measured: Path, sql: str, advice: str) -> None:
    """The reason comes with what there is."""
    with pytest.raises(ValueError, match=re.escape(advice)):
        Catalog(measured / "catalog").query(sql)


def test_unknown_name_is_suggested(measured: Path) -> None:
    """A catalog knows the names of its runs, and suggests one."""
    with pytest.raises(ExpressionError, match="no run has a field 'lrr'; did you mean 'lr'"):
        Catalog(measured / "catalog").runs().filter("lrr > 1")


def test_name_of_one_run_is_found(tmp_path: Path) -> None:
    """Runs with names of their own are filtered and queried by each of them, and share no columns."""
    number = 60
    for each in range(number):
        (tmp_path / "runs" / str(each)).mkdir(parents=True)
        config = {f"own_{each}.x": each, "lr": 0.5, "Ω/~": "a"}
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "config": config}
        step = {"kind": "step", "t": 1.0, "step": 1, "loss": 0.5, "extra": {f"acc/{each}": each + 0.5}}
        text = "".join(json.dumps(line) + "\n" for line in (start, step))
        (tmp_path / "runs" / str(each) / "events.jsonl").write_text(text)
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    found = Catalog(tmp_path / "catalog")
    for name in ("config.own_7.x", "last.acc/7", "LAST.ACC/7"):
        assert [(7,)] == found.query(f'select floor("{name}")::INT from runs where "{name}" > 0').rows
    assert [(number,)] == found.query('select count("config.lr") from runs where "config.Ω/~" = \'a\'').rows
    columns = found.query("select * from runs").columns
    assert "config.lr" in columns
    assert "last.loss" in columns
    assert "config.own_7.x" not in columns
    assert "config.own_7.x" in found.query('select *, "config.own_7.x" from runs').columns
    assert 1 == len(found.runs().filter("acc/9 > 9 and own_9.x = 9"))
    with pytest.raises(ValueError, match='Candidate bindings: "config'):
        found.query('select "config.lrr" from runs')
