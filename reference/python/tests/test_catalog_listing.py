"""What ``toyspec ls --catalog`` prints of whole catalogs, from columns, and of runs that are read one by one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import Catalog, CatalogError, build_catalog, update_catalog
from toyspec.catalog.run_table import RunSelection
from toyspec.catalog.tables import library
from toyspec.cli import exit_codes
from toyspec.cli.main import main

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


@pytest.mark.parametrize("form", ["", "--csv", "--md", "--color always"])
@pytest.mark.parametrize("order", ["", "--sort took -r", "--sort started", "--sort state -n 3", "--sort name -r"])
def test_whole_catalog_is_listed_as_its_runs_are(
    catalog: Path, form: str, order: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A condition that all meet gives the same text, from the runs one by one."""
    options = ["ls", "--catalog", str(catalog), *form.split(), *order.split()]
    assert exit_codes.OK == main(options)
    found = capsys.readouterr()
    assert exit_codes.OK == main([*options, "--where", "bytes > 0"])
    assert capsys.readouterr() == found
    assert len(found.out.splitlines()) >= 4


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
@pytest.mark.parametrize("form", ["--csv", "--json", "--md"])
def test_settings_and_metrics_are_those_of_the_runs(
    measured: Path, options: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text as from the runs, also where the last value is not finite and where a name is used twice."""
    assert exit_codes.OK == main(["ls", "--full", str(measured / "runs"), form, *options.split()])
    expected = capsys.readouterr()
    assert len(expected.out) > 80
    assert exit_codes.OK == main(["ls", "--catalog", str(measured / "catalog"), form, *options.split()])
    assert expected == capsys.readouterr()


DEFINE = '{"kind":"define","name":"%s","goal":"max"}\n'
ODD = (
    "--sort acc",
    "--sort acc -r -n 2",
    "--sort best.acc",
    "--sort Loss",
    "--where acc>.2 --sort last.acc",
    "--where acc<.5 --sort acc",
    "--where Loss>.1 --columns Loss,loss,best.Loss",
    "--columns acc,beta,opt.beta,config.opt.beta,whole,mixed --sort name",
    "--where opt.beta=.5",
    "--where state=torn --sort mixed",
    "--where reason=null --columns reason,took,steps,findings",
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with runs whose names, goals and settings are odd, and their catalog."""
    tmp_path = tmp_path_factory.mktemp("odd")
    step = '{"kind":"step","t":%d.5,"step":%d,"loss":%s,"extra":{%s}}\n'
    extras = (
        ('"acc":0.25,"Loss":0.5,"whole":1.0,"mixed":1', '"opt":{"beta":0.5}', "acc"),
        ('"acc":0.75,"Loss":2,"whole":3,"mixed":0.5', '"opt":{"beta":1},"acc":"set"', "acc"),
        ('"loss":0.125,"acc":0.5,"mixed":1.0', '"opt.beta":0.5,"whole":[1]', "other"),
        ('"acc":null,"Loss":0.25', '"beta":null,"mixed":"text"', "acc"),
        ('"new":0.5', '"a":{"acc":3}', "new"),
        ('"acc":0.375', '"mixed":{"x":1},"big":1e300', "none"),
    )
    for number, (extra, config, goal) in enumerate(extras):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        head = f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r{number}","config":{{{config}}}}}\n'
        steps = "".join(step % (at, at, 0.5 + number, extra) for at in range(2))
        text = head + DEFINE % goal + steps + (END % (9.0, "completed", ',"final_loss":3') if number % 2 else "")
        (tmp_path / "runs" / str(number) / "events.jsonl").write_text(text, encoding="utf-8")
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    return tmp_path


@pytest.mark.parametrize("options", ODD)
@pytest.mark.parametrize("form", ["--csv", "--color never"])
def test_values_from_columns_are_those_of_the_runs(
    odd: Path, options: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names that differ in case, goals, whole numbers and settings named as metrics are as where each run is read."""
    found = []
    for place in (["--full", str(odd / "runs")], ["--catalog", str(odd / "catalog")]):
        assert exit_codes.OK == main(["ls", *place, *form.split(), *options.split()])
        found.append(capsys.readouterr())
    assert found[0] == found[1]
    assert len(found[0].out) > 80


def test_whole_table_imports_no_reader_of_runs(catalog: Path) -> None:
    """What only the runs themselves need is not loaded for the columns of a list."""
    readers = {"toyspec.runs.summary", "toyspec.runs.listing", "toyspec.reading.reader"}
    code = (
        "import sys; from toyspec.cli.main import main; code = main(sys.argv[1:]); "
        f"print(code, sorted({readers} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "ls", "--catalog", str(catalog.parent / "of-one"), "--sort", "took"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300, text=True)
    assert "0 []" == done.stdout.splitlines()[-1]


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
    for form in ("--csv", "--color=never"):
        assert exit_codes.OK == main(["ls", "--catalog", str(tmp_path / "catalog"), form, *order.split()])
        first = capsys.readouterr().out.splitlines()[1]
        assert name.format(tmp_path / "runs") == re.split("[ ,]", first)[0]


def test_catalog_without_runs(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and CSV has its titles."""
    empty = str(catalog.parent / "of-none")
    assert exit_codes.OK == main(["ls", "--catalog", empty])
    assert "no runs below" in capsys.readouterr().err
    assert exit_codes.OK == main(["ls", "--catalog", empty, "--csv"])
    assert "run,state,reason,last_step,final_loss,seconds,started_at\n" == capsys.readouterr().out


def test_rows_of_a_large_catalog_stay_together_and_in_order(catalog: Path, tmp_path: Path) -> None:
    """Columns that are read one by one are in the order that was asked for, however many rows and threads there are."""
    number, large = 150_000, tmp_path / "catalog"
    shutil.copytree(catalog, large)
    (file, *_) = Catalog(large).manifest.runs
    loss = "(hash(n) % 1000003)::DOUBLE"
    changed = f"'/r/' || hash(n) AS path, '/r/' || hash(n) || '/e' AS stream, {loss} AS final_loss"
    changed += f", {loss}::VARCHAR AS said_loss"
    rows = f"(FROM '{large / file}' LIMIT 1), range({number}) AS numbers(n)"
    with library().connect() as connection:
        connection.execute(
            f"COPY (SELECT * REPLACE ({changed}) FROM {rows}) TO '{tmp_path / 'made.parquet'}' (FORMAT parquet)"
        )
        expected = connection.execute(f"SELECT final_loss, path FROM '{tmp_path / 'made.parquet'}'").fetchall()
    os.replace(tmp_path / "made.parquet", large / file)
    found = Catalog(large)
    found.manifest.runs = [file]
    in_order = sorted(expected, key=lambda pair: (pair[0], f"{pair[1]}/e"))
    for limit in (None, 2048, 5000):
        listed = found.listed(RunSelection(limit=limit))
        assert in_order[:limit] == [*zip(listed.final_loss, listed.path, strict=True)], limit


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
        len(before.listed(RunSelection()).path),
        len(Catalog(tmp_path / "catalog").listed(RunSelection()).path),
    )
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    with pytest.raises(CatalogError, match=r"was written twice while it was read .*; try again"):
        before.runs()


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("select * from values", "has no table values; build it again with --values"),
        ("select * from other", "The tables are runs."),
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
    assert exit_codes.OK == main(["ls", "--catalog", found.path, "--where", "acc/9 > 9 and own_9.x = 9", "--csv"])
    assert 2 == len(capsys.readouterr().out.splitlines())
    with pytest.raises(ValueError, match='Candidate bindings: "config'):
        found.query('select "config.lrr" from runs')
