"""What ``toyspec ls --catalog`` prints of whole catalogs, from columns, and of runs that are read one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

from toyspec import build_catalog
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
