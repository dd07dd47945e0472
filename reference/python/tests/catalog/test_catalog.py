from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("duckdb", reason="the extra catalog is not installed")

import msgspec

from command_line import toyspec_within
from loopback_store import BUCKET, status
from toyspec import Catalog, CatalogError, ExpressionError, build_catalog, list_runs, start_run, update_catalog
from toyspec.catalog import building, reading, tables
from toyspec.catalog.layout import LAYOUT, MANIFEST
from toyspec.core.checker.checking import count_findings
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from loopback_store import Store

START = (
    '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s",'
    '"started_at":"2026-11-%02dT01:00:00+02:00","config":%s}\n'
)
STEP = '{"kind":"step","t":%d.5,"step":%d,"loss":%s,"extra":{"val/acc":0.%d}}\n'
END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n'


def stream(name: str, day: int = 1, config: str = '{"lr":0.1}', steps: int = 3, end: str = END) -> bytes:
    """Return a stream of *steps* steps."""
    lines = [STEP % (step, step, 3.5 - step, step) for step in range(steps)]
    return "".join([START % (name, day, config), *lines, end]).encode()


def put(root: Path, name: str, data: bytes, file: str = "events.jsonl") -> None:
    """Write the stream of a run."""
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / file).write_bytes(data)


def runs_of_each_kind(root: Path) -> Path:
    """Make in *root* runs of several kinds, some of which are not complete; return it."""
    for day in range(1, 5):
        put(root, f"run-{day}", stream(f"run-{day}", day))
    put(root, "torn", stream("torn", 4, end="")[:-20])
    put(root, "damaged", stream("damaged", 4).replace(b'"step":1,', b'"step":1;'))
    put(root, "metrics", b'{"step":1,"loss":0.5,"wall_time_ms":12}\n', "metrics.jsonl")
    history = b'{"global_step":2,"log_history":[{"step":1,"loss":2.5},{"step":2,"loss":1.5}]}'
    put(root, "trainer", history, "trainer_state.json")
    put(root, "foreign", b'{"type":"user","message":"hi"}\n')
    # A stream of toyspec under another name, and text that is not a log, are not runs.
    (root / "copy.jsonl").write_bytes(stream("a"))
    (root / "notes.txt").write_text("step 3 of the plan: 5 cups of tea\n", encoding="utf-8")
    return root


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs of several kinds."""
    return runs_of_each_kind(tmp_path / "runs")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Return the catalog of such runs, which no test changes."""
    return Catalog(build(runs_of_each_kind(tmp_path_factory.mktemp("built") / "runs")))


def build(root: Path, **options: Any) -> Path:
    """Build the catalog of the runs below *root* beside it and return its directory."""
    build_catalog(root, out=root.parent / "catalog", **options)
    return root.parent / "catalog"


