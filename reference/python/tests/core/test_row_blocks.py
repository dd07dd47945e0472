"""Lines that are read many at once are read as they would be one by one: by reader, checker, summary and import."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from property_examples import examples
from run_facts import loss_by_step
from toyspec import check_bytes, read
from toyspec.convert import import_runs
from toyspec.core.reading.records import ReadLine, Row, RowBlock
from toyspec.core.runs.summary import summarize_run
from toyspec.logs.row_feed import RowFeed, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toyspec.core.format.lines import Line

FACTS = ("line", "offset", "raw", "value", "step", "time", "time_origin", "epoch", "phase", "values", "attempt")


@pytest.fixture(scope="module")
def one_by_one() -> pytest.MonkeyPatch:
    """Return what makes every line be read by itself."""
    return pytest.MonkeyPatch()


def without_blocks(patch: pytest.MonkeyPatch) -> None:
    """Let no line be read together with others from now on."""

    def parts(self: RowFeed, chunk: bytes) -> Iterator[Line | ReadLine]:
        for line in self._splitter.feed(chunk):
            value = self._form.read(line.data, first=line.number == 1) if line.data else None
            yield line if value is None else read_line(line, value)

    patch.setattr(RowFeed, "parts", parts)


def outcome(path: Path, out: Path) -> list[Any]:
    """Return what reader, checker, summary and import make of a log."""
    data = path.read_bytes()
    rows = [[getattr(row, fact) for fact in FACTS] for row in read(path, mode="salvage", dialect="auto")]
    summary = summarize_run(str(path))
    curves = {name: (each.count, each.first, each.last, each.lowest, each.highest, each.means())
              for name, each in summary.series.items()}  # fmt: skip
    measured = loss_by_step(summary)
    report = import_runs([path], out)
    ledger = [(run.items, run.carried, run.changed, run.dropped, run.losses) for run in report.runs]
    made = [(out / run.run_id / "events.jsonl").read_bytes() for run in report.runs]
    return [
        repr(rows), check_bytes(data, name=path.name), curves, measured, summary.facts.seconds, summary.first_step,
        summary.last_step, repr(ledger), made,
    ]  # fmt: skip


number = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, -0.0, 2**53 + 1])
)
KEYS = (
    "step", "loss", "lr", "timestamp", "time", "epoch", "phase", "note", "é", 'a"b', "a\\\tb", "val/acc", "x/y",
    "val", "x", "data",
)  # fmt: skip
kinds = {
    "step": st.integers(0, 50) | st.sampled_from([1.0, 2.5, -1, 2**64]),
    "timestamp": st.floats(1.7e9, 1.8e9) | st.sampled_from([12.5, 1_700_000_000_000, "2026-01-01T00:00:00Z", "soon"]),
    "time": st.floats(1.7e9, 1.8e9) | st.floats(0, 9),
    "epoch": st.integers(0, 5) | st.floats(0, 5),
    "phase": st.sampled_from(["train", "eval", "val", "nan"]),
    "note": st.sampled_from(["text", "NaN", "-inf", ""]),
    # Inner objects, some of whose members have the flattened name of another.
    "val": st.fixed_dictionaries({"acc": number, "note": st.sampled_from(["text", "nan"])}),
    "x": st.fixed_dictionaries({"y": st.fixed_dictionaries({"z": number}), "on": st.booleans()}),
    "data": st.sampled_from([{}, {"y": {}}, {"y": [1]}, {"step": 1, "step ": 2}]),
}


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Draw a log of several runs of lines with the same keys, and some that are odd."""
    lines: list[str] = ['{"step": 0, "loss": 2.5}']
    for _ in range(draw(st.integers(1, 4))):
        keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=5))
        is_steady = draw(st.booleans())
        first = {"step": 1, "loss": 0.5} | {key: draw(kinds.get(key, number)) for key in keys}
        for at in range(draw(st.integers(1, 12))):
            drawn = {key: draw(kinds.get(key, number)) for key in keys}
            lines.append(json.dumps({**first, "step": at} if is_steady else {**first, **drawn}))
        odd = (
            '{"step":3,"val":{"acc":1,"acc":2}}',
            '{"step":3,"step":4,"loss":1.0}',
            '{"step":1,"loss":NaN}',
            "{torn",
            "",
            '{"step":9,"loss":null}\r',
        )
        lines += draw(st.lists(st.sampled_from(odd), max_size=2))
    return "\n".join([*lines, ""]).encode()


@settings(max_examples=examples(30), deadline=None)
@given(logs())
def test_any_log_is_read_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, one_by_one: pytest.MonkeyPatch, data: bytes
) -> None:
    """Rows, findings, curves, the imported stream and its report are the same."""
    folder = tmp_path_factory.mktemp("blocks")
    path = folder / "metrics.jsonl"
    path.write_bytes(data)
    together = outcome(path, folder / "a")
    with one_by_one.context() as patch:
        without_blocks(patch)
        assert outcome(path, folder / "b") == together


