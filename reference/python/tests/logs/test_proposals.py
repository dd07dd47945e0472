"""What is proposed for logs that no dialect fits, and consoles made at random, which are read as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import toyspec_within as toyspec
from property_examples import examples
from toyspec import check_bytes, read
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.records import Row
from toyspec.logs.forms import CsvForm
from toyspec.logs.proposal import propose

LOGS = [json.loads(line) for line in Path(__file__).parents[1].joinpath("proposals.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("expected", LOGS, ids=lambda log: str(log["about"]))
def test_a_proposal_reads_what_a_person_would(expected: dict[str, Any]) -> None:
    """The rows with values, whether it is sure, and what is left out are those of `proposals.jsonl`; null for none."""
    data = expected["log"].encode()
    assert DialectChoice().choose(data) is None
    proposal = propose(data, "proposed")
    found: dict[str, Any] = {"about": expected["about"], "log": expected["log"], "rows": None}
    if proposal is not None:
        choice = DialectChoice("proposed", own=(proposal.dialect,))
        rows = [[row.step, row.values] for row in read(data, mode="salvage", dialect=choice) if row.values]
        found |= {"rows": rows, "sure": proposal.sure, "left_out": list(proposal.left_out)}
    assert expected == found


def test_a_proposal_is_kept_once(tmp_path: Path) -> None:
    """Without --write nothing is written; with it the log is read by the dialect, which nothing overwrites."""
    (tmp_path / "my.log").write_text(LOGS[0]["log"])
    command = ("dialect", "new", "my.log")
    assert 0 == toyspec(*command, cwd=tmp_path).returncode
    assert ["my.log"] == [each.name for each in tmp_path.iterdir()]
    assert b"read as proposed" in toyspec("show", "my.log", cwd=tmp_path).stderr
    assert 0 == toyspec(*command, "--write", "--drop", "Loss/Val", cwd=tmp_path).returncode
    kept = (tmp_path / "toyspec.toml").read_bytes()
    assert b"Loss_Train" in kept
    assert b"Loss_Val" not in kept
    assert 2 == toyspec(*command, "--write", cwd=tmp_path).returncode
    assert kept == (tmp_path / "toyspec.toml").read_bytes()
    assert b"read as: my dialect" in toyspec("check", "my.log", cwd=tmp_path).stdout


NAMES = ("loss", "train loss", "Learning Rate", "acc", "val/acc", "grad_norm", "time", "size", "Tokens/sec", "top_1")
STEPS = ("step", "Step", "iter", "iteration", "update", "global_step")
FORMS = (
    ("{w}: {s}, {p}", ", ", ": "),
    ("{w} {s} | {p} |", " | ", " "),
    ("[{w} {s}] {p}", ", ", "="),
    ("{w}={s} - {p}", " - ", ":"),
    ("{p} | {w}: {s} | 3.2 it/s", " | ", ": "),
)
PREFIXES = ("", "2026-05-01 10:00:00,123 - INFO - ", "[2026-05-01 10:00:00] ", "INFO:root:", "train.py:80 ")
WRITERS = ("[rank0]: ", "[rank1]: ", "(Worker pid=7) ", "gpu3: ", "[teacher] ", "seed 3 ")


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_console_comes_out_as_it_went_in(data: st.DataObject) -> None:
    """Whatever the words, the order, the prefix and the writers, each value is at its step, in its curve.

    A training that starts again is reported, and one that does not is not.
    """
    form, between, sign = data.draw(st.sampled_from(FORMS))
    word, prefix = data.draw(st.sampled_from(STEPS)), data.draw(st.sampled_from(PREFIXES))
    writers = data.draw(st.lists(st.sampled_from(WRITERS), unique=True, max_size=3)) or [""]
    names = ["loss", *data.draw(st.lists(st.sampled_from(NAMES[1:]), unique=True, max_size=4))]
    trainings, first = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 5))
    figures = st.floats(0.001, 999).map(lambda value: round(value, 4))
    lines, expected = [], []
    for step in [first + 10 * count for _ in range(trainings) for count in range(3)]:
        for writer in writers:
            values = {name: data.draw(figures) for name in data.draw(st.permutations(names))}
            pairs = between.join(f"{name}{sign}{value}" for name, value in values.items())
            lines.append(f"{writer}{prefix}{form.format(w=word, s=step, p=pairs)}\n")
            label = "" if writer == writers[0] else writer.strip("()[]: ") + "/"
            expected.append((step, {f"{label}{name}": value for name, value in values.items()}))
    log = "".join(lines).encode()
    assert expected == [(row.step, row.values) for row in read(log, mode="salvage") if isinstance(row, Row)]
    found = [each.message for each in check_bytes(log).findings]
    assert (trainings > 1) == any("start again" in each for each in found)
    assert trainings > 1 or not found


def test_names_of_a_drawn_table_are_of_few_lines() -> None:
    """Lines without a number are the header of a table with bars; it has the last of them, however many there are."""
    form = CsvForm("|")
    for at in range(100):
        assert form.read(b"| a%d | b |" % at, first=not at) is None
    assert form.header is not None
    assert ["a96 a97 a98 a99", "b b b b"] == form.header[1:3]
