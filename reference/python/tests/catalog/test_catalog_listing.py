"""What ``toyspec ls --catalog`` prints of whole catalogs, from columns, and of runs that are read one by one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import Catalog, CatalogError, build_catalog, update_catalog
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main

if TYPE_CHECKING:
    from pathlib import Path

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s","started_at":"%s"}\n'
END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n'


METRICS = (
    "-n 2",
    "--sort steps -n 3 -r",
    "--columns val/acc,loss,best.loss,nan.loss,config.lr,lr,model.size,size,never,größe",
    "--where größe>1",
    "--where complete --columns größe",
    "--sort val/acc",
    "--sort best.loss -r -n 3",
    "--sort lr --columns errors,tags,run_id",
    "--where val/acc>.3",
    "--where loss<2",
    "--where lr=.5 --columns lr",
    "--where size!=null",
)


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


@pytest.mark.parametrize("options", METRICS)
@pytest.mark.parametrize("form", ["--color=never", "--json"])
def test_settings_and_metrics_are_those_of_the_runs(
    measured: Path, options: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text as from the runs, also where the last value is not finite and where a name is used twice."""
    assert exit_codes.OK == main(["ls", "--full", str(measured / "runs"), form, *options.split()])
    expected = capsys.readouterr().out
    assert len(expected) > 80
    assert exit_codes.OK == main(["ls", "--catalog", str(measured / "catalog"), form, *options.split()])
    found = capsys.readouterr().out
    if form != "--json":
        assert expected == found
        return
    # A catalog has the number of findings too.
    kept, whole = (
        [{name: each[name] for name in each if name not in ("findings", "columns")} for each in json.loads(text)]
        for text in (found, expected)
    )
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


@pytest.mark.parametrize(("name", "meant"), [("\udcff", "facts such as"), ("siz", "did you mean 'size'")])
def test_unknown_name_is_wrong_usage(measured: Path, name: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A catalog knows the names of its runs, and suggests one; bytes that are not UTF-8 are searched as shown."""
    catalog = ["ls", "--catalog", str(measured / "catalog")]
    assert exit_codes.OK == main([*catalog, "--where", f"reason = {name}"])
    assert "none of 5 runs meets the conditions" in capsys.readouterr().err
    assert exit_codes.USAGE == main([*catalog, "--sort", name])
    assert "no run has a field" in (shown := capsys.readouterr().err)
    assert meant in shown


def test_name_of_one_run_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs with names of their own are listed and queried by each of them, and share no columns."""
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
    assert exit_codes.OK == main(["ls", "--catalog", found.path, "--where", "acc/9 > 9 and own_9.x = 9"])
    assert 2 == len(capsys.readouterr().out.splitlines())
    with pytest.raises(ValueError, match='Candidate bindings: "config'):
        found.query('select "config.lrr" from runs')
