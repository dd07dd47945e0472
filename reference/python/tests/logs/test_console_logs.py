"""The console output of programs, which print much before their first metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import toyspec_within as toyspec
from live_streams import append, nothing, watch
from logs.test_dialects import rows_of
from sample_rows import sample_of
from toyspec import check, read
from toyspec.core.reading.follower import TailEvent
from toyspec.core.reading.log_detection import CONSOLE_BYTES, HEAD_BYTES
from toyspec.core.reading.records import Row

SETTINGS = b"I1120 10:00:00 pyconfig.py:591] Config param checkpoint {'period': 0}\n" * 1500


@pytest.mark.parametrize("name", ["maxtext-console", "nanogpt-console", "console", "mllog"])
def test_metrics_after_many_settings_are_found(name: str, tmp_path: Path) -> None:
    """A program is known by its first metrics, however far within the first part of the output they are."""
    path = sample_of(name)
    assert HEAD_BYTES < len(SETTINGS) < CONSOLE_BYTES
    log = tmp_path / "slurm-1.out"
    log.write_bytes(SETTINGS + path.read_bytes())
    (report,) = check(log).files
    assert report.dialect is not None
    rows = [row.values for row in rows_of(path)]
    assert rows == [row.values for row in rows_of(log)]
    assert (name, len(rows), []) == (report.dialect.name, report.records, report.findings)
    assert name in toyspec("doctor", "--json", str(tmp_path)).stdout.decode()


@pytest.mark.parametrize("size", [0, 700, len(SETTINGS)])
def test_followed_settings_are_not_damage(size: int, tmp_path: Path) -> None:
    """While only text is there, nothing is reported; the metrics come as soon as they are printed."""
    path = sample_of("maxtext-console")
    log = tmp_path / "train.log"
    lines = path.read_bytes().splitlines(keepends=True)
    log.write_bytes(SETTINGS[:size] + b"\n")
    actions = [append(log, line) for line in lines]
    items = watch(log, nothing, *actions, nothing)
    assert [row.raw for row in rows_of(path)] == [item.raw for item in items if isinstance(item, Row)]
    assert [] == [item for item in items if isinstance(item, TailEvent)]


def test_text_without_metrics_is_reported_at_the_end(tmp_path: Path) -> None:
    """A follower gives the gaps that a reading of the whole gives; tail names three, and counts the others."""
    log = tmp_path / "notes.txt"
    log.write_bytes(b"I am text\n" * 40)
    gaps = [item for item in watch(log, nothing) if isinstance(item, TailEvent)]
    reading = read(log, mode="salvage")
    assert [] == list(reading)
    assert [gap.line for gap in reading.report.gaps] == [gap.line for gap in gaps]
    said = toyspec("tail", "--once", str(log)).stderr.decode().splitlines()
    assert 4 == len(said)
    assert "toyspec tail: 37 more lines were skipped; see `toyspec check`" == said[-1]


def curves(tmp_path: Path, text: str) -> tuple[str | None, dict[str, list[tuple[object, object]]]]:
    """Return the dialect by which a log of *text* is recognized, and the steps and values of each metric."""
    log = tmp_path / "train.log"
    log.write_bytes(text.encode())
    reading = read(log, mode="salvage")
    found: dict[str, list[tuple[object, object]]] = {}
    for row in reading:
        assert isinstance(row, Row)
        for metric, value in row.values.items():
            found.setdefault(metric, []).append((row.step, value))
    use = reading.report.dialect
    return None if use is None else use.name, found


EPOCH = "".join(f"Epoch 1 [{at}/100] Loss: 2.5\n" for at in range(100))
STEPS = "".join(f'{{"step":{step},"Loss":2.5}}\n' for step in range(100))


@pytest.mark.parametrize(
    "text", [f"{EPOCH}val Loss: 0.5\n", f'{STEPS}{{"step":100,"mode":"val","Loss":0.5}}\n'], ids=["console", "json"]
)
def test_phase_that_comes_after_many_records_is_one_of_its_own(tmp_path: Path, text: str) -> None:
    """An evaluation is not a point of the training's curve, which need not name its phase."""
    _, values = curves(tmp_path, text)
    assert {"Loss": 100, "val/Loss": 1} == {name: len(found) for name, found in values.items()}


