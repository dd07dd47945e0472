"""The processes of one run: ``toyspec.ranks_of`` and ``toyspec show``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import toyspec
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.reading.run_files import rank_file, rank_streams, ranks_beside
from toyspec.core.runs import stream_ends as rank_states
from toyspec.core.runs.run_facts import RankState
from toyspec.core.runs.stream_ends import states_of_other_ranks
from view_client import served

if TYPE_CHECKING:
    from loopback_store import Store


def write(directory: Path, rank: int, records: list[dict[str, Any]], size: int = 3) -> None:
    """Write the stream of a rank."""
    name = "events.jsonl" if rank == 0 else f"events.rank-{rank}.jsonl"
    start = {
        "kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "llama", "started_at": "2026-01-01T00:00:00Z",
        "rank": rank, "world_size": size,
    }  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record) + "\n" for record in [start, *records]]
    (directory / name).write_text("".join(lines), encoding="utf-8")


def steps(last: int, seconds: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    """Return the steps of a rank."""
    return [{"kind": "step", "t": n * seconds, "step": n, "loss": 1.0 / n, **more} for n in range(1, last + 1)]


def end(t: float, reason: str = "completed") -> list[dict[str, Any]]:
    """Return the end of a rank."""
    return [{"kind": "run_end", "t": t, "reason": reason}]


@pytest.mark.posix
def test_answer_has_a_path_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that cannot be read is named."""
    run = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    write(run, 0, steps(3) + end(3))
    (run / "events.rank-1.jsonl").write_bytes(b"\x1f\x8b not gzip")
    assert exit_codes.OK == main(["show", str(run)])
    assert "events.rank-1.jsonl: " in capsys.readouterr().out


def test_run_of_one_process(tmp_path: Path) -> None:
    """A run of one process, of any profile, is one rank; a path without a run is an error."""
    with toyspec.start_run(tmp_path, run_id="alone", git=None) as run:
        run.step(loss=1.0)
    found = toyspec.ranks_of(run.directory)
    assert (1, None, None, []) == (len(found.ranks), found.first_to_stop, found.slowest, found.missing)
    with pytest.raises(toyspec.StreamMissingError):
        toyspec.ranks_of(tmp_path / "nowhere")


@pytest.mark.parametrize(("last", "stopped"), [(3, 1), (8, None)])
def test_rank_that_is_still_written(tmp_path: Path, last: int, stopped: int | None) -> None:
    """A rank whose process lives has stopped when it is silent for many steps, and is late otherwise."""
    write(tmp_path / "run", 0, steps(20, 0.5) if stopped else steps(9, 0.5), size=2)
    write(tmp_path / "run", 1, steps(last, 0.5), size=2)
    writers = [
        toyspec.RunWriter(tmp_path / "run", run_id="llama", exist="resume", stream_name=name)
        for name in ("events.jsonl", "events.rank-1.jsonl")
    ]
    found = toyspec.ranks_of(tmp_path / "run")
    for writer in writers:
        writer.close()
    assert ["running", "running"] == [each.state for each in found.ranks]
    assert stopped == (None if found.first_to_stop is None else found.first_to_stop.rank)


