"""Values whose own methods and attributes raise, as those of tensors without a shape do: training goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toyspec

_METHODS = [
    "__float__", "__index__", "__int__", "__bool__", "__len__", "__iter__", "__getitem__", "__eq__", "__str__",
    "__repr__", "__array__", "__getattr__", "item", "tolist", "keys", "detach", "_asdict", "to_dict", "model_dump",
]  # fmt: skip
_PROPERTIES = ["shape", "ndim", "dtype", "requires_grad", "item", "tolist", "keys", "mask"]

CALLS: dict[str, Callable[[toyspec.RunWriter, Any], None]] = {
    "log": lambda run, value: run.log({"a": 1.5, "x": value}, step=1),
    "log nested": lambda run, value: run.log({"a": 1.5, "in": {"x": value}}, step=1),
    "log list": lambda run, value: run.log({"a": 1.5, "x": {"items": [value]}}, step=1),
    "log key": lambda run, value: run.log({"a": 1.5, value: 2.0}, step=1),
    "log step": lambda run, value: run.log({"a": 1.5}, step=value),
    "step": lambda run, value: run.step(step=1, loss=1.5, lr=value),
    "step extra": lambda run, value: run.step(step=1, loss=1.5, extra={"x": value}),
    "eval": lambda run, value: run.eval("test", step=1, loss=1.5, extra={"x": value}),
    "eval list": lambda run, value: run.eval("test", step=1, loss=1.5, extra={"x": [value]}),
    "system": lambda run, value: run.system(extra={"a": 1.5, "x": value}),
}


def raising(name: str, kind: str) -> Any:
    """Return an object of which *name* raises."""

    def refuse(_self: Any, *_arguments: Any) -> Any:
        raise RuntimeError("no sizes")

    members: dict[str, Any] = {name: refuse if kind == "method" else property(refuse)}
    if "__eq__" in members:
        members["__hash__"] = object.__hash__
    return type("Raising", (), members)()


@pytest.mark.parametrize("call", CALLS)
def test_what_a_value_raises_never_reaches_the_training(call: str, tmp_path: Path) -> None:
    """The record is written without that value, which the log counts; what is beside it is kept."""
    objects = [("method", name) for name in _METHODS] + [("property", name) for name in _PROPERTIES]
    for number, (kind, name) in enumerate(objects):
        run = toyspec.start_run(tmp_path, run_id=f"run-{number}", git=None)
        CALLS[call](run, raising(name, kind))
        run.run_end()
        text = Path(run.events_path).read_text(encoding="utf-8")
        assert ":1.5" in text, (kind, name, text)
        is_counted = '"left_out":{' in text
        is_written = "Raising" in text
        assert is_counted or is_written, (kind, name, text)
    found = toyspec.check(str(tmp_path)).files
    assert len(objects) == len(found)
    assert all(file.valid for file in found)
    assert {"values-left-out"} == {finding.rule for file in found for finding in file.findings}


def test_settings_whose_methods_raise_do_not_prevent_a_run(tmp_path: Path) -> None:
    """The other settings are there, and the note counts the one that is not."""
    config = {"lr": 0.5, **{f"x{number}": raising(name, "method") for number, name in enumerate(_METHODS)}}
    run = toyspec.start_run(tmp_path, git=None, config=config)
    run.run_end()
    start, *rest = [record.value for record in toyspec.read(run.events_path) if isinstance(record, toyspec.Record)]
    written = start["config"].keys() - {"lr"}
    counted = {name.removeprefix("config/") for record in rest for name in record.get("left_out", {})}
    assert 0.5 == start["config"]["lr"]
    assert {f"x{number}" for number in range(len(_METHODS))} == written | counted
