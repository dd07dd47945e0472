"""Digests: bounded and exact, with what they leave out."""

from __future__ import annotations

import json
from collections import Counter
from math import isfinite
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toyspec
from property_examples import examples
from toyspec.agents.digest import LogPlace, TooFewTokensError, count_tokens, cursor_of, digest
from toyspec.core.errors import StreamReplacedError
from toyspec.core.runs.reported import Reported, grouped
from toyspec.core.writing.environment import TrainingProcess

if TYPE_CHECKING:
    from pathlib import Path

    from toyspec.agents.digest import Digest

VALUES = st.floats(width=32) | st.floats() | st.integers(-(2**53), 2**53).map(float)
ENOUGH = 10**9
FEW = examples(25)


def write(directory: str | Path, values: list[float], *, until: int | None = None) -> str:
    """Write a run with a step of each of *values*; return the path of its stream, of its first *until* lines."""
    lines: list[dict[str, Any]] = [
        {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "config": {"lr": 0.5}}
    ]
    for step, value in enumerate(values, 1):
        named = {"loss": value} if isfinite(value) else {"loss": None, "nonfinite": {"loss": str(value)}}
        lines.append({"kind": "step", "t": float(step), "step": step, **named, "extra": {"twice": step * 2, "é": 1}})
        if step % 3 == 0:
            lines.append({"kind": "note", "t": float(step), "step": step, "text": f"note {step}"})
    lines.append({"kind": "run_end", "t": len(values) + 1.0, "reason": "completed"})
    path = f"{directory}/events.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines[:until])
    return path


def answered(path: str, tokens: int, since: str | None = None) -> Digest:
    """Return a digest of *tokens* tokens, or of the fewest that it needs."""
    try:
        return digest([path], tokens=tokens, since=since)
    except TooFewTokensError as error:
        return digest([path], tokens=error.least, since=since)


def as_text(items: list[Any]) -> list[str]:
    """Return *items* as texts that can be compared, sorted."""
    return sorted(map(repr, items))


def test_tokens_are_counted_by_the_rule() -> None:
    """Four letters, three digits, one sign or one byte are one token."""
    assert 0 == count_tokens("   ")
    assert 2 + 1 + 2 + 1 == count_tokens("hello 123 1234\n")
    assert 2 + 3 == count_tokens("é €")


@given(st.lists(VALUES, max_size=30), st.integers(1, 3000))
@settings(max_examples=FEW)
def test_digest_is_never_longer_than_asked(values: list[float], tokens: int) -> None:
    """A digest has at most N tokens, or is refused with the exact least N, which is enough."""
    with TemporaryDirectory() as directory:
        path = write(directory, values)
        least = needed(path, tokens)
        made = digest([path], tokens=least or tokens)
        assert count_tokens(made.render()) <= (least or tokens)
        if least:
            assert least > tokens
            assert needed(path, least - 1) == least


def needed(path: str, tokens: int) -> int | None:
    """Return how many tokens a digest needs; None if *tokens* are enough."""
    try:
        digest([path], tokens=tokens)
    except TooFewTokensError as error:
        return error.least
    return None


@given(st.lists(VALUES, min_size=1, max_size=40))
@settings(max_examples=FEW)
def test_every_number_is_at_its_line(values: list[float]) -> None:
    """The value of each point is that of the record at its line, and the extremes are those of the log."""
    with TemporaryDirectory() as directory:
        path = write(directory, values)
        records = {record.line: record for record in toyspec.read(path)}
        made = digest([path], tokens=ENOUGH)
        for item in made.items:
            for point in item.points.values():
                value = records[point.line].values[item.name]
                assert value is not None
                assert point.value == (value if isfinite(value) else str(value))
                assert point.step == records[point.line].step
        (loss,) = (item for item in made.items if (item.section, item.name) == ("extremes", "loss"))
        found = {role: point.value for role, point in loss.points.items()}
        kept = [value for value in values if isfinite(value)]
        assert found.get("lowest") == min(kept, default=None)
        assert found.get("highest") == max(kept, default=None)
        assert loss.facts.get("not_finite", 0) == len(values) - len(kept)


@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(1, 400))
@settings(max_examples=FEW)
def test_short_digest_is_the_start_of_a_long_one(values: list[float], tokens: int) -> None:
    """What a short digest lacks is counted by its section; it has the end and the extremes of the loss."""
    with TemporaryDirectory() as directory:
        path = write(directory, values)
        short, whole = answered(path, tokens), digest([path], tokens=ENOUGH)
    assert [item for item in whole.items if item in short.items] == short.items
    assert Counter(item.section for item in whole.items) == Counter(
        [item.section for item in short.items] + [kind.partition(" ")[0] for kind in Counter(short.left_out).elements()]
    )
    assert {("ends", ""), ("extremes", "loss")} <= {(item.section, item.name) for item in short.items}
    assert {} == whole.left_out


