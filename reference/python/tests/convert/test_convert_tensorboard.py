"""Tests of importing and exporting TensorBoard event files."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import imported, losses, records, scalars
from property_examples import PROFILE
from toyspec.convert import tensorboard_files

WALL = 1790000000.25


def event_file(
    directory: Path, *events: bytes, name: str = "events.out.tfevents.1790000000.host", wall: float = WALL
) -> Path:
    """Write an event file that begins at *wall*, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_bytes(b"".join(map(tensorboard_files.record, [tensorboard_files.version_event(wall), *events])))
    return file


def steps(count: int, tags: tuple[str, ...] = ("loss", "lr")) -> list[bytes]:
    """Return the events of a training loop."""
    return [
        tensorboard_files.scalar_event(WALL + step, step, tag, 0.5 * step + index)
        for step in range(count)
        for index, tag in enumerate(tags)
    ]


values = st.floats(width=32)
tags = st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode())


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(-5, 2**62), st.sampled_from(["a", "b", "c/d", "é"]) | tags, values),
        max_size=60,
    ),
    st.integers(1, 9),
)
def test_any_scalars_arrive(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[float, int, str, float]], repeats: int
) -> None:
    """Every scalar arrives in order with tag, step and value; what differs is in the report, cause by cause."""
    tmp_path = tmp_path_factory.mktemp("tb")
    items = [(wall + turn, step, tag, value) for turn in range(repeats) for wall, step, tag, value in items]
    events = [tensorboard_files.scalar_event(WALL + wall, step, tag, value) for wall, step, tag, value in items]
    event_file(tmp_path / "a", *events)
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    expected = [
        (tag, step if step >= 0 else None, value if math.isfinite(value) else None) for _, step, tag, value in items
    ]
    assert expected == scalars(tmp_path / "runs" / "a")
    assert len(items) == run.items
    found = losses(run)
    named = [record for record in records(tmp_path / "runs" / "a") if "nonfinite" in record]
    assert sum(not math.isfinite(value) for *_, value in items) == len(named)
    assert sum(step < 0 for _, step, _, _ in items) == found.get("step-unusable", 0)
    start = math.floor(min([WALL, *(WALL + wall for wall, *_ in items[:99])]))
    times = [record["t"] for record in records(tmp_path / "runs" / "a") if record["kind"] == "scalars"]
    assert sorted(times) == times
    moved = sum(t != WALL + wall - start for t, (wall, *_) in zip(times, items, strict=True))
    assert moved == found.get("clock-jump", 0)


@pytest.mark.parametrize(("jump", "moved", "note"), [(-500.0, 79, "back by 499 s"), (3e8, 1, "forward by 3e+08 s")])
def test_times_after_a_clock_jumped_keep_their_distances(tmp_path: Path, jump: float, moved: int, note: str) -> None:
    """A jump moves what follows by as much, until the clock is back; no time is flattened, and the report says it."""
    walls = [WALL + second + (jump if second > 110 and (jump < 0 or second == 111) else 0) for second in range(190)]
    events = [tensorboard_files.scalar_event(wall, step, "loss", 0.5) for step, wall in enumerate(walls)]
    event_file(tmp_path / "a", *events)
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    times = [record["t"] for record in records(tmp_path / "runs" / "a") if record["kind"] == "scalars"]
    assert [1.0] * 77 == [after - before for before, after in pairwise(times[112:])]
    assert 190 > times[-1]
    assert {"clock-jump": moved} == losses(run)
    assert f"its clock went {note}: the times after that are moved by as much" in run.notes


