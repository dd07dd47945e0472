"""How fast other validators are on the same stream: each validates every line by the schema of its kind, no more.

A peer that is not there is named. ``make bench`` installs those of Python and npm below build/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import Row, alternating, missing, programs, ratio, spread
from streams import toy_steps
from toyspec.core.checker import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_GROUP = "other validators"
# A validator that takes long is given less: a rate does not depend on it.
_MOST = 100_000
_MOST_OF_SLOW = 3_000
_LEAST_OF_FAST = 500_000
_ROOT = Path(__file__).resolve().parents[3]
_SCHEMA = _ROOT / "schemas/bundled/toy-v1.json"
_RUST = _ROOT / "reference/rust/target/release/toyspec-rs"
_AJV = """
const Ajv = require("ajv/dist/2020").default, fs = require("fs")
const [schema, stream] = process.argv.slice(1)
const { $defs } = JSON.parse(fs.readFileSync(schema))
const ajv = new Ajv({ strict: false, validateFormats: false })
const validators = Object.fromEntries(Object.keys($defs).map((kind) => [kind, ajv.compile({ ...$defs[kind], $defs })]))
const lines = fs.readFileSync(stream, "utf8").split("\\n").slice(0, -1)
const check = (value) => { if (!validators[value.kind](value)) throw value }
const run = () => lines.forEach((line) => check(JSON.parse(line)))
let refused = false
try { check({ kind: "step", t: 1 }) } catch { refused = true }
if (!refused) throw "the peer validates nothing"
run()
const start = process.cpuUsage(); run(); const used = process.cpuUsage(start)
console.log((used.user + used.system) / 1e6)
"""


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield how many times as fast as each peer the checker is, in CPU time on the same stream."""
    definitions = json.loads(_SCHEMA.read_bytes())["$defs"]
    path = toy_steps(folder / "peer.jsonl", min(size, _MOST))
    for name, make, most, goal in (
        ("jsonschema", _jsonschema, _MOST_OF_SLOW, 200),
        ("orjson + fastjsonschema", _fastjsonschema, _MOST, None),
        ("orjson + jsonschema-rs", _jsonschema_rs, _MOST, 2.5),
    ):
        try:
            validate = make(definitions)
        except ImportError as absent:
            yield missing(_GROUP, f"{name}, against ours", f"no module {absent.name}", least=goal)
            continue
        _prove(validate)
        lines = path.read_bytes().splitlines()
        yield from _compared(name, path, partial(_all, validate, lines[:most]), len(lines) / len(lines[:most]), goal)
    yield from _sourcemeta(folder, path, definitions)
    yield from _ajv(path)
    yield from _rust(toy_steps(folder / "long.jsonl", max(size, _LEAST_OF_FAST)))


def _compared(name: str, path: Path, peer: Callable[[], object], share: float, goal: float | None) -> Iterator[Row]:
    """Yield rate and ratio of a peer that works in this process on one part in *share* of the lines of *path*."""
    times = alternating({"peer": peer, "check": lambda: check(path)}, rounds=3)
    yield from _rows(name, path, [seconds * share for seconds in times["peer"]], times["check"], goal)


def _rows(name: str, path: Path, peer: Sequence[float], ours: Sequence[float], goal: float | None) -> Iterator[Row]:
    options = {} if goal is None else {"least": goal}
    yield ratio(_GROUP, f"{name}, against ours", peer, ours, **options)
    yield spread(_GROUP, name, "MB/s", [path.stat().st_size / seconds / 1e6 for seconds in peer])


def _prove(validate: Callable[[bytes], object]) -> None:
    """Raise RuntimeError when *validate* lets a step without its number pass: it would be no peer."""
    try:
        validate(b'{"kind":"step","t":1.0}')
    except Exception:  # noqa: BLE001 - each library has its own
        return
    raise RuntimeError("the peer validates nothing")


def _sourcemeta(folder: Path, path: Path, definitions: dict[str, Any]) -> Iterator[Row]:
    """Yield the rate of the command line of Sourcemeta, less its start, on the steps alone."""
    name = "Sourcemeta CLI, --fast"
    if subprocess.run(
        [sys.executable, "-m", "sourcemeta_jsonschema", "version"], check=False, capture_output=True
    ).returncode:
        yield missing(_GROUP, f"{name}, against ours", "no module sourcemeta_jsonschema", least=15)
        return
    draft = "https://json-schema.org/draft/2020-12/schema"
    schema = folder / "step.schema.json"
    schema.write_text(json.dumps({"$schema": draft, "$id": "urn:step", "$ref": "#/$defs/step", "$defs": definitions}))
    lines = path.read_bytes().splitlines(keepends=True)[1:-1]
    steps, one, wrong = folder / "steps.jsonl", folder / "one.jsonl", folder / "wrong.jsonl"
    steps.write_bytes(b"".join(lines))
    one.write_bytes(lines[0])
    wrong.write_bytes(b'{"kind":"step","t":1.0}\n')
    command = [sys.executable, "-m", "sourcemeta_jsonschema", "validate", "--fast", str(schema)]
    if not subprocess.run([*command, str(wrong)], check=False, capture_output=True).returncode:
        raise RuntimeError("the peer validates nothing")
    times = programs({"all": [*command, str(steps)], "one": [*command, str(one)]}, rounds=5)
    ours = alternating({"check": lambda: check(path)})["check"]
    peer = [whole - start for whole, start in zip(times["all"], times["one"], strict=True)]
    yield from _rows(name, path, peer, ours, 15)


def _rust(path: Path) -> Iterator[Row]:
    """Yield the rate of the checker in Rust, from start to end of its process."""
    if not _RUST.exists():
        yield missing("checker in Rust", "toyspec-rs check", "cargo build --release in reference/rust", least=1000)
        return
    times = programs({"check": [str(_RUST), "check", str(path)]}, rounds=5)["check"]
    rates = [path.stat().st_size / seconds / 1e6 for seconds in times]
    yield spread("checker in Rust", "toyspec-rs check, with its start", "MB/s", rates, least=1000)


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


def _ajv(path: Path) -> Iterator[Row]:
    name = "node, JSON.parse and ajv"
    environment = {"NODE_PATH": str(_ROOT / "build/bench-node/node_modules"), **os.environ}
    command = ["node", "-e", _AJV, str(_SCHEMA), str(path)]
    peer, ours = [], []
    try:
        for _ in range(3):
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            peer.append(float(done.stdout))
            ours += alternating({"check": lambda: check(path)}, rounds=1)["check"]
    except FileNotFoundError:
        yield missing(_GROUP, f"{name}, against ours", "no program node", least=1.5)
    except subprocess.CalledProcessError as error:
        why = "no package ajv" if "Cannot find module" in error.stderr else error.stderr.strip()[-80:]
        yield missing(_GROUP, f"{name}, against ours", why, least=1.5)
    else:
        yield from _rows(name, path, peer, ours, 1.5)