@given(st.lists(VALUES, min_size=4, max_size=30), st.data())
@settings(max_examples=FEW)
def test_cursors_part_the_log(values: list[float], data: st.DataObject) -> None:
    """What is new since a cursor, and what was there before, are all notes and values, each once."""
    cut = data.draw(st.integers(1, len(values)))
    with TemporaryDirectory() as directory:
        before = digest([write(directory, values, until=cut)], tokens=ENOUGH)
        path = write(directory, values)
        after = digest([path], tokens=ENOUGH, since=before.cursor)
        whole = digest([path], tokens=ENOUGH)
    for section in ("notes", "settings", "findings"):
        parts = [item for item in (*before.items, *after.items) if item.section == section]
        if section == "findings":
            # A run that had not ended is reported at its last line.
            parts = [item for item in parts if item.name != "run-end-missing"]
        assert as_text([item for item in whole.items if item.section == section]) == as_text(parts)
    counts = [
        sum(item.facts["values"] for item in made if item.section == "extremes")
        for made in ([*before.items, *after.items], whole.items)
    ]
    assert counts[0] == counts[1]


def test_errors_come_before_what_is_frequent(tmp_path: Path) -> None:
    """Of spikes, a loss that diverged, NaN and an unreadable line, a short digest has each, errors first."""
    losses = [1.0 + step % 7 / 100 for step in range(2000)]
    for step in range(300, 1100, 20):
        losses[step] = 9.0
    losses[-40:] = [99.0 + step for step in range(40)]
    losses[1500] = float("nan")
    path = write(tmp_path, losses)
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    with open(path, "wb") as file:
        file.writelines([*lines[:1000], b"{\n", *lines[1000:]])
    items = [item for item in digest([path], tokens=2000).items if "level" in item.facts]
    assert ["error", "error", "error", "warning", "warning"] == [item.facts["level"] for item in items][:5]
    names = ["loss-diverged", "loss-not-finite", "invalid-json", "loss-rising", "loss-spike"]
    assert names == [item.name for item in items][:5]
    # From the second spike on, one as high is usual; the loss at the end is higher.
    assert (3, 1) == (items[4].facts["count"], items[0].facts["open"])
    assert "open" not in items[2].facts
    short = digest([path], tokens=520)
    assert {"alerts warning loss-spike": 1} == {key: number for key, number in short.left_out.items() if "spike" in key}


def test_incidents_are_grouped_by_rule_level_and_metric() -> None:
    """An end closes the incident of its rank and is not counted; a level that is settled leaves it open.

    An end without a begin is a group of its own.
    """

    def reported(rule: str, event: Any, rank: int = 0, level: str = "warning") -> Reported:
        return Reported(rule, level, rule, metric="loss", rank=rank, event=event)

    groups = grouped([
        reported("a", "begun"), reported("a", "begun", 1), reported("a", "recovered", 1, "info"),
        reported("a", "settled", 0, "info"),
        reported("b", "begun"), reported("b", "recovered", 0, "info"), reported("c", "recovered", 0, "info"),
        Reported("d", "error", "", number=7),
    ])  # fmt: skip
    assert 1 == groups[1].settled
    assert [("d", 7, 0), ("a", 2, 1), ("b", 1, 0), ("c", 1, 0)] == [
        (group.first.rule, group.count, len(group.open)) for group in groups
    ]


def test_table_of_a_sweep_marks_the_run_that_is_unlike_the_others(tmp_path: Path) -> None:
    """Twenty runs fit into the tokens that are asked for by default: rows, then the settings that differ."""
    for at in range(20):
        with toyspec.start_run(tmp_path, run_id=f"s{at:02}", config={"lr": at / 4, "seed": 1}) as run:
            run.log({"loss": 90.0 if at == 7 else 1 + at / 100, "val/acc": 0.5}, step=1)
    made = digest(sorted(tmp_path.iterdir()))
    assert count_tokens(made.render()) <= 2000
    assert made.table is not None
    assert (f"{tmp_path}/", 20) == (made.table["folder"], len(made.table["rows"]))
    marks = [(row[0], row[-1]) for row in made.table["rows"] if row[-1]]
    assert [("s07", "final_loss")] == marks
    (settings,) = (item for item in made.items if item.section == "settings")
    assert ("lr", [at / 4 for at in range(20)]) == (settings.name, settings.facts["values"])