@pytest.mark.parametrize("many", [2, 20_000])
def test_lists_leave_out_the_ranks_of_an_earlier_attempt(
    tmp_path: Path, many: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that went on with fewer processes those are named, torn or not, that the latest attempt has."""
    resumed = [{"kind": "run_resume", "t": 20.0, "from_step": 9, "world_size": 2}]
    # Of a long stream the ends alone are read, and the resumption is between them.
    more = [{"kind": "step", "t": 21.0 + at, "step": 10 + at, "loss": 0.5} for at in range(many)]
    for rank in range(4):
        ended = end(90_000.0) if rank == 0 else []
        write(tmp_path / "runs" / "run", rank, steps(9) + (resumed + more if rank < 2 else []) + ended, size=4)
    assert exit_codes.OK == main(["ls", str(tmp_path / "runs")])
    assert "complete, rank 1 torn" in capsys.readouterr().out.replace("?", "")


RUNS = [json.loads(line) for line in Path(__file__).parents[1].joinpath("ranks.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("expected", RUNS, ids=lambda run: str(run["about"]))
def test_all_that_is_known_of_the_ranks_of_a_run(expected: dict[str, Any], tmp_path: Path) -> None:
    """The whole answer on each run of `ranks.jsonl`."""
    for rank, records in expected["logs"].items():
        lines = [json.dumps(record) + "\n" for record in records]
        (tmp_path / rank_file(int(rank))).write_text("".join(lines), encoding="utf-8")
    found = msgspec.json.encode(toyspec.ranks_of(tmp_path)).decode().replace(str(tmp_path), "RUN")
    assert expected["row"] == json.loads(found)


def test_only_a_file_is_the_stream_of_a_rank(tmp_path: Path) -> None:
    """A directory of that name is none, and ranks are in their order."""
    for rank in (10, 2):
        (tmp_path / f"events.rank-{rank}.jsonl").write_bytes(b"")
    (tmp_path / "events.rank-3.jsonl").mkdir()
    assert [2, 10] == list(rank_streams(str(tmp_path)))
    expected = {rank: str(tmp_path / f"events.rank-{rank}.jsonl") for rank in (2, 10)}
    assert expected == ranks_beside(str(tmp_path / "events.jsonl"))
    assert {} == ranks_beside(str(tmp_path / "events.rank-2.jsonl"))


def test_rank_that_is_written_is_not_torn(tmp_path: Path) -> None:
    """A rank whose process runs is not called torn beside a rank 0 that has ended."""
    write(tmp_path / "run", 0, steps(9) + end(9.0))
    write(tmp_path / "run", 1, steps(9))
    stream = str(tmp_path / "run" / "events.jsonl")
    writer = toyspec.RunWriter(tmp_path / "run", run_id="llama", exist="resume", stream_name="events.rank-1.jsonl")
    try:
        assert [RankState(1, "running")] == states_of_other_ranks(stream)
    finally:
        writer.close()
    assert [RankState(1, "torn")] == states_of_other_ranks(stream)


def test_viewer_takes_in_that_a_rank_is_whole_now(tmp_path: Path) -> None:
    """A row has the other ranks and those that are torn, and loses these when only their log has changed."""
    write(tmp_path / "runs" / "run", 0, steps(9) + end(9.0))
    write(tmp_path / "runs" / "run", 2, steps(9))
    with served(tmp_path / "runs", tmp_path / "cache") as client:
        row = client.settled_rows()["run"]
        assert ([2], [[2, "torn"]]) == (row["other_ranks"], row["unended_ranks"])
        with (tmp_path / "runs" / "run" / "events.rank-2.jsonl").open("a", encoding="ascii") as file:
            file.write(json.dumps(end(9.0)[0]) + "\n")
        client.until(lambda: "unended_ranks" not in client.rows()["run"])
        assert [2] == client.rows()["run"]["other_ranks"]


def _in_store(store: Store, folder: Path) -> None:
    """Put every file below *folder* into the bucket."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            store.put(file.relative_to(folder).as_posix(), file.read_bytes())


def test_ranks_of_runs_in_a_store_are_listed(tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A run in a store is listed as one on a disk; each log of a rank costs one request."""
    # What other tests have read is known.
    rank_states._known_state.cache_clear()
    write(tmp_path / "runs" / "alone", 0, steps(9) + end(9.0), size=1)
    for rank in range(3):
        write(tmp_path / "runs" / "ranked", rank, steps(9) + (end(9.0) if rank < 2 else []))
    _in_store(store, tmp_path)
    assert exit_codes.OK == main(["ls", "s3://bucket/runs"])
    shown = capsys.readouterr().out
    assert (1, 1) == (shown.count("complete, rank 2 torn"), shown.count("complete  "))
    # One for the run alone, one for rank 0, and one for each of the others.
    assert 4 == len(store.reads())


@pytest.mark.parametrize("place", ["disk", "store"])
def test_catalog_has_the_ranks_of_its_runs(tmp_path: Path, store: Store, place: str) -> None:
    """A catalog has which ranks are torn; an update reads a run whose rank has changed."""
    for rank in range(3):
        write(tmp_path / "runs" / "run", rank, steps(9) + (end(9.0) if rank < 2 else []))
    root = str(tmp_path / "runs") if place == "disk" else "s3://bucket/runs"
    _in_store(store, tmp_path)
    toyspec.build_catalog(root, out=tmp_path / "catalog")
    [run] = toyspec.Catalog(tmp_path / "catalog").runs()
    assert (3, ["rank 2 torn"]) == (run.facts.world_size, run.facts.warnings)
    write(tmp_path / "runs" / "run", 2, steps(9) + end(9.0))
    _in_store(store, tmp_path)
    assert 1 == toyspec.update_catalog(tmp_path / "catalog").read
    [run] = toyspec.Catalog(tmp_path / "catalog").runs()
    assert [] == run.facts.warnings


def test_check_of_a_file_checks_the_other_ranks_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stream of another rank beside a file that is named is checked too, once where it is named as well."""
    names = [str(tmp_path / name) for name in ("events.jsonl", "events.rank-1.jsonl")]
    for name in names:
        Path(name).write_bytes(b"{\n")
    for named in (names[:1], names):
        assert 1 == main(["check", "--format", "json", *named])
        assert names == [each["path"] for each in json.loads(capsys.readouterr().out)["files"]]


def test_hook_checks_streams_of_every_rank() -> None:
    """What a commit has is checked where its name is that of a stream."""
    hooks = Path(__file__).parents[4] / ".pre-commit-hooks.yaml"
    if not hooks.is_file():
        pytest.skip("the hook is part of the source tree")
    (pattern,) = re.findall(r"files: (.*)", hooks.read_text(encoding="utf-8"))
    names = [
        "events.jsonl",
        "runs/a/events.rank-12.jsonl",
        "metrics.jsonl.gz",
        "a/events.rank-x.jsonl",
        "my-events.jsonl",
    ]
    assert names[:3] == [name for name in names if re.search(pattern, name)]


def test_compute_time_is_seen_among_the_metrics_of_a_step(tmp_path: Path) -> None:
    """A rank that logs compute_us by run.log is compared by it, as one whose steps have it as a member."""
    for rank in range(3):
        write(tmp_path, rank, steps(4, extra={"compute_us": 3000.0 if rank == 1 else 1000.0}) + end(4))
    slowest = toyspec.ranks_of(tmp_path).slowest
    assert slowest is not None
    assert (1, "compute_us", 3.0) == (slowest.rank, slowest.by, slowest.factor)