def rows(catalog: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a catalog by path."""
    answer = Catalog(catalog).query("select * from runs order by stream")
    return {row[0]: dict(zip(answer.columns, row, strict=True)) for row in answer.rows}


def digests(directory: Path) -> dict[str, str]:
    """Return the digest of each file below *directory*."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_catalog_has_what_a_listing_has(runs: Path, tmp_path: Path) -> None:
    """Each run is the one that reading all of it gives: facts, settings, last and best values, state, order."""
    report = build_catalog(runs, out=tmp_path / "catalog")
    whole, found = list_runs(runs, read="whole"), Catalog(tmp_path / "catalog").runs()
    assert (8, 3, []) == (report.runs, report.skipped, report.errors)
    assert (8, 3, ()) == (len(whole), whole.skipped, whole.errors)
    assert [run.row() for run in whole] == [run.row() for run in found]
    counts = [count_findings(run.path, DialectChoice()) for run in whole]
    assert [msgspec.structs.replace(run.facts, findings=each) for run, each in zip(whole, counts, strict=True)] == [
        run.facts for run in found
    ]


def test_columns(built: Catalog) -> None:
    """Settings, metrics and findings are columns, and the config is there as JSON."""
    row = rows(Path(built.path))[str(Path(built.path).parent / "runs" / "damaged" / "events.jsonl")]
    assert ("damaged", 0.1, 1.5, 1.5) == (row["state"], row["config.lr"], row["last.loss"], row["best.loss"])
    assert (1, {"invalid-json": 1}, 1) == (row["findings.invalid-json"], json.loads(row["findings"]), row["errors"])
    assert ({"lr": 0.1}, "2026-11-03") == (json.loads(row["config"]), str(row["day"]))


def test_update_reads_what_changed(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New, changed and live runs are read, those that are gone are dropped, and a full file with none of them stays."""
    monkeypatch.setattr(tables, "_MOST_RUNS", 2)
    out = build(runs)
    before = digests(out)
    assert (8, 0, 8) == update_catalog(out)[:3]
    assert before == digests(out)
    put(runs, "run-3", stream("run-3", 3, steps=4))
    put(runs, "new", stream("new", 3, '{"lr":"auto","other":1}'))
    os.unlink(runs / "run-2" / "events.jsonl")
    report = update_catalog(out, workers=2)
    assert (8, 2, 6, 1) == report[:4]
    fresh = tmp_path / "fresh"
    build_catalog(runs, out=fresh)
    assert [run.row() for run in Catalog(fresh).runs()] == [run.row() for run in Catalog(out).runs()]
    after = digests(out)
    # Of two runs each, in the order of their streams.
    same = {f"{table}/000001-{number:04}.parquet" for table in ("runs", "names") for number in (0, 3)}
    manifest = Catalog(out).manifest
    files = (*manifest.runs, *manifest.names)
    assert same == {name for name in files if after[name] == before.get(name)}
    assert {name for name in before if name.endswith("parquet")} - same == {*manifest.former}


def test_live_run_is_read_again(tmp_path: Path) -> None:
    """A run that a writer had open is read by the next update, also if its stream is the same."""
    run = start_run(tmp_path / "runs", run_id="live")
    run.step(loss=1.0)
    build(tmp_path / "runs")
    assert ["running"] == [run.facts.state for run in Catalog(tmp_path / "catalog").runs()]
    assert 1 == update_catalog(tmp_path / "catalog").read
    run.abandon()
    update_catalog(tmp_path / "catalog")
    assert ["torn"] == [run.facts.state for run in Catalog(tmp_path / "catalog").runs()]


def test_workers_write_the_same_bytes(tmp_path: Path) -> None:
    """One process and three write the same files, whatever order their work ends in."""
    for index in range(300):
        put(tmp_path / "runs", f"{index:03}", stream(f"{index:03}", 1 + index % 3, steps=index % 40))
    for workers in (1, 3):
        build_catalog(tmp_path / "runs", out=tmp_path / f"catalog-{workers}", workers=workers)
    assert digests(tmp_path / "catalog-1") == digests(tmp_path / "catalog-3")


def test_build_that_is_stopped_leaves_the_catalog(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier catalog is what readers see, and the next build removes what was left."""
    out = build(runs)
    before = Catalog(out).runs().rows()
    put(runs, "new", stream("new", 1))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_manifest", stop)
        with pytest.raises(KeyboardInterrupt):
            build_catalog(runs, out=out)
    assert before == Catalog(out).runs().rows()
    (out / ".work").mkdir()
    build_catalog(runs, out=out)
    assert 9 == len(Catalog(out))
    assert not (out / ".work").exists()
    manifest = Catalog(out).manifest
    known = {*manifest.runs, *manifest.names, *manifest.index, *manifest.former}
    assert {str(file.relative_to(out)) for file in out.glob("*/*")} == known


def test_table_that_cannot_be_written(runs: Path, tmp_path: Path) -> None:
    """An error of the disk is one of the catalog, with its place, and what was there stays."""
    out = build(runs)
    before = rows(out)
    for file in out.glob("runs/000001-*.parquet"):
        file.with_name(file.name.replace("000001", "000002")).mkdir()
    put(runs, "new", stream("new"))
    with pytest.raises(CatalogError, match=r"cannot be written: .*; what was there is unchanged"):
        update_catalog(out)
    assert before == rows(out)


def test_what_is_not_a_catalog(runs: Path, tmp_path: Path) -> None:
    """Another version, another file, another directory and a missing one are each named."""
    out = build(runs)
    manifest = json.loads((out / MANIFEST).read_bytes())
    for content, fact in (
        (json.dumps({**manifest, "catalog": 99, "toyspec": "9.0"}), "layout 99, written by toyspec 9.0; .* build it"),
        ("[]", "not the file of a catalog"),
        (json.dumps({"catalog": LAYOUT}), "not the file of a catalog"),
        ("\xff", "not the file of a catalog"),
    ):
        (out / MANIFEST).write_text(content, encoding="latin-1")
        for use in (Catalog, update_catalog):
            with pytest.raises(CatalogError, match=fact):
                use(out)
    build_catalog(runs, out=out)
    assert 8 == len(Catalog(out))
    with pytest.raises(CatalogError, match="not a catalog; make one"):
        update_catalog(runs)
    with pytest.raises(CatalogError, match="not empty and not a catalog"):
        build_catalog(runs, out=runs)
    (out / Catalog(out).manifest.runs[0]).write_bytes(b"PAR1")
    with pytest.raises(CatalogError, match="cannot be read"):
        Catalog(out).runs()


HOSTILE = (
    r'{"a\u0000b":"x\u0000y","q\"uote":1,"LR":1,"lr":"text","Lr":[1,{"deep":null}],"":2,"back\\slash":3,'
    r'"n.e.s":{"t.e.d":4},"big":123456789012345678901234567890,"whole":12345678901,"mixed":true,'
    r'"\ud83d\ude00":"\u202e","null":null,'
    "\"'; drop table runs; --'\":5}"
)


def test_hostile_names_and_values(tmp_path: Path) -> None:
    """Any names and values of a config go into a catalog, and what a column cannot hold is in the JSON."""
    put(tmp_path / "runs", "a", stream("a", config=HOSTILE))
    odd = stream("b", config='{"lr":0.5,"mixed":2,"whole":0.5,"loss":"set","nan.loss":null}')
    put(tmp_path / "runs", "b'; select 1; --", odd.replace(b'"loss":1.5', b'"loss":null'))
    assert [] == build_catalog(tmp_path / "runs", out=tmp_path / "cata'log").errors
    found = list(rows(tmp_path / "cata'log").values())
    assert json.loads(HOSTILE) == json.loads(found[0]["config"])
    names = ("n.e.s.t.e.d", "whole", "'; drop table runs; --'")
    assert (4, 12345678901.0, 5) == tuple(found[0][f"config.{name}"] for name in names)
    assert ["true", "2"] == [row["config.mixed"] for row in found]
    whole, kept = list_runs(tmp_path / "runs", read="whole"), Catalog(tmp_path / "cata'log").runs()
    assert [run.start for run in whole] == [run.start for run in kept]
    assert [run.facts for run in whole] == [msgspec.structs.replace(run.facts, findings=None) for run in kept]
    odd = stream("c", steps=1).replace(b'"config"', b'"model":{"arch":"gpt"},"config"')
    put(tmp_path / "far", "c", odd.replace(b'"step":0', b'"step":%d' % 2**70))
    (far,) = rows(build(tmp_path / "far")).values()
    assert (None, None, 3.5) == (far["first_step"], far["last_step"], far["final_loss"])
    assert {"arch": "gpt"} == json.loads(far["model"])


def test_very_large_config(tmp_path: Path) -> None:
    """A run whose settings are larger than a row may be is listed without them."""
    put(tmp_path / "runs", "a", stream("a", config=json.dumps({"text": "x" * (9 << 20), "more": "y" * (9 << 20)})))
    (run,) = Catalog(build(tmp_path / "runs")).runs()
    assert ("a", {}, 2) == (run.facts.run, run.start, run.facts.last_step)


@pytest.mark.posix
def test_rows_that_need_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB holds 2,048 rows at a time, whatever their size: a build goes on with more memory."""
    config = json.dumps({f"setting-{number}": "x" * 100 for number in range(400)})
    for number in range(200):
        put(tmp_path / "runs", f"run-{number}", stream(f"run-{number}", config=config, steps=1))
    monkeypatch.setattr(tables, "_MEMORY", ("30MB", "30MB"))
    with pytest.raises(CatalogError, match="Out of Memory"):
        build(tmp_path / "runs")
    monkeypatch.setattr(tables, "_MEMORY", ("30MB", "80%"))
    answer = Catalog(build(tmp_path / "runs")).query('select count(*) from runs where "config.setting-7" is not null')
    assert list(answer.rows) == [(200,)]


def test_what_cannot_be_read_is_listed(runs: Path, tmp_path: Path) -> None:
    """A name that is not UTF-8 and gzip data that are cut are errors, as in lists; an update tries them again."""
    try:
        os.mkdir(os.fsencode(runs) + b"/\xff")
        (Path(os.fsdecode(os.fsencode(runs) + b"/\xff")) / "events.jsonl").write_bytes(stream("x"))
    except OSError:
        pytest.skip("this file system has names in UTF-8 only")
    link = runs / "run-1" / "events.jsonl"
    data = link.read_bytes()
    link.unlink()
    os.mkfifo(runs / "run-1" / "fifo")
    put(runs, "cut", gzip.compress(b'{"step": 1}\n' * 100)[:30], file="events.jsonl.gz")
    report = build_catalog(runs, out=tmp_path / "catalog")
    (name,) = (error for error in report.errors if error.message.startswith("its name is not text in UTF-8"))
    assert list(list_runs(runs).errors) == [error for error in report.errors if error is not name]
    assert 2 == len(report.errors)
    link.write_bytes(data)
    assert 2 == update_catalog(tmp_path / "catalog").read


REFUSED = (
    "select * from read_text('/etc/passwd')",
    "select * from read_csv('/etc/passwd')",
    "select * from glob('/etc/*')",
    "select * from '/etc/passwd'",
    "copy runs to '/tmp/never'",
    "copy (select 1) to '/tmp/never'",
    "export database '/tmp/never'",
    "attach '/tmp/never'",
    "install httpfs",
    "load httpfs",
    "select 1; select 2",
    "create table other as select 1",
    "insert into runs select * from runs",
    "set enable_external_access = true",
    "select * from read_parquet('http://127.0.0.1:1/x.parquet')",
    "selec",
    "",
    "select nope from runs",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_query_reaches_nothing_else(built: Catalog, sql: str) -> None:
    """A query is one SELECT over the catalog."""
    before = digests(Path(built.path).parent)
    with pytest.raises(ValueError):
        built.query(sql)
    assert before == digests(Path(built.path).parent)


def test_query_is_given_up(built: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time, and where it has more rows than a person or a program reads."""
    with pytest.raises(ValueError, match=r"given up after 0\.5 s; ask for less, or allow more time"):
        built.query("select count(*) from range(1000000) a, range(1000000) b", seconds=0.5)
    monkeypatch.setattr(reading, "_MOST_ROWS", 2)
    assert 2 == len(built.query("select * from range(2)").rows)
    with pytest.raises(ValueError, match="more than 2 rows"):
        built.query("select * from range(3)")


@pytest.mark.posix
def test_query_ends_by_an_interrupt(built: Catalog) -> None:
    """And not when it has the answer."""
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        built.query("select count(*) from range(1000000) a, range(1000000) b", seconds=600.0)


def test_query_reads_nothing_below_the_current_directory(
    built: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's own directory for temporary files, ``.tmp``, has no file of the catalog."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "x").write_text("x")
    with pytest.raises(ValueError, match="reaches only the tables of the catalog"):
        built.query("select content from read_text('.tmp/x')")


@pytest.mark.parametrize("end", ["", ";", "; -- the end;", " -- the end"])
def test_times_with_a_zone_are_text_in_utc(built: Catalog, end: str) -> None:
    """They need no package for time zones, at the top and within other values."""
    zoned = "timestamptz '2026-11-22 11:30:00+01'"
    found = built.query(f"select 'ö;' as a, {zoned} as at, [{zoned}] as list, {{'at': {zoned}}} as at{end}")
    text = "2026-11-22 10:30:00+00"
    assert (["a", "at", "list", "at"], [("ö;", text, [text], {"at": text})]) == found


def test_bucket(store: Store, tmp_path: Path) -> None:
    """A catalog of a bucket reads each run once, then only what has another entity tag; other objects are skipped."""
    for number in range(5):
        store.put(f"runs/{number}/events.jsonl", stream(str(number), 1 + number))
    for number in range(30):
        store.put(f"runs/{number % 5}/weights-{number}.bin", b"x")
    store.put("runs/foreign/events.jsonl", b'{"type":"user","message":"hi"}\n')
    store.page_size = 7
    out = tmp_path / "catalog"
    assert (5, 6, 0, 0, 1) == build_catalog(f"s3://{BUCKET}/runs", out=out)[:5]
    paths = [f"s3://{BUCKET}/runs/{number}" for number in range(5)]
    assert paths == [run.facts.path for run in Catalog(out).runs(order="name")]
    store.requests.clear()
    assert 0 == update_catalog(out).read
    assert [] == store.reads()
    store.put("runs/3/events.jsonl", stream("3", 4, steps=9))
    assert (5, 1, 4) == update_catalog(out)[:3]
    assert 8 == max(run.facts.last_step or 0 for run in Catalog(out).runs())


def test_bucket_that_cannot_be_listed(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The catalog stays as it was, and the message says what is wrong with the place."""
    store.put("runs/a/events.jsonl", stream("a"))
    out = tmp_path / "catalog"
    build_catalog(f"s3://{BUCKET}/runs", out=out)
    before = digests(out)
    store.every = status(403)
    for arguments in (["update", str(out)], ["build", f"s3://{BUCKET}/runs", "--out", str(out)]):
        assert exit_codes.USAGE == main(["catalog", *arguments])
        errors = capsys.readouterr().err
        assert "403" in errors
        assert "the catalog was not changed" in errors
    assert before == digests(out)


def test_incidents_of_health_rules_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that was built with health rules has them for good, and a list finds the same without one."""
    put(tmp_path / "runs", "sick", stream("sick", steps=40).replace(b'"loss":-26.5', b'"loss":null'))
    put(tmp_path / "runs", "well", stream("well"))
    own = [{"name": "mine", "type": "nonfinite", "metric": ["loss"]}]
    build(tmp_path / "runs", health=own)
    (tmp_path / "runs/well/events.jsonl").write_bytes(stream("well", steps=9).replace(b'"loss":0.5', b'"loss":null'))
    monkeypatch.chdir(tmp_path)
    assert 1 == update_catalog(tmp_path / "catalog").read
    answer = Catalog(tmp_path / "catalog").query('select run, alerts, "findings.health-mine" from runs order by 1')
    assert [("sick", 1, 1), ("well", 1, 1)] == answer.rows
    assert ["sick", "well"] == sorted(
        run.facts.run for run in Catalog(tmp_path / "catalog").runs().filter("alerts = 1")
    )
    for number, expected in (("9", []), ("0", ["sick", "well"])):
        listed = toyspec_within("ls", "runs", "--where", f"alerts > {number}", "--sort", "alerts", "--json")
        assert expected == sorted(run["run"] for run in json.loads(listed.stdout))


@pytest.mark.parametrize(
    ("wanted", "fact"),
    [
        ("alerts > 0", "'alerts': the catalog has none; build it with --health"),
        ("lrr > 1", "no run has a field 'lrr'; did you mean 'lr'"),
    ],
)
def test_filter_by_what_a_catalog_does_not_have_says_what_to_do(built: Catalog, wanted: str, fact: str) -> None:
    """It knows the names of its runs, and suggests one."""
    with pytest.raises(ExpressionError, match=fact):
        built.runs().filter(wanted)


def test_reader_of_a_catalog_that_is_updated(tmp_path: Path) -> None:
    """What was opened before an update is read after it, as it was."""
    for number in range(2):
        put(tmp_path / "runs", str(number), stream(str(number)))
        if number:
            assert 1 == update_catalog(tmp_path / "catalog").read
        else:
            before = Catalog(build(tmp_path / "runs"))
    assert (1, 2) == (len(before.runs()), len(Catalog(tmp_path / "catalog").runs()))
    build(tmp_path / "runs")
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
def test_failed_query_says_what_to_do(built: Catalog, sql: str, advice: str) -> None:
    """The reason comes with what there is."""
    with pytest.raises(ValueError, match=re.escape(advice)):
        built.query(sql)


def test_name_of_one_run_is_found(tmp_path: Path) -> None:
    """Runs with names of their own are filtered and queried by each of them, and share no columns."""
    number = 60
    for each in range(number):
        config = {f"own_{each}.x": each, "lr": 0.5, "Ω/~": "a"}
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "config": config}
        step = {"kind": "step", "t": 1.0, "step": 1, "loss": 0.5, "extra": {f"acc/{each}": each + 0.5}}
        put(tmp_path / "runs", str(each), "".join(json.dumps(line) + "\n" for line in (start, step)).encode())
    found = Catalog(build(tmp_path / "runs"))
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
