"""Values that programs have in their settings: written as a reader expects them, or refused with their place."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import pathlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

import toyspec
from toyspec.core.format.canonical import InvalidEventError, encode
from toyspec.core.format.foreign_values import fields_of
from toyspec.core.generated.toy_v1 import Git
from toyspec.core.reading.reader import read
from toyspec.core.writing.run_starting import start_run

np = pytest.importorskip("numpy")


@dataclasses.dataclass
class Optimizer:
    """Settings as a dataclass."""

    name: str = "adamw"
    betas: tuple[float, ...] = (0.9, 0.95)


class Precision(enum.Enum):
    """Settings as an enumeration."""

    HALF = "f16"
    ODD = object()


class Phase(enum.Enum):
    """What a program calls its phases."""

    EVAL = "eval"
    WARMUP = "warmup"


MUST_BE_PHASE = "it must be one of 'train', 'eval', 'decode', 'serve'"


class Mode(enum.IntEnum):
    """Settings as numbers with names."""

    FAST = 2


class Name(enum.StrEnum):
    """Settings as texts with names."""

    SGD = "sgd"


class Config:
    """Members by keys() and [], as in libraries for settings; a missing one raises."""

    def __init__(self, **members: Any) -> None:
        self.members = members

    def keys(self) -> Iterator[str]:
        """Return the names."""
        return iter(self.members)

    def __getitem__(self, name: str) -> Any:
        if self.members[name] == "???":
            raise LookupError(f"Missing mandatory value: {name}")
        return self.members[name]


class Items(Sequence[Any]):
    """A sequence that is not a list."""

    def __getitem__(self, at: Any) -> Any:
        return [1, Config(x=2)][at]

    def __len__(self) -> int:
        return 2


class dtype:  # noqa: N801 - as torch spells it
    """A type of numbers of an array library."""

    def __repr__(self) -> str:
        return "torch.float32"


dtype.__module__ = "torch"


def train() -> None:
    """Be named in settings."""


CASES: list[tuple[Any, Any]] = [
    (np.float32(0.5), 0.5),
    (np.float64("nan"), None),
    (np.int64(7), 7),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array(0.25), 0.25),
    (np.dtype("float32"), "float32"),
    (np.float32, "numpy.float32"),
    (np.datetime64("2026-05-31"), "2026-05-31"),
    (dtype(), "torch.float32"),
    (Optimizer(), {"name": "adamw", "betas": [0.9, 0.95]}),
    (
        argparse.Namespace(lr=0.5, opt=Optimizer("sgd", (0.0, 0.0))),
        {"lr": 0.5, "opt": {"name": "sgd", "betas": [0.0, 0.0]}},
    ),
    (types.SimpleNamespace(a=1), {"a": 1}),
    (Config(a=1, b=Config(c=2)), {"a": 1, "b": {"c": 2}}),
    (Items(), [1, {"x": 2}]),
    (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    (collections.deque([1, 2]), [1, 2]),
    (range(3), [0, 1, 2]),
    (pathlib.PurePosixPath("/data/x"), "/data/x"),
    (dt.datetime(2026, 5, 31, 9, 30, tzinfo=dt.UTC), "2026-05-31T09:30:00Z"),
    (dt.date(2026, 5, 31), "2026-05-31"),
    (dt.timedelta(seconds=90), "PT90S"),
    (Precision.HALF, "f16"),
    (Precision.ODD, "ODD"),
    (Mode.FAST, 2),
    (Name.SGD, "sgd"),
    (Git(sha="s"), {"sha": "s"}),
    (2**53 + 1, 2**53 + 1),
    (2**70, 2**70),
    ({3, 1, 20}, [1, 3, 20]),
    (frozenset(["b", "a"]), ["a", "b"]),
    ((1, "x", None), [1, "x", None]),
    (decimal.Decimal("0.001"), 0.001),
    (train, f"{__name__}.train"),
    (Optimizer, f"{__name__}.Optimizer"),
    (len, "len"),
    ({2: "a", None: "b", 0.5: "c", True: "d"}, {"0.5": "c", "2": "a", "null": "b", "true": "d"}),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=lambda value: type(value).__name__)
def test_a_setting_is_written_as_a_reader_expects_it(value: Any, expected: Any) -> None:
    """Whatever library it comes from."""
    line = encode({"kind": "run_start", "config": {"x": value}})
    assert {"kind": "run_start", "config": {"x": expected}} == msgspec.json.decode(line)


@pytest.mark.parametrize("config", [Optimizer(), argparse.Namespace(**vars(Optimizer())), Config(**vars(Optimizer()))])
def test_the_whole_config_may_be_such_an_object(tmp_path: Any, config: Any) -> None:
    """A config need not be a dict."""
    with start_run(tmp_path, config=config) as run:
        run.step(loss=0.5)
    assert {"name": "adamw", "betas": [0.9, 0.95]} == next(read(run.directory))["config"]


class Broken:
    """An object whose methods fail in an unusual way."""

    def item(self) -> Any:
        """Fail as a device does."""
        raise MemoryError("device lost")


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (object(), "got object; pass a number, a string, a list or a mapping"),
        (functools.partial(train), "got partial"),
        ((number for number in range(3)), "got generator"),
        (complex(1, 2), "got complex"),
        (Config(lr="???"), "Missing mandatory value: lr"),
        (Broken(), "device lost"),
        (10**400, "an integer within binary64"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_place(value: Any, fact: str) -> None:
    """The error names the key's path, what is there, and what to pass instead."""
    with pytest.raises(InvalidEventError) as caught:
        encode({"kind": "run_start", "config": {"a": [{"b": value}]}})
    assert str(caught.value).startswith("/config/a/0/b must be ")
    assert fact in str(caught.value)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"loss": np.zeros(3)}, "loss"),
        ({"loss": Broken()}, "loss"),
        ({"loss": 1j}, "loss"),
        ({"lr": [0.1]}, "lr"),
        ({"tokens": b"1"}, "tokens"),
        ({"extra": {"x": object()}}, "extra/x"),
        ({"extra": [1]}, "extra"),
        ({"extra": {"x": Broken()}}, "extra/x"),
        ({"extra": {("a", "b"): 1.0}}, "extra/('a', 'b')"),
    ],
)
def test_a_value_that_cannot_be_written_is_left_out_alone(
    tmp_path: Any, values: dict[str, Any], name: str, capfd: Any
) -> None:
    """All else of its step is written, and standard error and a note say which value is not there, and why."""
    with start_run(tmp_path) as run:
        run.step(loss=0.5)
        run.step(**{"grad_norm": 2.0, **values})
        run.step(loss=0.25)
    records = list(read(run.directory))
    found = [(record.get("loss"), record.get("grad_norm")) for record in records if record.kind == "step"]
    assert ([(0.5, None), (None, 2.0), (0.25, None)], 0, {name: 1}) == (found, run.dropped, run.left_out)
    (note,) = [record.value for record in records if record.kind == "note"]
    assert ("left-out", {name: 1}, None) == (note["topic"], note["left_out"], note.get("dropped"))
    assert note["text"].startswith(f"left out: {name} (")
    assert 1 == capfd.readouterr().err.count(f"{name} of step is left out, and all else is written: ")
    with start_run(tmp_path, on_error="raise") as run, pytest.raises(ValueError, match=r"."):
        run.step(**values)


