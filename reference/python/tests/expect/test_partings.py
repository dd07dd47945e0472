"""``toyspec bisect``: the first place at which two runs differ, and what differs before it."""

from __future__ import annotations

import json
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from command_line import toyspec_within
from growing_runs import joined
from planted_partings import CAUSES, PLANTS, train
from toyspec.core.errors import StreamError
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.runs.history import PlacedCurve, _At
from toyspec.expect.measurements import is_compared
from toyspec.expect.partings import Comparison, NotComparableError, Tolerance, compare_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Values = dict[str, float | str]

EXACT = Tolerance()
LEAST_NAMED = 40
"""Of the planted partings, how many have their reason within the first three."""


def compared(a: Path, b: Path, **options: Any) -> Comparison:
    """Return where two runs part."""
    return compare_runs(str(a), str(b), choice=DialectChoice(), **{"tolerance": EXACT, **options})


def logged(root: Path, run_id: str, steps: Sequence[tuple[int, Values]]) -> Path:
    """Return a run that logged the values of *steps*."""
    with toyspec.start_run(root, run_id=run_id, git=None) as run:
        for step, values in steps:
            run.log(values, step=step)
    return root / run_id


def test_planted_defects_are_found_at_their_step(tmp_path: Path) -> None:
    """Each of 50 defects in a training is found at its step, the lines are those, and most reasons are named first."""
    sound, named = train(tmp_path, "sound"), 0
    assert len(PLANTS) == 50
    for number, plant in enumerate(PLANTS):
        found = compared(sound, train(tmp_path, f"run-{number}", plant))
        first = found.partings[0]
        assert (first.step, first.phase, first.rank) == (plant.step, "train", 0), plant
        for side in (first.a, first.b):
            assert side is not None
            with open(side.file, encoding="utf-8") as lines:
                record = json.loads(lines.read().splitlines()[side.line - 1])
            assert record["step"] == plant.step
            assert record.get("values", record).get(first.metric) == side.value
        named += CAUSES[plant.defect][0] in [reason.what for reason in found.reasons[:3]]
    assert named >= LEAST_NAMED


def curve(*values: float) -> list[tuple[int, Values]]:
    """Return steps from 1 that log a metric."""
    return [(step, {"x": value}) for step, value in enumerate(values, 1)]


PAIRS: dict[str, tuple[Any, Any, list[tuple[str, int, str]]]] = {
    "equal": (curve(1.0), curve(1.0), []),
    "value": (curve(1.0, 3.0), curve(1.0, 4.0), [("x", 2, "value")]),
    "missing step": (curve(1.0, 3.0), curve(1.0), [("x", 2, "step")]),
    "extra step": (curve(1.0), [*curve(1.0), (5, {"x": 1.0})], [("x", 5, "step")]),
    "missing step between": (curve(1.0, 1.0, 1.0), [*curve(1.0), (3, {"x": 1.0})], [("x", 2, "step")]),
    "extra metric": (
        curve(1.0, 1.0),
        [(1, {"x": 1.0, "y": 2.0}), (2, {"x": 2.0})],
        [("x", 2, "value"), ("y", 1, "metric")],
    ),
    "not finite": (curve(nan, inf), curve(nan, -inf), [("x", 2, "value")]),
    "zeros": (curve(0.0), curve(-0.0), []),
    "text": ([(1, {"x": 1.0, "s": "a"})], [(1, {"x": 1.0, "s": "b"})], [("s", 1, "value")]),
    "integer": ([(1, {"x": 1.0, "n": 8})], [(1, {"x": 1.0, "n": 9})], [("n", 1, "value")]),
    "in the order of steps": (
        [(1, {"x": 1.0, "a": 1.0}), (2, {"x": 2.0, "a": 2.0})],
        [(1, {"x": 1.0, "a": 1.5}), (2, {"x": 2.5, "a": 2.5})],
        [("a", 1, "value"), ("x", 2, "value")],
    ),
    "time": ([(1, {"x": 1.0, "step_ms": 3.0})], [(1, {"x": 1.0, "step_ms": 4.0})], []),
}


@pytest.mark.parametrize(("a", "b", "expected"), PAIRS.values(), ids=PAIRS)
def test_first_difference_of_each_metric(tmp_path: Path, a: Any, b: Any, expected: list[tuple[str, int, str]]) -> None:
    """Values, steps and metrics that one run lacks differ; times do not count."""
    found = compared(logged(tmp_path, "a", a), logged(tmp_path, "b", b))
    assert expected == [(each.metric, each.step, each.what) for each in found.partings]
    # The other way round, what is missing is extra.
    swapped = compared(tmp_path / "b", tmp_path / "a")
    assert expected == [(each.metric, each.step, each.what) for each in swapped.partings]