def test_log_after_a_long_preamble_is_imported_as_it_is_read(tmp_path: Path) -> None:
    """A reading that names the dialect finds the keys of the records as far within the output as one that does not."""
    log = tmp_path / "train.log"
    preamble = "installing\n" * (HEAD_BYTES // 10)
    log.write_text(f"{preamble}train Epoch 1, loss: 0.5\nval Epoch 1, loss: 0.75\n")
    values = [row.values for row in read(log) if isinstance(row, Row)]
    assert [{"loss": 0.5}, {"val/loss": 0.75}] == values
    named = [row.values for row in read(log, dialect="console") if isinstance(row, Row)]
    assert values == named
    assert 0 == toyspec("import", str(log), "--out", str(tmp_path / "runs")).returncode
    made = [record.values for record in read(tmp_path / "runs" / "train") if record.kind == "scalars"]
    assert values == made


def test_a_headline_is_not_the_end_of_its_epoch(tmp_path: Path) -> None:
    """A run that was killed in its last epoch did not end; nor does a step beyond the number of epochs end one."""
    log = tmp_path / "train.log"
    for text, code in [
        ("Epoch 1/2\nloss: 0.5\nEpoch 2/2\n", 1),
        ("Epoch 1/2\nloss: 0.5\nEpoch 2/2\nloss: 0.25\n", 0),
        ("Epoch 1/3, Step 40/50, loss: 0.5\nEpoch 1/3, avg loss: 0.5\nEpoch 2/3, Step 50/50, loss: 0.5\n", 1),
    ]:
        log.write_text(text)
        assert code == toyspec("check", "--require-complete", str(log)).returncode, text


def test_a_long_progress_bar_is_read_to_its_end(tmp_path: Path) -> None:
    """However often a line was overwritten, what a terminal shows in the end is read."""
    states = [f"Epoch 1/2: {at:3}%|{'#' * 40:40}| loss: 0.{at:03}" for at in range(1, 300)]
    name, values = curves(tmp_path, "\r".join(states) + "\n")
    assert ("console", {"loss": [(1, 0.299)]}) == (name, values)


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"objective of -0.15 over 1000 frames\n", "toyspec dialect new FILE"),
        ('{"step":1}\n'.encode("utf-16"), "iconv -f UTF-16"),
        (b"0.5\n0.25\n0.125\n", "--columns step,loss"),
        (b"[0.5, 0.25, 0.125]", "jq -c '.[]'"),
        (b"1,0.5,0.25\n2,0.5,0.25\n", "--columns step,loss"),
    ],
)
def test_numbers_without_a_name_come_with_what_names_them(data: bytes, advice: str, tmp_path: Path) -> None:
    """What is not read as a log comes with the option, or the command, that reads it."""
    file = tmp_path / "loss.txt"
    file.write_bytes(data)
    assert advice in toyspec("check", str(file)).stdout.decode()


def test_a_column_without_a_name_is_read_by_the_advice(tmp_path: Path) -> None:
    """The values are in the order of their lines."""
    (tmp_path / "loss.txt").write_text("0.5\n0.25\n0.125\n")
    shown = toyspec("show", "--columns", "loss", str(tmp_path / "loss.txt")).stdout.decode()
    assert "first 0.5, last 0.125" in shown


def test_each_of_many_writers_has_a_curve() -> None:
    """Those beyond the number whose state is kept are not mixed with the first one either."""
    data = b"".join(b"[rank%d]: step 1 loss: %d.5\n" % (rank, rank) for rank in range(300))
    values = [record.values for record in read(data, mode="salvage")]
    assert {"loss": 0.5} == values[0]
    assert [{f"rank{rank}/loss": rank + 0.5} for rank in range(1, 300)] == values[1:]
