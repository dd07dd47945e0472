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
STEP = '{"kind":"step","t":%s,"step":%d,"loss":%s}\n'
END = '{"kind":"run_end","t":%s,"reason":"%s"%s}\n'


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a catalog of runs with and without each fact."""
    tmp_path = tmp_path_factory.mktemp("listing")

    def put(name: str, *lines: str) -> None:
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "events.jsonl").write_text("".join(lines), encoding="utf-8")

    start = START % ("r", "2026-11-22T10:00:00+01:00")
    put("a", start, STEP % (1.5, 1, 0.25), END % (4000.0, "completed", ""))
    put("b=\u202e1", start, STEP % (1.5, 1, "null"), END % (100_000.0, "=1+1", ""))
    put("c|*", START % ("c", "when\\u001b"), END % (61.0, "diverged", ',"final_loss":null'))
    put("\u65e5\u672c", START % ("d", "2026-11-22T10:00:00Z"), END % (2.0, "##[group]", ""))
    put("e", start, STEP % (1.5, 1, -0.0))
    put("f", start, STEP % (1.5, 1, 0.0))
    (tmp_path / "empty").mkdir()
    build_catalog(tmp_path / "runs" / "a", out=tmp_path / "of-one")
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    build_catalog(tmp_path / "empty", out=tmp_path / "of-none")
    return tmp_path / "catalog"


METRICS = (
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
        text = head + "".join(step % (at, *each) for at, each in enumerate(steps)) + END % (9.0, "completed", "")
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


@pytest.mark.parametrize("order", ["", "--sort last.loss"])
@pytest.mark.parametrize(("roots", "name"), [(["one"], "one"), (["one", "two"], "{}/one"), (["."], "one")])
def test_name_of_a_run_that_is_a_root(
    tmp_path: Path, roots: list[str], name: str, order: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has its name where it is the only root, and else its path, as other runs have."""
    for each in ("one", "two"):
        (tmp_path / "runs" / each).mkdir(parents=True)
        text = START % ("r", "2026-11-22T10:00:00Z") + STEP % (1.5, 1, 0.5)
        (tmp_path / "runs" / each / "events.jsonl").write_text(text)
    build_catalog(*(tmp_path / "runs" / root for root in roots), out=tmp_path / "catalog")
    assert exit_codes.OK == main(["ls", "--catalog", str(tmp_path / "catalog"), *order.split()])
    assert name.format(tmp_path / "runs") == capsys.readouterr().out.splitlines()[1].split()[0]


def test_catalog_without_runs(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and its list for programs is empty."""
    empty = str(catalog.parent / "of-none")
    assert exit_codes.OK == main(["ls", "--catalog", empty])
    assert "no runs below" in capsys.readouterr().err
    assert exit_codes.OK == main(["ls", "--catalog", empty, "--json"])
    assert [] == json.loads(capsys.readouterr().out)


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
def test_failed_query_says_what_to_do(catalog: Path, sql: str, advice: str) -> None:
    """The reason comes with what there is."""
    with pytest.raises(ValueError, match=re.escape(advice)):
        Catalog(catalog).query(sql)


def test_name_that_is_not_text_is_that_of_no_run(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes of the command line that are not UTF-8 are searched as they are shown."""
    assert exit_codes.OK == main(["ls", "--catalog", str(catalog), "--where", "reason = \udcff"])
    assert "none of 6 runs meets the conditions" in capsys.readouterr().err
    assert exit_codes.USAGE == main(["ls", "--catalog", str(catalog), "--sort", "\udcff"])
    assert "no run has a field" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--sort", "lrr"], ["--where", "lrr > 1"], ["--json", "--sort", "lrr"]])
def test_unknown_name_is_wrong_usage(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A catalog knows the names of its runs, and suggests one."""
    (tmp_path / "runs").mkdir()
    start = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r","config":{"optim":{"lr":0.5}}}\n'
    (tmp_path / "runs" / "events.jsonl").write_text(start)
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    assert exit_codes.USAGE == main(["ls", "--catalog", str(tmp_path / "catalog"), *options])
    assert "no run has a field 'lrr'; did you mean 'lr'?" in capsys.readouterr().err


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