def test_files_of_a_directory_are_one_run_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Two that were written at once are merged, and a third one goes on with them; no time of any is changed."""
    for number, (tag, begin) in enumerate((("train", 0), ("valid", 0), ("late", 500))):
        events = [tensorboard_files.scalar_event(WALL + begin + second, second, tag, 0.5) for second in range(9)]
        event_file(tmp_path / "a", *events, name=f"events.out.tfevents.{1790000000 + begin}.host.{number}.0")
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    assert {} == {cause: count for cause, count in losses(run).items() if cause != "clock-jump"}
    expected = [(tag, step, 0.5) for step in range(9) for tag in ("train", "valid")]
    assert [*expected, *(("late", step, 0.5) for step in range(9))] == scalars(tmp_path / "runs" / "a")


def hparams(wall: float) -> list[bytes]:
    """Return the events of a folder that add_hparams makes, with one metric."""
    return [
        tensorboard_files.hparams_event(wall, {"lr": 0.5}, ""),
        tensorboard_files.scalar_event(wall, 0, "best", 0.25),
    ]


def loop(tag: str, begin: float = 0.0, seconds: float = 100.0) -> list[bytes]:
    """Return the events of two steps."""
    return [tensorboard_files.scalar_event(WALL + begin + seconds * step, step, tag, 0.5 + step) for step in range(2)]


FOLDERS: dict[str, tuple[dict[str, list[bytes]], dict[str, list[str]]]] = {
    "Keras": (
        {"train": loop("epoch_loss"), "validation": loop("epoch_loss", 50.0)},
        {"tb": ["train/epoch_loss", "validation/epoch_loss"]},
    ),
    "below a run": ({"": loop("loss"), "eval": loop("loss", 50.0)}, {"tb": ["loss", "eval/loss"]}),
    "named already": ({"": loop("loss"), "val": loop("val/loss")}, {"tb": ["loss", "val/loss"]}),
    "add_scalars": (
        {"": loop("lr"), "run_loss_a": loop("run/loss"), "run_loss_b": loop("run/loss")},
        {"tb": ["lr", "run/loss/a", "run/loss/b"]},
    ),
    "add_hparams": ({"": loop("loss"), "1790000100.5": hparams(WALL + 99.0)}, {"tb": ["loss", "best"]}),
    "one folder": ({"train": loop("loss")}, {"train": ["loss"]}),
    "other names": ({"a": loop("loss"), "b": loop("loss")}, {"a": ["loss"], "b": ["loss"]}),
    "other times": (
        {"train": loop("loss"), "val": loop("loss", 9000.0)}, {"train": ["loss"], "val": ["loss"]},
    ),
    "trials": (
        {"": [tensorboard_files.scalar_event(WALL, 0, "n", 1.0)], "a": [*hparams(WALL), *loop("loss")]},
        {"tb": ["n"], "a": ["best", "loss"]},
    ),
    "trials alone": ({"a": hparams(WALL), "b": hparams(WALL)}, {"a": ["best"], "b": ["best"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_one_run_are_that_run(tmp_path: Path, name: str) -> None:
    """They are known by names or content, and by their times; their values have the names of the folders."""
    given, expected = FOLDERS[name]
    for folder, events in given.items():
        event_file(tmp_path / "tb" / folder, *events, wall=tensorboard_files.decode_event(events[0]).wall)
    report = imported(tmp_path / "tb", tmp_path / "runs")
    assert expected == {
        run.run_id: list(dict.fromkeys(tag for tag, _, _ in scalars(run.target))) for run in report.runs
    }
    config = [records(run.target)[0].get("config") for run in report.runs]
    assert ("add_hparams" == name) == (config == [{"lr": 0.5}])


@pytest.mark.parametrize("count", [3, 400])
def test_flipped_byte_costs_one_value(tmp_path: Path, count: int) -> None:
    """Wherever a byte is flipped, all other values arrive, and the report names the place."""
    file = event_file(tmp_path / "a", *steps(count))
    data = file.read_bytes()
    imported(tmp_path / "a", tmp_path / "good")
    whole = scalars(tmp_path / "good" / "a")
    places = range(len(data)) if count == 3 else range(0, len(data), 1499)
    for place in places:
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        (run,) = imported(tmp_path / "a", tmp_path / f"bad{place}").runs
        found = scalars(tmp_path / f"bad{place}" / "a")
        assert 1 == losses(run)["damaged"]
        assert len(found) >= len(whole) - 1
        assert run.has_damage
        rest = iter(whole)
        assert all(item in rest for item in found)


def test_torn_file_keeps_every_whole_value(tmp_path: Path) -> None:
    """A file that ends at any byte gives the values before it."""
    file = event_file(tmp_path / "a", *steps(3))
    data = file.read_bytes()
    ends, at = [], 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at : at + 8], "little")
        ends.append(at)
    # Ends within a record are alike: `make test` tries some of them.
    for size in {*range(0, len(data), 1 if PROFILE != "quick" else 9), *ends[:-1]}:
        file.write_bytes(data[:size])
        (run,) = imported(file, tmp_path / f"runs{size}").runs
        whole = sum(end <= size for end in ends)
        assert max(0, whole - 1) == len(scalars(run.target))
        assert (size not in (0, *ends)) == run.has_damage


@given(st.binary(max_size=400))
def test_any_bytes_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Hostile bytes in a record crash nothing."""
    tmp_path = tmp_path_factory.mktemp("tb")
    file = tmp_path / "a.tfevents"
    file.write_bytes(tensorboard_files.record(data))
    imported(file, tmp_path / "runs")


def test_number_of_another_field_is_not_a_scalar(tmp_path: Path) -> None:
    """A later version of the format may add a field of four bytes to a value."""
    event = tensorboard_files.scalar_event(1.7e9, 1, "loss", 0.5)
    assert 1 == event.count(b"\x15")  # field 2, four bytes
    later = event.replace(b"\x15", b"\x7d")  # field 15
    file = event_file(tmp_path / "a", later, tensorboard_files.scalar_event(1.7e9, 2, "loss", 0.25))
    (run,) = imported(file, tmp_path / "runs").runs
    assert [("loss", 2, 0.25)] == scalars(run.target)


def test_long_zeros_are_skipped_in_linear_time(tmp_path: Path) -> None:
    """A file system may leave megabytes of zeros in a file after a crash."""
    file = event_file(tmp_path / "a", *steps(5))
    data = file.read_bytes()
    file.write_bytes(data[:200] + bytes(3_000_000) + data)
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    assert 10 <= len(scalars(run.target))
    assert {"damaged": 1, "clock-jump": 4} == losses(run) or 1 == losses(run)["damaged"]