@pytest.mark.parametrize(
    ("tolerance", "is_equal"),
    [
        (EXACT, False),
        (Tolerance(rtol=2e-7), True),
        (Tolerance(rtol=1e-8), False),
        (Tolerance(atol=2e-7), True),
        (Tolerance(ulp=1), True),
        (Tolerance(atol=1e-9, ulp=1), True),
    ],
)
def test_tolerances(tmp_path: Path, tolerance: Tolerance, *, is_equal: bool) -> None:
    """A bound that accepts a difference is enough; units in the last place are those of the narrower type."""
    above = 1.0 + 2.0**-23
    pair = logged(tmp_path, "a", curve(1.0)), logged(tmp_path, "b", curve(above))
    found = compared(*pair, tolerance=tolerance)
    assert is_equal == (not found.partings)
    assert is_equal or (found.partings[0].ulp, found.partings[0].bits) == (1, 32)


def test_noise_of_seeds_is_accepted(tmp_path: Path) -> None:
    """What two seeds differ by is accepted; the first value beyond it is."""

    def run(name: str, shift: float, begin: int = 1000) -> Path:
        values = (10 / s + shift * (s % 3 - 1) + (1.0 if s >= begin else 0) for s in range(1, 101))
        return logged(tmp_path, name, curve(*values))

    a, c, b = run("a", 0.01), run("c", 0.02), run("b", -0.01, 77)
    assert compared(a, b).partings[0].step == 2
    assert compared(a, b, noise=[str(c)]).partings[0].step == 77
    assert compared(a, run("d", -0.01), noise=[str(c)]).partings == []


def test_latest_attempts_are_compared(tmp_path: Path) -> None:
    """What a resumption superseded does not count, and the resumption is the reason."""
    whole = logged(tmp_path, "a", curve(*(1.0 / step for step in range(1, 9))))
    logged(tmp_path, "b", curve(*(1.0 / step if step < 5 else 9.0 for step in range(1, 7))))
    with toyspec.start_run(tmp_path, run_id="b", exist="resume", from_step=4, git=None) as run:
        for step in range(5, 9):
            run.log({"x": 1.0 / step if step < 7 else 2.0}, step=step)
    found = compared(whole, tmp_path / "b")
    assert [("x", 7)] == [(each.metric, each.step) for each in found.partings]
    assert [("resumption", 4, None)] == [(each.what, each.step, each.line_a) for each in found.reasons]


def test_what_happens_after_the_parting_is_left_out(tmp_path: Path) -> None:
    """Settings and notes of the same step and text are equal; later ones are left out."""
    for name, last in (("a", 1.0), ("b", 2.0)):
        with toyspec.start_run(tmp_path, run_id=name, git=None) as run:
            run.log({"x": 1.0}, step=1)
            run.note("the same", topic="decision")
            if name == "b":
                run.note("only here", topic="incident")
            run.log({"x": last}, step=2)
            run.log({"x": last}, step=3)
            if name == "b":
                run.note("too late")
    found = compared(tmp_path / "a", tmp_path / "b")
    assert [("note", "incident", None, "only here", 1)] == [
        (each.what, each.name, each.a, each.b, each.step) for each in found.reasons
    ]


def test_ranks_are_compared(tmp_path: Path) -> None:
    """The values of each process are compared with those of the same process; one that is missing is a parting."""
    streams = {
        name: [
            joined([
                b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}',
                *(b'{"kind":"step","t":1.0,"step":%d,"loss":%d}' % (s, s + (off if s == 3 else 0)) for s in (1, 2, 3)),
            ])
            for off in offs
        ]
        for name, offs in (("a", (0, 0, 0)), ("b", (0, 1)))
    }  # fmt: skip
    for name, each in streams.items():
        (tmp_path / name).mkdir()
        for rank, data in enumerate(each):
            (tmp_path / name / (f"events.rank-{rank}.jsonl" if rank else "events.jsonl")).write_bytes(data)
    found = compared(tmp_path / "a", tmp_path / "b")
    assert [("loss", 1, 3, "value"), ("loss", 2, 1, "rank")] == [
        (each.metric, each.rank, each.step, each.what) for each in found.partings
    ]


