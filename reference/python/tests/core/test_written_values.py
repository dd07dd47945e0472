"""What each kind of value becomes: the records of a call, and what is reported where a value is left out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from toyspec.core.escaping import shortened
from toyspec.core.format.canonical import encode
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import ManualClock

np = pytest.importorskip("numpy")

AT_NEXT_STEP = "its values are where they are without a step, beside given_step"
NO_NAMES = 'values must be a mapping, got list [1, 2]; pass names with their values, for example {"loss": 2.5}'
NO_EXTRA = NO_NAMES.replace("values", "extra", 1).replace("list [1, 2]", "int 5")
GOES_BACK = (
    "is not after the last one: it is written as plain values; to repeat steps, call run_resume(from_step) first"
)


def note_of(text: str, *names: str) -> str:
    """Return the note that counts values by *names*."""
    note = {"kind": "note", "t": 0.0, "text": f"left out: {text}", "topic": "left-out"}
    return encode({**note, "left_out": dict.fromkeys(sorted(names), 1)}).decode()


class Case(NamedTuple):
    """A call and what comes of it."""

    call: Callable[[Any], object]
    lines: list[str]
    """The records."""
    lost: dict[str, str] = {}  # noqa: RUF012 - it is never changed
    """Why values are left out, by name."""
    said: list[str] = []  # noqa: RUF012 - it is never changed
    """Other lines on standard error."""


class Best(NamedTuple):
    """A result with two fields."""

    epoch: int
    score: float


@dataclasses.dataclass
class Scores:
    """What an evaluation returns as well."""

    acc: float
    worst: Path


class Split(enum.Enum):
    """What a program calls its data."""

    TEST = "eval"
    THIRD = 3


def endless() -> dict[str, Any]:
    """Return a mapping that holds itself."""
    found: dict[str, Any] = {"loss": 1}
    found["again"] = found
    return found


TOO_MANY = (
    "it must be a number, a text or at most 256 numbers, got {}; log it as toyspec.Histogram or toyspec.Table, or "
    "reduce it to one number, as by mean()"
)
CASES: dict[str, Case] = {
    "a truth is a number": Case(
        lambda run: run.step(1, loss=True, ppl=False), ['{"kind":"step","t":0.0,"step":1,"loss":1.0,"ppl":0.0}']
    ),
    "numbers of NumPy": Case(
        lambda run: run.step(np.int64(1), loss=np.float32(0.5), tokens=np.int32(7), lr=np.array(0.25)),
        ['{"kind":"step","t":0.0,"step":1,"loss":0.5,"lr":0.25,"tokens":7}'],
    ),
    "a text for a number of a step": Case(
        lambda run: run.step(1, loss="diverged", tokens="many"),
        [
            '{"kind":"step","t":0.0,"step":1}',
            '{"kind":"scalars","t":0.0,"step":1,"values":{},"texts":{"loss":"diverged","tokens":"many"}}',
        ],
    ),
    "a count with a fraction": Case(
        lambda run: run.step(1, loss=1, tokens=2.5, compute_us=3.0),
        ['{"kind":"step","t":0.0,"step":1,"loss":1.0,"compute_us":3,"extra":{"tokens":2.5}}'],
    ),
    "values that are not finite": Case(
        lambda run: run.step(1, loss=float("inf"), extra={"a": np.float32("nan"), "b": float("-inf")}),
        [
            (
                '{"kind":"step","t":0.0,"step":1,"loss":null,"extra":{"a":null,"b":null},'
                '"nonfinite":{"extra/a":"nan","extra/b":"-inf","loss":"inf"}}'
            )
        ],
    ),
    "values of many types": Case(
        lambda run: run.log({"a": True, "b": "text", "c": np.float32(0.5), "d": None, "e": Decimal(2)}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"a":1.0,"c":0.5,"d":null,"e":2.0},"texts":{"b":"text"}}'],
    ),
    "values that are none": Case(
        lambda run: run.log({"b": 2, "c": object(), "e": np.clongdouble(1)}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"b":2.0}}'],
        lost={
            "c": "it must be a number or a text, got object; pass a number, or str() of it",
            "e": "it must be a number or a text, got clongdouble; pass a number, or str() of it",
        },
    ),
    "lists and arrays": Case(
        lambda run: run.log({"a": [0.5, (1, True)], "d": np.ones((2, 1)), "e": np.array([7]), "f": range(2)}, step=3),
        [
            '{"kind":"scalars","t":0.0,"step":3,"values":{"a/0":0.5,"a/1/0":1.0,"a/1/1":1.0,"d/0/0":1.0,"d/1/0":1.0,"e":7.0}}',
        ],
        lost={"f": "it must be a number or a text, got range; pass a number, or str() of it"},
    ),
    "lists and arrays of many": Case(
        lambda run: run.log({"a": [0] * 257, "b": np.ones((16, 17)), "c": ["x", 1], "d": [], "e": 1}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"e":1.0}}'],
        lost={
            "a": TOO_MANY.format("list of 257"),
            "b": TOO_MANY.format("ndarray of shape (16, 17)"),
            "c": TOO_MANY.format("list of 2"),
            "d": TOO_MANY.format("list of 0"),
        },
    ),
    "names that are none": Case(
        lambda run: run.log({1: 2, "": 3, ("a",): 4, "ok": 5}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"":3.0,"1":2.0,"ok":5.0}}'],
        lost={"('a',)": "its name is of type tuple; name it by a string"},
    ),
    "one name twice": Case(
        lambda run: run.log({"a": {"b": 1}, "a/b": 2}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"a/b":2.0}}'],
        lost={"a/b": "two values of one record have this name, and the later one is written; rename one of them"},
    ),
    "no step": Case(lambda run: run.log({"a": 1}, step=None), ['{"kind":"scalars","t":0.0,"values":{"a":1.0}}']),
    "results of an evaluation that are not finite": Case(
        lambda run: run.eval(
            "v",
            extra={
                "list": [0.5, float("nan"), (float("inf"),)],
                "map": {"k": [{"q": np.float32("-inf")}], True: float("nan")},
                "array": np.array([1.0, float("nan")]),
                "wide": [np.longdouble("1e4000"), np.longdouble("0.5")],
            },
        ),
        [
            (
                '{"kind":"eval","phase":"eval","t":0.0,"name":"v","extra":{"array":[1.0,null],"list":[0.5,null,'
                '[null]],"map":{"k":[{"q":null}],"true":null},"wide":[null,0.5]},'
                '"nonfinite":{"extra/array/1":"nan","extra/list/1":"nan","extra/list/2/0":"inf",'
                '"extra/map/k/0/q":"-inf","extra/map/true":"nan","extra/wide/0":"inf"}}'
            )
        ],
    ),
    "an integer of results beyond binary64": Case(
        lambda run: run.eval("v", extra={"beyond": -(10**400), "a": 1}),
        ['{"kind":"eval","phase":"eval","t":0.0,"name":"v","extra":{"a":1}}'],
        lost={"extra/beyond": f"/extra/beyond must be an integer within binary64, got {shortened(str(-(10**400)))}"},
    ),
    "an integer that binary64 rounds": Case(
        lambda run: run.log({"tokens": 2**53 + 1, "seen": np.uint64(2**60)}, step=3),
        [('{"kind":"scalars","t":0.0,"step":3,"values":{"seen":1.152921504606847e18,"tokens":9007199254740992.0}}')],
    ),
    "times of NumPy": Case(
        lambda run: run.log(
            {
                "day": np.datetime64("2026-11-22"),
                "fine": np.array(["2026-11-22T10:00"], "M8[ns]"),
                "span": np.timedelta64(3, "ns"),
            },
            step=3,
        ),
        [
            (
                '{"kind":"scalars","t":0.0,"step":3,"values":{},"texts":{"day":"2026-11-22",'
                '"fine":"2026-11-22T10:00:00.000000000","span":"3 nanoseconds"}}'
            )
        ],
    ),
    "results of an evaluation with fields": Case(
        lambda run: run.eval("v", extra={"best": Best(3, float("nan")), "all": [Best(1, 0.5)]}),
        [
            (
                '{"kind":"eval","phase":"eval","t":0.0,"name":"v","extra":{"all":[{"epoch":1,"score":0.5}],'
                '"best":{"epoch":3,"score":null}},"nonfinite":{"extra/best/score":"nan"}}'
            )
        ],
    ),
    "numbers wider than binary64": Case(
        lambda run: run.step(np.longdouble(3), loss=np.longdouble(0.5), extra={"a": np.longdouble("-1e4000")}),
        ['{"kind":"step","t":0.0,"step":3,"loss":0.5,"extra":{"a":null},"nonfinite":{"extra/a":"-inf"}}'],
    ),
    "a gradient with a wrong count": Case(
        lambda run: run.grad("w", step=1, nan_count=1.5, l2="x"),
        ['{"kind":"grad","t":0.0,"step":1,"param":"w"}'],
        lost={"l2": "/l2 must be a number, got 'x'", "nan_count": "/nan_count must be an integer, got 1.5"},
    ),
    "a value beyond binary64": Case(
        lambda run: run.log({"a": 10**400, "b": -(10**400)}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"a":null,"b":null},"nonfinite":{"a":"inf","b":"-inf"}}'],
    ),
    "a histogram of nothing": Case(
        lambda run: run.log({}, step=3), ['{"kind":"scalars","t":0.0,"step":3,"values":{}}']
    ),
    "a step that is a text": Case(
        lambda run: run.log({"a": 1}, step="three"),
        ['{"kind":"scalars","t":0.0,"step":1,"values":{"a":1.0},"texts":{"given_step":"three"}}'],
        lost={"step": f"it must be an integer ≥ 0, got str 'three'; {AT_NEXT_STEP}"},
    ),
    "steps of other types": Case(
        lambda run: [run.log(acc=0.5, step="7"), run.step(8.0, loss=1.0)],
        ['{"kind":"scalars","t":0.0,"step":7,"values":{"acc":0.5}}', '{"kind":"step","t":0.0,"step":8,"loss":1.0}'],
    ),
    "a step record whose number is none": Case(
        lambda run: [run.step(4, loss=1.0), run.step(-3, loss=2.0, extra={"acc": 0.5})],
        [
            '{"kind":"step","t":0.0,"step":4,"loss":1.0}',
            '{"kind":"step","t":0.0,"step":5,"loss":2.0,"extra":{"acc":0.5,"given_step":-3.0}}',
        ],
        lost={"step": f"it must be an integer ≥ 0, got int -3.0; {AT_NEXT_STEP}"},
    ),
    "a step that goes back": Case(
        lambda run: [run.step(5), run.step(3, loss=float("nan"), tokens=4, acc=0.5, phase="train"), run.step(5)],
        [
            '{"kind":"step","t":0.0,"step":5}',
            (
                '{"kind":"scalars","phase":"train","t":0.0,"step":3,"values":{"acc":0.5,"loss":null,"tokens":4.0},'
                '"nonfinite":{"loss":"nan"}}'
            ),
            '{"kind":"scalars","t":0.0,"step":5,"values":{}}',
        ],
        said=[f"step 3 {GOES_BACK}"],
    ),
    "steps of two phases": Case(
        lambda run: [run.step(5), run.step(3, phase="eval"), run.step(), run.step(phase="eval")],
        [
            '{"kind":"step","t":0.0,"step":5}',
            '{"kind":"step","phase":"eval","t":0.0,"step":3}',
            '{"kind":"step","t":0.0,"step":6}',
            '{"kind":"step","phase":"eval","t":0.0,"step":4}',
        ],
    ),
    "a mapping for the loss of an evaluation": Case(
        lambda run: run.eval("v", loss={"ce": 1}),
        ['{"kind":"eval","phase":"eval","t":0.0,"name":"v"}'],
        lost={"loss/ce": "/loss must be a number, got dict"},
    ),
    "values without names": Case(
        lambda run: run.log([1, 2], b=3),
        [note_of(f"values ({NO_NAMES})", "values"), '{"kind":"scalars","t":0.0,"step":1,"values":{"b":3.0}}'],
        said=[f"values is left out: {NO_NAMES}", "1 value was left out in total (values 1)"],
    ),
    "values by other names, one of them none": Case(
        lambda run: run.step(5, loss=1, acc=0.5, extra={"mfu": 0.3}, done=True, odd=object()),
        ['{"kind":"step","t":0.0,"step":5,"loss":1.0,"extra":{"acc":0.5,"done":1.0,"mfu":0.3}}'],
        lost={"extra/odd": "it must be a number or a text, got object; pass a number, or str() of it"},
    ),
    "extra without names": Case(
        lambda run: run.step(1, loss=1.0, extra=5, acc=0.5),
        [note_of(f"extra ({NO_EXTRA})", "extra"), '{"kind":"step","t":0.0,"step":1,"loss":1.0,"extra":{"acc":0.5}}'],
        said=[f"extra is left out: {NO_EXTRA}", "1 value was left out in total (extra 1)"],
    ),
    "mappings of any type": Case(
        lambda run: run.log({"n": defaultdict(float, {0: 0.5}), "a": MappingProxyType({"b": 1}), "eval": {}}, step=3),
        ['{"kind":"scalars","t":0.0,"step":3,"values":{"a/b":1.0,"n/0":0.5}}'],
    ),
    "a mapping that holds itself": Case(
        lambda run: run.log(endless(), step=3),
        [
            (
                '{"kind":"scalars","t":0.0,"step":3,'
                '"values":{"again/again/again/again/again/again/again/again/loss":1.0,'
                '"again/again/again/again/again/again/again/loss":1.0,'
                '"again/again/again/again/again/again/loss":1.0,"again/again/again/again/again/loss":1.0,'
                '"again/again/again/again/loss":1.0,"again/again/again/loss":1.0,"again/again/loss":1.0,'
                '"again/loss":1.0,"loss":1.0}}'
            )
        ],
        lost={f"{'again/' * 8}again": "it is nested in more than 8 mappings; log fewer levels"},
    ),
    "what has a name or fields": Case(
        lambda run: run.log(
            {
                "split": Split.TEST,
                "third": Split.THIRD,
                "at": dt.date(2026, 5, 31),
                "best": Best(3, 2.0),
                "took": dt.timedelta(seconds=3),
                "scores": Scores(0.5, Path("x/y")),
            },
            step=1,
        ),
        [
            (
                '{"kind":"scalars","t":0.0,"step":1,"values":{"best/epoch":3.0,"best/score":2.0,"scores/acc":0.5,'
                '"third":3.0},"texts":{"at":"2026-05-31","scores/worst":"x/y","split":"eval","took":"0:00:03"}}'
            )
        ],
    ),
    "counts that are given twice, or not finite": Case(
        lambda run: run.step(3, tokens=2.5, extra={"tokens": 5}, wall_us=float("nan")),
        [
            (
                '{"kind":"step","t":0.0,"step":3,"extra":{"tokens":5.0,"wall_us":null},'
                '"nonfinite":{"extra/wall_us":"nan"}}'
            )
        ],
        lost={"tokens": "/tokens must be an integer, got 2.5"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value_is_written_or_its_loss_is_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value is found again by its name, as number, text or word for what is not finite; else a note counts it."""
    case = CASES[name]
    run = RunWriter(tmp_path / "r", clock=ManualClock(), resuming="by-itself")
    run.run_start(host="", started_at="")
    case.call(run)
    run.run_end(ended_at="")
    written = Path(run.events_path).read_text(encoding="utf-8").splitlines()[1:-1]
    assert [*case.lines, *noted(case)] == written
    lines = capsys.readouterr().err.splitlines()
    assert reported(case) == [line.partition("events.jsonl: ")[2].removesuffix(" (reported once)") for line in lines]


def noted(case: Case) -> list[str]:
    """Return the note that counts what was left out."""
    if not case.lost:
        return []
    text = "; ".join(f"{name} ({why})" for name, why in case.lost.items())
    return [note_of(text, *case.lost)]


def reported(case: Case) -> list[str]:
    """Return the lines on standard error."""
    kind = json.loads(case.lines[0])["kind"]
    found = [f"{name} of {kind} is left out, and all else is written: {why}" for name, why in case.lost.items()]
    if case.lost:
        names = ", ".join(f"{name} 1" for name in case.lost)
        plural = "s were" if len(case.lost) > 1 else " was"
        found.append(f"{len(case.lost)} value{plural} left out in total ({names})")
    return [*case.said, *found]
