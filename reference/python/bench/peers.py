"""How fast other validators are on the same stream: each validates every line by the schema of its kind, no more.

A peer that is not installed is named. They come with ``pip install jsonschema orjson fastjsonschema jsonschema-rs``
and ``npm install ajv``; where ajv lies tells the variable NODE_PATH.
"""

from __future__ import annotations

import json
import subprocess
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import Row, side_by_side
from streams import toy_steps
from toyspec.checker import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STEPS = 100_000
_SLOW_STEPS = 5_000
_SCHEMA = Path(__file__).resolve().parents[3] / "schemas/bundled/toy-v1.json"
_AJV = """
const Ajv = require("ajv/dist/2020").default, fs = require("fs")
const [schema, stream] = process.argv.slice(1)
const { $defs } = JSON.parse(fs.readFileSync(schema))
const ajv = new Ajv({ strict: false, validateFormats: false })
const validators = Object.fromEntries(Object.keys($defs).map((kind) => [kind, ajv.compile({ ...$defs[kind], $defs })]))
const lines = fs.readFileSync(stream, "utf8").split("\\n").slice(0, -1)
const check = (value) => { if (!validators[value.kind](value)) throw value }
const run = () => lines.forEach((line) => check(JSON.parse(line)))
run()
const start = process.cpuUsage(); run(); const used = process.cpuUsage(start)
console.log((used.user + used.system) / 1e6)
"""


def rows(folder: Path) -> Iterator[Row]:
    """Yield the speed of each peer in MB/s of CPU time, and how many times as fast the checker is."""
    definitions = json.loads(_SCHEMA.read_bytes())["$defs"]
    for name, make, steps, goal in (
        ("jsonschema", _jsonschema, _SLOW_STEPS, 200),
        ("orjson + fastjsonschema", _fastjsonschema, _STEPS, None),
        ("orjson + jsonschema-rs", _jsonschema_rs, _STEPS, 2.5),
    ):
        path = toy_steps(folder / "peer.jsonl", steps)
        try:
            validate = make(definitions)
        except ImportError as missing:
            yield Row(f"check, against {name}", f"not installed: {missing.name}", "", None)
            continue
        lines = path.read_bytes().splitlines()
        long = toy_steps(folder / "ours.jsonl", _STEPS)
        times = side_by_side({"peer": partial(_all, validate, lines)}, rounds=2)
        yield _row(name, path.stat().st_size / times["peer"].best, _speed_of_check(long), goal)
    yield _ajv(toy_steps(folder / "peer.jsonl", _STEPS))


def _row(name: str, peer: float, ours: float, goal: float | None) -> Row:
    figure = f"{ours / peer:.1f}x as fast ({ours / 1e6:.0f} against {peer / 1e6:.1f} MB/s)"
    met = None if goal is None else ours / peer >= goal
    return Row(f"check, against {name}", figure, f"at least {goal:g}x" if goal else "", met)


def _speed_of_check(path: Path) -> float:
    return path.stat().st_size / side_by_side({"check": lambda: check(path)}, rounds=3)["check"].best


def _all(validate: Callable[[bytes], object], lines: list[bytes]) -> None:
    for line in lines:
        validate(line)


def _jsonschema(definitions: dict[str, Any]) -> Callable[[bytes], object]:
    validator = import_module("jsonschema").Draft202012Validator
    by_kind = {kind: validator({**schema, "$defs": definitions}) for kind, schema in definitions.items()}

    def validate(line: bytes) -> None:
        value = json.loads(line)
        by_kind[value["kind"]].validate(value)

    return validate


def _fastjsonschema(definitions: dict[str, Any]) -> Callable[[bytes], object]:
    loads, compiled = import_module("orjson").loads, import_module("fastjsonschema").compile
    # The library knows draft 7, where definitions have another name.
    old = json.loads(json.dumps(definitions).replace("#/$defs/", "#/definitions/"))
    by_kind = {kind: compiled({**old[kind], "definitions": old}) for kind in ("run_start", "step", "run_end")}

    def validate(line: bytes) -> None:
        value = loads(line)
        by_kind[value["kind"]](value)

    return validate


def _jsonschema_rs(definitions: dict[str, Any]) -> Callable[[bytes], object]:
    loads, validator_for = import_module("orjson").loads, import_module("jsonschema_rs").validator_for
    by_kind = {kind: validator_for({**schema, "$defs": definitions}) for kind, schema in definitions.items()}

    def validate(line: bytes) -> None:
        value = loads(line)
        by_kind[value["kind"]].validate(value)

    return validate


def _ajv(path: Path) -> Row:
    command = ["node", "-e", _AJV, str(_SCHEMA), str(path)]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        return Row("check, against node and ajv", "not installed: node", "", None)
    except subprocess.CalledProcessError as error:
        reason = "ajv" if "Cannot find module" in error.stderr else error.stderr.strip()[-80:]
        return Row("check, against node and ajv", f"not installed: {reason}", "", None)
    return _row("node and ajv", path.stat().st_size / float(done.stdout), _speed_of_check(path), 1.5)