def test_samples_have_a_line(tmp_path: Path) -> None:
    """Their number, the first and the last one, and the extremes of their rewards are there."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        for step in (1, 2):
            run.sample("p", "t", reward=step / 2, step=step)
    (item,) = (item for item in digest([tmp_path / "a"]).items if item.section == "samples")
    assert (2, {"first": 0.5, "last": 1.0, "lowest": 0.5, "highest": 1.0}) == (
        item.facts["count"],
        {role: point.value for role, point in item.points.items()},
    )


def test_cursor_of_another_log_is_refused(tmp_path: Path) -> None:
    """A log that was replaced, or is shorter, does not continue it."""
    path = write(tmp_path, [1.0, 2.0])
    cursor = digest([path]).cursor
    write(tmp_path, [1.0])
    with pytest.raises(StreamReplacedError):
        digest([path], since=cursor)
    with pytest.raises(StreamReplacedError):
        digest([path], since="c1-1.000000")
    with pytest.raises(ValueError, match="2 runs, 1 are named"):
        digest([path], since=cursor_of([LogPlace(0, "000000")] * 2))


def test_values_of_an_attempt_that_was_given_up_are_left_out(tmp_path: Path) -> None:
    """A resumption supersedes the values after its step, those of unknown kinds too, as in every other view."""
    path = write(tmp_path, [1.0, 9.0])
    with open(path, "rb") as file:
        start, first, second, _ = file.read().splitlines(keepends=True)
    probe = b'{"kind":"probe","t":2.0,"step":2,"x":7}\n'
    resume = b'{"kind":"run_resume","t":2.5,"from_step":1}\n'
    with open(path, "wb") as file:
        file.writelines([start, first, second, probe, resume, second.replace(b"9.0", b"2.0")])
    highest = {
        item.name: item.points["highest"].value for item in answered(path, ENOUGH).items if item.section == "extremes"
    }
    assert {"loss": 2.0, "twice": 4, "é": 1} == highest


def test_ranks_are_reported(tmp_path: Path) -> None:
    """A run that is complete by its first rank alone is not passed off as one that went well."""
    for rank, last in enumerate([3, 3, 2]):
        with toyspec.start_run(
            tmp_path, run_id="a", ranks="all", process=TrainingProcess(rank, 4, "RANK"), git=None
        ) as run:
            for step in range(1, last + 1):
                run.step(step, loss=1.0 / step)
            if rank == 2:
                run.abandon()
    items = answered(str(tmp_path / "a"), ENOUGH).items
    (ended,) = (item.facts for item in items if item.section == "ends")
    assert {"logs": 3, "world_size": 4, "unended_ranks": ((2, "torn"),)}.items() <= ended.items()
    assert [("run-end-missing", "events.rank-2.jsonl")] == [
        (item.name, item.facts["stream"]) for item in items if item.section == "findings"
    ]


def test_text_of_a_log_is_inert(tmp_path: Path) -> None:
    """A note or a name cannot add lines, items or commands of a terminal; a parser of JSON finds what the log has."""
    text, name = "\x1b[31m\nends 0  state complete" + "x" * 400, "lo\tss\x1b\u202e"
    with toyspec.start_run(tmp_path, run_id="a", git=None, config={name: "\x1b"}) as run:
        run.log({name: 1.0}, step=1)
        run.note(text)
        run.alert(text, rule=name, level="error", metric=name)
    made = digest([tmp_path / "a"])
    items = json.loads(made.render())["items"]
    found = {item["section"]: item for item in items}
    assert [name] * 3 == [found[section]["name"] for section in ("alerts", "extremes", "settings")]
    assert (name, "\x1b") == (found["alerts"]["facts"]["metric"], found["settings"]["text"])
    for section in ("notes", "alerts"):
        assert text == found[section]["text"] + text[-found[section]["cut_chars"] :]
    assert made.render().isascii()
    assert all(line.isprintable() for line in made.render().split("\n"))


@pytest.mark.parametrize("names", [[f"m{at}" for at in range(2000)], ["n" * 10_000 + str(at) for at in range(10)]])
def test_many_and_long_names_keep_the_promise(names: list[str], tmp_path: Path) -> None:
    """What there is no room for is counted; the digest stays within its tokens."""
    lines: list[dict[str, Any]] = [{"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r"}]
    lines += [
        {"kind": "scalars", "t": 1.0, "step": step, "values": dict.fromkeys(names, 1.0 / step)} for step in (1, 2)
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = answered(str(path), 2000)
    shown = sum(item.section == "extremes" for item in made.items)
    assert len(names) == shown + made.left_out.get("extremes", 0)
    assert count_tokens(made.render()) <= 2000