blanks = st.sampled_from([
    "{0},{0}.5,,,{1}", "{0},,0.25,,{1}", "{0},,,{0},{1}", "{0},-1e5,1,2,{1}", "{0},,,,{1}", "{0},1.5,,,", ",1,,,{1}",
    ",,,,", "{0}.5,1,,,{1}", "{0},nan,,,{1}", "-1,2,,,{1}", "{0},900719925474099377,,,{1}", "{0},1,,,1700000000", "",
    "step,loss,lr,epoch,time", "1e400,1,,,{1}", "{0}, 1,1_0,+1,{1}", "{0},01,.5,1e5,{1}", "{0},true,NA,null,{1}",
    '{0},[1],"7",,{1}', "{0},999999999999999999,9999999999999999999,,{1}", "{0},{0}.25,-3,{0},\r",
    "{0},inf,1],[2,,{1}", "{0},,,1.5,",
])  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(blanks, min_size=1, max_size=4), st.lists(blanks, max_size=3), st.integers(2, 40))
@example(["{0}, 1,1_0,+1,{1}"], [], 3)
def test_any_table_with_changing_blanks_is_read_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory,
    one_by_one: pytest.MonkeyPatch,
    patterns: list[str],
    odd: list[str],
    times: int,
) -> None:
    """Cells may be blank, in each line others, and have their own spellings of numbers; some lines are odd."""
    folder = tmp_path_factory.mktemp("mixed")
    path = folder / "train.csv"
    lines = ["step,loss,lr,epoch,time", *["0,1.5,1,0,1700000000.25"] * 50]
    for pattern in [*patterns * times, *odd, *patterns * times]:
        lines.append(pattern.format(len(lines), 1_700_000_000.5 + len(lines)))
    path.write_text("\n".join([*lines, ""]).replace(",", ",\t"[times % 2]), newline="")
    together = outcome(path, folder / "a")
    with one_by_one.context() as patch:
        without_blocks(patch)
        assert outcome(path, folder / "b") == together


def test_steady_log_is_read_in_blocks(tmp_path: Path) -> None:
    """The fast way is taken: few blocks stand for many rows, and they have all of them."""
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step":{step},"loss":{step}.5}}\n' for step in range(10_000)))
    with read(path, mode="salvage") as reading:
        reading.give_blocks()
        found: list[Any] = list(reading)
        assert 10_000 == reading.report.records
    blocks = [each for each in found if isinstance(each, RowBlock)]
    assert len(found) < 50
    rows = [each for each in found if isinstance(each, Row)] + [row for block in blocks for row in block.rows()]
    assert list(range(10_000)) == sorted(row.step for row in rows if row.step is not None)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("metrics.jsonl", '{{"step":{0},"train":{{"loss":{0}.5,"aux":{{"z":1}}}}}}'),
        ("metrics.csv", "{0},{0}.5,,"),
        ("metrics.tsv", "{0}\t{0}.5\t\t3"),
    ],
)
def test_nested_members_and_blank_cells_are_read_in_blocks(tmp_path: Path, name: str, line: str) -> None:
    """Rows of inner objects, and those with the same cells blank, take the fast way too."""
    path = tmp_path / name
    head = {"csv": "step,loss,val_loss,lr\n", "tsv": "step\tloss\tval_loss\tlr\n"}.get(name.rpartition(".")[2], "")
    path.write_text(head + "".join(line.format(step) + "\n" for step in range(5_000)))
    with read(path, mode="salvage") as reading:
        reading.give_blocks()
        found: list[Any] = list(reading)
    assert len(found) < 50
    assert sum(len(each.lines) for each in found if isinstance(each, RowBlock)) > 4_900


EDGES = [2**53, 2**63 - 1, 2**63, 2**64, -1, -(2**63) + 1, -(2**63), -(2**64)]


@pytest.mark.parametrize("edge", EDGES)
def test_steps_at_the_ends_of_64_bits_are_read_as_line_by_line(
    edge: int, tmp_path: Path, one_by_one: pytest.MonkeyPatch
) -> None:
    """A step that is too large for 64 bits is what single lines make of it, also where a whole block has such ones."""
    path = tmp_path / "metrics.jsonl"
    steps = [*range(50), *[edge + at for at in (-1, 0, 1)] * 20, *range(50, 60)]
    path.write_text("".join(f'{{"step": {step}, "loss": 0.5}}\n' for step in steps))
    together = outcome(path, tmp_path / "a")
    with one_by_one.context() as patch:
        without_blocks(patch)
        assert outcome(path, tmp_path / "b") == together
