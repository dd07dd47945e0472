"""``toyspec site``: a folder of the viewer and runs that any web server serves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from view_client import END, START, step, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with two runs in two groups, one of which still runs."""
    write_run(tmp_path / "runs" / "a" / "one", START, step(1, 2.5), END)
    write_run(tmp_path / "runs" / "b" / "two", START, step(1, 3.5), b'{"kind":"st')
    return tmp_path / "runs"


def test_site_has_every_log_byte_for_byte(runs: Path, tmp_path: Path) -> None:
    """Each log that the list names is there as the run has it, and the page has the runs."""
    done = toyspec("site", str(runs), "-o", str(tmp_path / "public"))
    assert (0, b"") == (done.returncode, done.stdout)
    index = json.loads((tmp_path / "public/site.json").read_bytes())
    assert ["a/one", "b/two"] == [run["id"] for run in index["runs"]]
    for run in index["runs"]:
        log = (tmp_path / "public" / run["log"]).read_bytes()
        assert (runs / run["id"] / "events.jsonl").read_bytes() == log
        assert (len(log), hashlib.sha256(log).hexdigest()) == (run["bytes"], run["sha256"])
    assert b'id="toyspec-data"' in (tmp_path / "public/index.html").read_bytes()


def test_site_has_the_logs_of_all_ranks_and_annotations(runs: Path, tmp_path: Path) -> None:
    """What other processes logged can be downloaded too, and downloaded runs keep the names that people gave."""
    run = runs / "a" / "one"
    (run / "events.rank-1.jsonl").write_bytes(START + step(1, 7.5))
    (run / "annotations.jsonl").write_bytes(b'{"at":"2026-01-01T00:00:00Z","name":"x"}\n')
    assert 0 == toyspec("site", str(runs), "-o", str(tmp_path / "public")).returncode
    index = json.loads((tmp_path / "public/site.json").read_bytes())
    logs = [each["log"] for each in index["runs"] if each["id"] == "a/one"]
    assert ["runs/a/one/events.jsonl", "runs/a/one/events.rank-1.jsonl"] == logs
    for name in ("events.rank-1.jsonl", "annotations.jsonl"):
        assert (run / name).read_bytes() == (tmp_path / "public" / "runs" / "a" / "one" / name).read_bytes()


def test_site_is_replaced_and_nothing_else_is(runs: Path, tmp_path: Path) -> None:
    """A second site takes the place of the first; a folder of something else stays unchanged."""
    target = tmp_path / "public"
    assert 0 == toyspec("site", str(runs), "-o", str(target)).returncode
    assert 0 == toyspec("site", "--no-logs", str(runs / "a"), "-o", str(target)).returncode
    assert {"index.html", "site.json", ".nojekyll"} == {path.name for path in target.iterdir()}
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_bytes(b"years")
    done = toyspec("site", str(runs), "-o", str(other))
    assert 2 == done.returncode
    assert b"name a new or empty folder" in done.stderr
    assert [b"years"] == [path.read_bytes() for path in other.iterdir()]


def test_site_inside_its_runs_is_refused(runs: Path) -> None:
    """A site among the runs would be read as runs the next time."""
    done = toyspec("site", str(runs), "-o", str(runs / "public"))
    assert 2 == done.returncode
    assert b"would be read as runs" in done.stderr


def test_site_that_fails_leaves_the_earlier_one(runs: Path, tmp_path: Path) -> None:
    """A run that cannot be read ends the command before anything is replaced."""
    target = tmp_path / "public"
    assert 0 == toyspec("site", str(runs), "-o", str(target)).returncode
    before = (target / "index.html").read_bytes()
    assert 2 == toyspec("site", str(tmp_path / "nowhere"), "-o", str(target)).returncode
    assert before == (target / "index.html").read_bytes()
    assert not (tmp_path / "public.new").exists()
