"""What ``toyspec ls --catalog`` prints of whole catalogs, from columns, and of runs that are read one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import Catalog, CatalogError, build_catalog, update_catalog
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


def test_catalog_without_runs(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and CSV has its titles."""
    empty = str(catalog.parent / "of-none")
    assert exit_codes.OK == main(["ls", "--catalog", empty])
    assert "no runs below" in capsys.readouterr().err
    assert exit_codes.OK == main(["ls", "--catalog", empty, "--csv"])
    assert "run,state,reason,last_step,final_loss,seconds,started_at\n" == capsys.readouterr().out


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
    assert (1, 2) == (len(before.listed()), len(Catalog(tmp_path / "catalog").listed()))
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
