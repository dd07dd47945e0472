"""The samples of a run: the worst and the best of each group, with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import toyspec
from command_line import toyspec_within
from toyspec.core.errors import ExpressionError
from toyspec.core.runs.samples import samples_of
from toyspec.core.writing.environment import TrainingProcess

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stream(tmp_path: Path) -> str:
    """Return the stream of a run with two groups at each of two steps, one without, and one at the step before it."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        for step in (1, 2):
            for at, reward in enumerate([0.5, 0.1, float("nan"), 0.9, 0.7, 0.2]):
                run.sample("p", f"text {at}", step=step, group=f"g{at % 2}", reward=reward, rewards={"form": 6 - at})
        run.sample("p", "alone", step=2)
        run.step(3, loss=1.0)
        run.sample("p", "after")
    return str(tmp_path / "a" / "events.jsonl")


@pytest.mark.parametrize(
    ("step", "sort", "most", "expected"),
    [
        (1, None, 1, ["text 0", "text 1"]),
        (1, "reward", None, ["text 2", "text 0", "text 4", "text 1", "text 5", "text 3"]),
        (2, "reward", 2, ["text 2", "text 4", "text 1", "text 3", "alone"]),
        (1, "reward", 1, ["text 2", "text 1"]),
        (1, "form", 2, ["text 4", "text 0", "text 5", "text 1"]),
        (3, None, 2, ["after"]),
        (4, "reward", 2, []),
    ],
)
def test_worst_and_best_of_each_group(
    stream: str, step: int, sort: str | None, most: int | None, expected: list[str]
) -> None:
    """A group is that of one step; what was not finite is the lowest, and half of those kept are the highest."""
    found = samples_of(stream, step=step, sort=sort, most=most)
    assert expected == [sample["text"] for sample in found]
    lines = {record.line: record.get("text") for record in toyspec.read(stream)}
    assert expected == [lines[sample["line"]] for sample in found]


def test_number_that_no_sample_has_is_refused(stream: str) -> None:
    """The names that are alike are named."""
    with pytest.raises(ExpressionError, match="no sample has a number 'rewad'; did you mean 'reward'"):
        samples_of(stream, sort="rewad")


def test_samples_of_other_ranks_name_their_stream(tmp_path: Path) -> None:
    """A line belongs to the stream of its rank."""
    for rank in (0, 1):
        process = TrainingProcess(rank, 2, "RANK")
        with toyspec.start_run(tmp_path, run_id="a", ranks="all", process=process, git=None) as run:
            run.sample("p", f"of {rank}", step=1)
    found = samples_of(str(tmp_path / "a" / "events.jsonl"))
    assert [("of 0", None), ("of 1", "events.rank-1.jsonl")] == [(each["text"], each.get("stream")) for each in found]


def test_messages_are_shown_and_inert(tmp_path: Path) -> None:
    """The command prints a conversation message by message, and no text of it obeys or breaks a line."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        said = [{"role": "user", "content": "one\x1b[31m\ntwo"}, {"role": "assistant", "content": "é"}]
        run.sample("p", "t", step=1, reward=0.5, messages=said)
    printed = toyspec_within("samples", "a", cwd=tmp_path).stdout.decode()
    expected = [
        "step 1  reward 0.5  line 2",
        "  prompt: p",
        r"  user: one\x1b[31m\x0atwo",
        "  assistant: é",
        "  text: t",
    ]
    assert expected == printed.splitlines()