@pytest.mark.parametrize(
    ("phase", "name"), [("night", "night"), ("a/b", "a/b"), ([], "[]"), (Phase.WARMUP, "warmup"), (7, "7.0")]
)
def test_a_phase_of_another_name_costs_no_value(tmp_path: Any, phase: Any, name: str, capfd: Any) -> None:
    """Values are named after it, as those of another phase are; it is reported once and counted."""
    with start_run(tmp_path) as run:
        run.step(1, loss=0.5)
        run.step(1, loss=0.25, extra={"acc": 1.0}, phase=phase)
        run.step(loss=0.125, phase=phase)
        run.log({"x": 2.0, "who": "Ada"}, step=4, phase=phase)
        run.eval("test", loss=3.0, phase=phase)
        run.note("a remark", phase=phase)
        assert (0, {"phase": 5}) == (run.dropped, run.left_out)
    found = toyspec.history(run.directory)
    assert {
        "step": [1, 2, 4],
        "loss": [0.5, None, None],
        f"{name}/acc": [1.0, None, None],
        f"{name}/loss": [0.25, 0.125, None],
        f"{name}/x": [None, None, 2.0],
        f"{name}/who": [None, None, "Ada"],
        "test/loss": [3.0, None, None],
    } == dict(found)
    said = capfd.readouterr().err
    assert 1 == said.count(f"phase of scalars is left out, and all else is written: {MUST_BE_PHASE}, got {name}")
    with start_run(tmp_path, on_error="raise") as run, pytest.raises(ValueError, match="phase"):
        run.step(loss=0.5, phase=phase)