def test_lines_of_a_log_with_one_value_a_record(tmp_path: Path) -> None:
    """A kaun/v1 log has a record for each value; the line is that of the value."""
    paths = []
    for name, value in (("a", 5.0), ("b", 6.0)):
        rows = [
            {"type": "scalar", "step": step, "wall_time": 1.0 + step, "tag": tag}
            | {"value": value if (tag, step) == ("acc", 7) else 1.0}
            for step in range(1, 10)
            for tag in ("loss", "acc")
        ]  # fmt: skip
        paths.append(tmp_path / name / "events.jsonl")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(joined([json.dumps(row).encode() for row in rows]))
    found = compared(*paths)
    assert [("acc", 7, 14)] == [(each.metric, each.step, each.a and each.a.line) for each in found.partings]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loss", True), ("val/loss", True), ("lr", True), ("tokens", True), ("timestep_loss", True), ("bits", True),
        ("pass", True), ("compute_us", False), ("wall_us", False), ("step_seconds", False), ("time/step", False),
        ("tokens_per_s", False), ("tokens_per_second", False), ("system/gpu_util", False), ("throughput", False),
        ("gpu_memory_bytes", False), ("perf/mfu", False),
    ],
)  # fmt: skip
def test_what_measures_the_machine_is_not_compared(name: str, *, expected: bool) -> None:
    """Names decide, and a glob names it all the same."""
    assert is_compared(name) is expected
    assert is_compared(name, [name])
    assert not is_compared(name, ["other*"])


def test_curves_are_copied_once() -> None:
    """Values that are neither whole steps nor floats make a list of an array, not one for each of them."""
    curve = PlacedCurve()
    kept = []
    for line in (1, 2):
        curve.add(1, line / 2, "text", _At(line, line, None))
        kept.append((curve.steps, curve.values))
    assert kept[0][0] is kept[1][0]
    assert kept[0][1] is kept[1][1]


def test_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    """Runs without a common metric are an error that says what to do, as is a path without a run."""
    a, b = logged(tmp_path, "a", curve(1.0)), logged(tmp_path, "b", [(1, {"y": 1.0})])
    with pytest.raises(NotComparableError, match="no metric in common"):
        compared(a, b)
    with pytest.raises(NotComparableError, match="--metric"):
        compared(a, a, globs=["y"])
    with pytest.raises(StreamError):
        compared(a, tmp_path / "nothing")


def test_numbers_beyond_any_float_are_compared(tmp_path: Path) -> None:
    """Long integers and differences that are not finite end neither command with an exception."""
    for name, digit, sign in (("a", 1, ""), ("b", 2, "-")):
        values = f'"x":{digit}{"0" * 300},"z":{2**60 + digit},"h":{sign}1.5e308'
        line = '{"kind":"scalars","t":1.0,"step":1,"values":{' + values + "}}\n"
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_text(
            '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n' + line
        )
    found = compared(tmp_path / "a", tmp_path / "b", noise=[str(tmp_path / "b")], tolerance=Tolerance(ulp=1))
    assert {"x", "h"} <= {each.metric for each in [*compared(tmp_path / "a", tmp_path / "b").partings]}
    assert found.values
    for words in (["bisect", "--json", "a", "b"], ["expect", "write", "a"], ["expect", "write", "a", "b"]):
        result = toyspec_within(*words, cwd=tmp_path)
        assert result.returncode in (0, 1), result.stderr


def test_command_says_where_and_why(tmp_path: Path) -> None:
    """The status is that of the comparison, and the text has place, values and reasons; text of logs is inert."""
    for name, lr in (("a", 0.1), ("b", 0.2)):
        with toyspec.start_run(tmp_path, run_id=name, git=None, config={"lr": lr, "\x1b[31m": name}) as run:
            run.log({"loss": 1.0, "z\x1b[2J": 2.0}, step=1)
            run.log({"loss": lr, "z\x1b[2J": lr}, step=2)
    result = toyspec_within("bisect", "a", "b", cwd=tmp_path)
    text = result.stdout.decode()
    assert result.returncode == 1
    assert text.startswith(
        "first differs at step 2: loss (rank 0, train)\n  A  a/events.jsonl:3  0.1\n  B  b/events.jsonl:3  0.2\n"
    )
    assert "\x1b" not in text
    assert "setting  lr" in text
    assert toyspec_within("bisect", "a", "a", cwd=tmp_path).returncode == 0
    assert toyspec_within("bisect", "a", "c", cwd=tmp_path).returncode == 2
    assert toyspec_within("bisect", "--rtol", "nan", "a", "b", cwd=tmp_path).returncode == 2
