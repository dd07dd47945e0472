"""Properties of a run's writer that hold for any arguments."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from files import content
from property_examples import examples
from toyspec.core.checker.checking import check_bytes
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.generated.fields import FIELDS
from toyspec.core.reading.reader import read
from toyspec.core.writing import run_stream
from toyspec.core.writing.events import StartMembers
from toyspec.core.writing.run_progress import RunProgress
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import ManualClock


def start(run: RunWriter) -> RunWriter:
    """Write a small run_start."""
    run.run_start(host="", started_at="")
    return run


FILLED_IN = {"kind", "t", "schema", "run_id", "nonfinite", "left_out", "dropped"}
"""Members that the writer says itself."""


def taken_by(kind: str) -> set[str]:
    """Return what the method of *kind* takes by name; ``members`` are those of StartMembers."""
    names = set(inspect.signature(getattr(RunWriter, kind)).parameters) - {"self"}
    return names - {"members"} | StartMembers.__optional_keys__ if "members" in names else names


def test_methods_offer_every_member_of_their_kind() -> None:
    """What the schema knows can be said, and nothing else: kinds, members and methods agree."""
    for kind, fields in FIELDS["toy/v1"].items():
        offered = taken_by(kind)
        # Values by other names are members of extra; the content of a file is beside the stream.
        offered -= {"copy", "named", "content"}
        missing = set(fields) - offered - FILLED_IN
        envelope = {"step", "phase"} if kind in ("run_start", "run_end", "run_resume") else set()
        assert missing <= envelope, kind
        assert offered <= set(fields), kind


# Where no other value is allowed.
ALLOWED: dict[str, Any] = {
    "phase": "train",
    "started_at": "2026-05-31T09:30:07Z",
    "ended_at": "2026-05-31T09:30:08Z",
    "resumed_at": "2026-05-31T09:30:09Z",
    "reason": "aborted",
    "level": "error",
    "event": "begun",
    "histogram": list(range(32)),
    "verdict": "par",
    "goal": "max",
    "by": {"kind": "agent", "name": "a"},
    "packages": {"numpy": "2.0"},
    "weight_type": "f32",
    "sha256": "0123456789abcdef" * 4,
}


def made(name: str, declared: Any, number: int) -> Any:
    """Return a value of the type *declared* for the member *name*, another one for each *number*."""
    if name in ALLOWED:
        return ALLOWED[name]
    if isinstance(declared, str):
        return {"integer": number, "number": number / 64, "string": f"{name} {number}", "boolean": True}.get(
            declared, {name: number}
        )
    sort, inner = declared
    if sort == "object":
        return {key: made(key, each, number + at) for at, (key, each) in enumerate(inner.items())}
    return {"own": made(name, inner, number)} if sort == "map" else [made(name, inner, number)]


def every_member(kind: str) -> dict[str, Any]:
    """Return what the method of *kind* takes, with a value for each."""
    offered = taken_by(kind)
    return {
        name: made(name, declared, 3 + at)
        for at, (name, declared) in enumerate(FIELDS["toy/v1"][kind].items())
        if name in offered
    }


@pytest.mark.parametrize("kind", sorted(FIELDS["toy/v1"].keys() - {"region_exit"}))
def test_method_writes_all_members_at_once(tmp_path: Path, kind: str) -> None:
    """No member is lost beside the others, and none is written as another one."""
    run = RunWriter(tmp_path / "r", clock=ManualClock(), on_error="raise")
    if kind != "run_start":
        run.run_start(host="", started_at="", compare_to="base")
    members = every_member(kind)
    getattr(run, kind)(**members)
    written = msgspec.json.decode(content(run.events_path).splitlines()[-1])
    assert {"kind": kind, **members} == {name: written[name] for name in written if name not in FILLED_IN - {"kind"}}


VALUES = st.none() | st.floats() | st.integers(-3, 2**54) | st.booleans() | st.text(max_size=3)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.none() | VALUES, st.dictionaries(st.sampled_from(["loss", "tokens"]), VALUES)),
        st.tuples(st.sampled_from(["step", "log"]), st.none(), st.dictionaries(st.just("phase"), st.just("serve"))),
        st.tuples(st.just("log"), st.just({"a": 1}), st.dictionaries(st.just("step"), st.integers(0, 9))),
        st.tuples(st.just("note"), VALUES, st.just({})),
        st.tuples(st.just("eval"), st.text(max_size=3), st.dictionaries(st.sampled_from(["loss", "step"]), VALUES)),
        st.tuples(st.sampled_from(["region_enter", "region_exit"]), st.just("a"), st.just({})),
        st.tuples(st.just("run_resume"), st.integers(-1, 5), st.just({})),
        st.tuples(st.just("run_end"), st.sampled_from(["completed", "no"]), st.just({})),
        st.tuples(st.just("write"), st.dictionaries(st.sampled_from(["kind", "t", "text"]), VALUES), st.just({})),
        st.tuples(st.just("advance"), st.floats(-1, 1), st.just({})),
    ),
    max_size=12,
)


@settings(max_examples=examples(150), deadline=None)
@given(CALLS)
def test_no_sequence_of_calls_makes_an_invalid_stream(
    tmp_path_factory: pytest.TempPathFactory, calls: list[Any]
) -> None:
    """Whatever is called in whatever order, the stream has no finding that is an error, and holds what was accepted.

    Whoever resumes it learns from it what its writer knows.
    """
    clock = ManualClock()
    run = start(RunWriter(tmp_path_factory.mktemp("run") / "r", clock=clock, on_error="raise"))
    accepted = 1
    for name, argument, options in calls:
        if name == "advance":
            clock.advance(argument)
            continue
        try:
            getattr(run, name)(argument, **options)
            accepted += 1
        except InvalidEventError:
            pass
    data = content(run.events_path)
    report = check_bytes(data)
    assert [] == [finding for finding in report.findings if finding.severity == "error"]
    assert (accepted, accepted) == (report.records, data.count(b"\n"))
    learned = RunProgress()
    for record in read(run.events_path, profile="toy/v1"):
        learned.take(record.kind, dict(record.value))
    assert vars(learned) == vars(run._stream._progress)


ODD = [-0.0, 5e-324, 1e16, -1.5, True, np.bool_(False), np.float32(0.1), "0.5"]
NUMBERS = st.none() | st.floats() | st.sampled_from(ODD) | st.integers(-3, 2**54)
COUNTS = st.integers(-2, 2**54) | st.sampled_from([10**307, 10**400, True, None, 1.0])


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(["loss", "ppl", "lr", "grad_norm", "logprob"], NUMBERS),
                **dict.fromkeys(["tokens", "compute_us", "wall_us", "token_id"], COUNTS),
                "step": st.integers(-2, 9),
                "phase": st.sampled_from(["train", "eval", "no"]),
                "extra": st.dictionaries(st.text(max_size=3), st.floats(), max_size=3),
            },
        ),
        max_size=5,
    )
)
def test_a_step_is_what_the_general_way_writes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]]
) -> None:
    """The way that most steps take spares time, and changes neither a byte nor what is refused."""
    folder = tmp_path_factory.mktemp("run")
    one, other = (
        start(RunWriter(folder / name, run_id="r", on_error="raise", clock=ManualClock())) for name in ("one", "other")
    )
    for members in steps:
        last: dict[str, int] = one._stream.progress._last_steps
        given_number = members.get("step", last.get(members.get("phase", "train"), 0) + 1)
        # A member of an event that is None is null, an argument that is None is not given.
        given = {name: value for name, value in members.items() if value is not None}
        assert _verdict(one.step, **members) == _verdict(other.write, {"kind": "step", **given, "step": given_number})
    assert content(other.events_path) == content(one.events_path)


ANY_VALUE = NUMBERS | st.sampled_from([
    True, "text", "\x00\u00e9\ud800", np.float32(0.1), np.float64("nan"), np.int8(-3), np.uint64(2**64 - 1),
    np.bool_(True), np.longdouble(1), np.ma.masked, np.datetime64("2026-01-01"), [1, 2.5], (), {"b": 1, "a": "x"},
    np.ones(2), object, 10**400,
])  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["log", "extra"]),
            st.dictionaries(st.sampled_from(["z", "a", "m/x", "\u00e9", "\ud800", "", 1]), ANY_VALUE, max_size=4),
            st.none() | st.integers(-1, 9) | st.sampled_from([2**63, True, 1.0]),
        ),
        max_size=4,
    )
)
def test_any_values_are_what_the_general_way_writes(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, dict[Any, Any], Any]]
) -> None:
    """The way of numbers and texts is a short one: with its table of types taken away, the log is the same."""
    found = []
    for is_short in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not is_short:
                patch.setattr(run_stream, "plain_values", lambda values: None)
                patch.setattr(run_stream, "plain_number", lambda value: None)
            folder = tmp_path_factory.mktemp("run")
            run = start(RunWriter(folder / "r", clock=ManualClock(), resuming="by-itself"))
            for name, values, step in calls:
                if name == "log":
                    run.log(values, step)
                else:
                    run.step(loss=1, extra=values)
            run.run_end(ended_at="")
            found.append(content(run.events_path))
    assert found[0] == found[1]


def _verdict(call: Any, *arguments: Any, **members: Any) -> bool:
    try:
        call(*arguments, **members)
    except InvalidEventError:
        return False
    return True


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "loss": st.floats(),
                "lr": st.floats(),
                "extra": st.dictionaries(st.text(max_size=3), st.floats(), max_size=3),
            }
        ),
        max_size=8,
    )
)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]]
) -> None:
    """Numbers read back to the same bits, NaN and infinities too."""
    run = start(RunWriter(tmp_path_factory.mktemp("run") / "r", on_error="raise"))
    for members in steps:
        run.step(**members)

    found = [record.event for record in read(run.events_path)][1:]
    for members, event in zip(steps, found, strict=True):
        for name in ("loss", "lr"):
            assert members[name].hex() == getattr(event, name).hex()
        expected = {key: value.hex() for key, value in members["extra"].items()}
        assert expected == {key: value.hex() for key, value in event.extra.items()}
    assert all(
        msgspec.json.encode(record.event) == record.raw for record in read(run.events_path) if record.kind != "step"
    )