def test_a_phase_of_an_own_kind_is_kept(tmp_path: Any) -> None:
    """What the format does not know is the program's; a member of an enumeration is its value where that is known."""
    with start_run(tmp_path) as run:
        run.write({"kind": "own", "phase": "night"})
        run.step(1, loss=0.5, phase=Phase.EVAL)  # type: ignore[arg-type]
    phases = [(record.kind, record["phase"]) for record in read(run.directory) if "phase" in record.value]
    assert ([("own", "night"), ("step", "eval")], {}) == (phases, run.left_out)


def test_a_second_counter_says_nothing_about_where_a_run_goes_on(tmp_path: Any) -> None:
    """Of two networks with steps of their own, neither supersedes the values of the other."""
    for first in (True, False):
        with start_run(tmp_path, run_id="a", exist="resume") as run:
            for step in range(1, 4) if first else range(4, 6):
                run.step(step, loss=1.0, phase="generator")  # type: ignore[arg-type]
                for each in range(3):
                    run.step(3 * step + each, loss=2.0, phase="critic")  # type: ignore[arg-type]
    found = toyspec.history(run.directory)
    assert [5, 15] == [sum(value is not None for value in found[f"{name}/loss"]) for name in ("generator", "critic")]


@pytest.mark.parametrize("step", ["one", Broken(), 10**400])
def test_a_step_without_a_number_is_the_next_one(tmp_path: Any, step: Any, capfd: Any) -> None:
    """The values stay, and the step is counted as left out."""
    with start_run(tmp_path) as run:
        run.step(loss=0.5)
        run.step(step, loss=0.4)
        run.step(loss=0.25)
    found = [(record["step"], record["loss"]) for record in read(run.directory) if record.kind == "step"]
    assert ([0.5, 0.4, 0.25], 0, {"step": 1}) == ([loss for _, loss in found], run.dropped, run.left_out)
    assert len({number for number, _ in found}) == 3
    assert "step" in capfd.readouterr().err


@pytest.mark.parametrize("names", [["x" * 17_000_000], [f"{index:0>990}" for index in range(17_000)]])
def test_names_of_any_length_and_number_are_left_out(tmp_path: Any, names: list[str], capfd: Any) -> None:
    """Every note about them fits in a line, and together the notes count all of them."""
    with start_run(tmp_path) as run:
        values: dict[str, Any] = {**dict.fromkeys(names, object()), "ok": 2.0}
        run.log(values, 1)
    records = [record.value for record in read(run.directory)]
    assert [{"ok": 2.0}] == [record["values"] for record in records if record["kind"] == "scalars"]
    counts = [sum(record["left_out"].values()) for record in records if record["kind"] == "note"]
    assert (len(names), 0) == (sum(counts), run.dropped)
    assert "run_end" == records[-1]["kind"]


def test_none_in_an_event_is_null(tmp_path: Any) -> None:
    """None means not finite there, which is not what everybody means; as an argument it means that there is none."""
    with start_run(tmp_path) as run:
        run.step(1, loss=0.5, lr=None)
        for step in (2, 3):
            run.write({"kind": "step", "step": step, "loss": 0.5, "lr": None})
    assert [False, True, True] == ["lr" in record for record in read(run.directory) if record.kind == "step"]


class Attributes:
    """Settings as a class of attrs, as that library marks it."""

    __attrs_attrs__ = (types.SimpleNamespace(name="a"), types.SimpleNamespace(name="b"))

    def __init__(self) -> None:
        self.a, self.b, self.c = 1, "x", 3


class Struct(msgspec.Struct):
    """Settings as a struct of msgspec."""

    a: int = 1
    b: str = "x"


Named = collections.namedtuple("Named", ["a", "b"])  # noqa: PYI024 - this is what programs write


@pytest.mark.parametrize("value", [Attributes(), Struct(), Named(1, "x")])
def test_fields_are_those_that_are_declared(value: Any) -> None:
    """What a class has otherwise, and a class itself, is not a field."""
    assert {"a": 1, "b": "x"} == fields_of(value)
    assert fields_of(type(value)) is None


@pytest.mark.parametrize("value", [(1, 2), [1], {"a": 1}, 1, "x", object()])
def test_other_values_have_no_fields(value: Any) -> None:
    """A tuple without names is a sequence, and a dictionary has members."""
    assert fields_of(value) is None
