"""What ``toyspec ls --catalog`` prints of whole catalogs, from columns, and of runs that are read one by one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import Catalog, CatalogError, build_catalog, update_catalog
from toyspec.catalog import asked_values
from toyspec.catalog.tables import library
from toyspec.cli import catalog_lists, exit_codes
from toyspec.cli.main import main
from toyspec.runs.expressions import UNKNOWN

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


@pytest.mark.parametrize("options", METRICS)
@pytest.mark.parametrize("form", ["--csv", "--json", "--md"])
def test_settings_and_metrics_are_those_of_the_runs(
    tmp_path: Path, options: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text as from the runs, also where the last value is not finite and where a name is used twice."""
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
    assert exit_codes.OK == main(["ls", "--full", str(tmp_path / "runs"), form, *options.split()])
    expected = capsys.readouterr()
    assert len(expected.out) > 80
    assert exit_codes.OK == main(["ls", "--catalog", str(tmp_path / "catalog"), form, *options.split()])
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


@pytest.mark.parametrize("options", ODD)
@pytest.mark.parametrize("form", ["--csv", "--color never"])
def test_values_from_columns_are_those_of_the_runs(
    tmp_path: Path, options: str, form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that differ in case, goals, whole numbers and settings named as metrics are as where each run is made."""
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
    found = []
    for function in (catalog_lists.asked_list, lambda *_: None):
        monkeypatch.setattr(catalog_lists, "asked_list", function)
        assert exit_codes.OK == main(["ls", "--catalog", str(tmp_path / "catalog"), *form.split(), *options.split()])
        found.append(capsys.readouterr())
    assert found[0] == found[1]
    assert len(found[0].out) > 80


def test_metric_is_read_without_making_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are clear in the columns are not looked up, run by run."""
    for number in range(4):
        (tmp_path / "runs" / str(number)).mkdir(parents=True)
        text = START % (number, "2026-11-22T10:00:00Z") + STEP % (1.5, 1, 0.5 + number)
        (tmp_path / "runs" / str(number) / "events.jsonl").write_text(text, encoding="utf-8")
    build_catalog(tmp_path / "runs", out=tmp_path / "catalog")
    monkeypatch.setattr(asked_values, "Fields", None)
    found = asked_values.asked_values(Catalog(tmp_path / "catalog"), ["loss", "state", "lr"], "ORDER BY stream DESC")
    assert found is not None
    assert {"loss": [3.5, 2.5, 1.5, 0.5], "state": ["torn"] * 4, "lr": [UNKNOWN] * 4} == found.values


def test_whole_table_imports_no_reader_of_runs(catalog: Path) -> None:
    """What only the runs themselves need is not loaded for the columns of a list."""
    readers = {"toyspec.runs.summary", "toyspec.runs.listing", "toyspec.reading.reader"}
    code = (
        "import sys; from toyspec.cli.main import main; code = main(sys.argv[1:]); "
        f"print(code, sorted({readers} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "ls", "--catalog", str(catalog.parent / "of-one"), "--sort", "took"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30, text=True)
    assert "0 []" == done.stdout.splitlines()[-1]


@pytest.mark.parametrize("order", ["", "--sort lr"])
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


@pytest.mark.parametrize("limit", [None, 2048, 5000])
def test_rows_of_a_large_catalog_stay_together_and_in_order(catalog: Path, tmp_path: Path, limit: int | None) -> None:
    """Columns that are read one by one are in the order that was asked for, however many rows and threads there are."""
    number, large = 150_000, tmp_path / "catalog"
    shutil.copytree(catalog, large)
    (file, *_) = Catalog(large).manifest.runs
    changed = "'/r/' || hash(n) AS path, '/r/' || hash(n) || '/e' AS stream, (hash(n) % 1000003)::DOUBLE AS final_loss"
    rows = f"(FROM '{large / file}' LIMIT 1), range({number}) AS numbers(n)"
    with library().connect() as connection:
        connection.execute(
            f"COPY (SELECT * REPLACE ({changed}) FROM {rows}) TO '{tmp_path / 'made.parquet'}' (FORMAT parquet)"
        )
        expected = connection.execute(f"SELECT final_loss, path FROM '{tmp_path / 'made.parquet'}'").fetchall()
    os.replace(tmp_path / "made.parquet", large / file)
    found = Catalog(large)
    found.manifest.runs = [file]
    listed = found.listed(limit=limit)
    assert sorted(expected, key=lambda pair: (pair[0], f"{pair[1]}/e"))[:limit] == [
        *zip(listed.final_loss, listed.path, strict=True)
    ]


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
    assert (1, 2) == (len(before.listed().path), len(Catalog(tmp_path / "catalog").listed().path))
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
