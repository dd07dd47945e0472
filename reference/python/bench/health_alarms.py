"""How many planted faults the health rules find, how often they are wrong, and what they cost.

``python health_alarms.py FOLDER [--part held-out] [--preset default]`` reads the curves that ``health_curves.py`` has
trained. Losses and gradients are real. Times are drawn, since those of a busy machine have faults of their own: half a
second a step with a spread of 8 %, one step in 100 takes up to 4 times as long, and every 500 steps an evaluation takes
40 s. Faults are planted into curves at steps that a seed chooses.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import toyspec
from toyspec.health.evaluator import HealthEvaluator
from toyspec.health.rules import preset_rules
from toyspec.health.run_health import RunHealth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EVALUATION_STEPS, _EVALUATION_SECONDS = 500, 40.0


class Curve(NamedTuple):
    """One training: the columns of its steps."""

    name: str
    loss: list[float]
    grad_norm: list[float]
    seconds: list[float]


class Fault(NamedTuple):
    """What is planted, the rules that have to find it, and within how many steps."""

    name: str
    rules: tuple[str, ...]
    within: int
    plant: Callable[[Curve, int, random.Random], Curve]


def _spike(curve: Curve, at: int, numbers: random.Random) -> Curve:
    loss = list(curve.loss)
    largest = max(loss[at - 101 : at])
    for step in range(at, at + numbers.randint(1, 3)):
        loss[step] = largest * numbers.uniform(1.5, 3.0)
    return curve._replace(loss=loss)


def _nan(curve: Curve, at: int, numbers: random.Random) -> Curve:
    loss = list(curve.loss)
    loss[at] = numbers.choice([math.nan, math.inf])
    return curve._replace(loss=loss)


def _plateau(curve: Curve, at: int, numbers: random.Random) -> Curve:
    """Let the loss stay where it is: each later value is one of the last 100 before."""
    known = curve.loss[max(0, at - 100) : at]
    return curve._replace(loss=[*curve.loss[:at], *(numbers.choice(known) for _ in curve.loss[at:])])


def _slower(curve: Curve, at: int, _: random.Random) -> Curve:
    return curve._replace(seconds=[each / 0.7 if step >= at else each for step, each in enumerate(curve.seconds)])


def _stall(curve: Curve, at: int, numbers: random.Random) -> Curve:
    seconds = list(curve.seconds)
    seconds[at] += numbers.uniform(600, 7200)
    return curve._replace(seconds=seconds)


FAULTS = (
    Fault("loss spike, 1.5 to 3 times the largest of the last 101 values", ("loss-spike",), 3, _spike),
    Fault("NaN or infinity", ("loss-not-finite",), 1, _nan),
    Fault("plateau", ("loss-plateau",), 10**9, _plateau),
    Fault("throughput -30 %", ("slower",), 150, _slower),
    Fault("stall of 10 minutes or more", ("stall",), 1, _stall),
)


def curves(folder: Path, part: str) -> Iterator[Curve]:
    """Yield the trained curves of *part*."""
    for path in sorted(folder.glob(f"{part}-*.npz")):
        with np.load(path) as found:
            seconds = _times(path.stem, len(found["loss"]))
            for step in range(_EVALUATION_STEPS, len(seconds), _EVALUATION_STEPS):
                seconds[step] += _EVALUATION_SECONDS
            yield Curve(path.stem, found["loss"].tolist(), found["grad_norm"].tolist(), seconds)


def _times(name: str, count: int) -> list[float]:
    numbers = random.Random(name)
    usual = (0.5 * numbers.lognormvariate(0, 0.08) for _ in range(count))
    return [each * (numbers.uniform(1.5, 4) if numbers.random() < 0.01 else 1) for each in usual]


def alarms(curve: Curve, preset: str) -> list[tuple[int, str]]:
    """Return the step and the rule of each incident that begins."""
    evaluator = HealthEvaluator(preset_rules(preset))
    found: list[tuple[int, str]] = []
    now = 0.0
    for step, (loss, norm, seconds) in enumerate(zip(curve.loss, curve.grad_norm, curve.seconds, strict=True), 1):
        now += seconds
        alerts = evaluator.observe({"loss": loss, "grad_norm": norm, "lr": 1e-3}, step=step, time=now)
        found.extend((step, alert.rule) for alert in alerts if alert.event == "begun")
    return found


def interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate, after Wilson."""
    if not total:
        return 0.0, 1.0
    z, share = 1.96, count / total
    middle = (share + z * z / 2 / total) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / 4 / total**2)
    return max(0.0, middle - half), min(1.0, middle + half)


def report(folder: Path, part: str, preset: str) -> bool:
    """Print the figures; return whether the goals are met."""
    known = list(curves(folder, part))
    steps = sum(len(curve.loss) for curve in known)
    print(f"{len(known)} curves of the part {part}, {steps:,} steps, preset {preset}")
    clean = {curve.name: alarms(curve, preset) for curve in known}
    wrong = Counter(rule for found in clean.values() for _, rule in found)
    low, high = interval(sum(wrong.values()), steps)
    total = sum(wrong.values())
    rate = total / steps
    print(f"false alarms: {total}, {rate * 1e4:.2f} in 10,000 steps ({low * 1e4:.2f} to {high * 1e4:.2f})")
    print(f"  by rule: {dict(wrong) or 'none'}")
    is_good = rate < 1e-4
    for fault in FAULTS:
        found = 0
        for curve in known:
            numbers = random.Random(f"{curve.name} {fault.name}")
            last = len(curve.loss) // (4 if fault.name == "plateau" else 1) - 200
            at = numbers.randrange(min(200, last - 1), last)
            later = alarms(fault.plant(curve, at, numbers), preset)
            found += any(rule in fault.rules and at < step <= at + fault.within for step, rule in later)
        is_good = _print_found(fault.name, found, len(known)) and is_good
    return is_good


def _print_found(name: str, found: int, total: int) -> bool:
    low, high = interval(found, total)
    print(f"{name}: {found} of {total} found, {found / total:.1%} ({low:.1%} to {high:.1%})")
    return found >= 0.95 * total


def samples(root: Path, preset: str) -> None:
    """Print what the rules report about short logs of other programs, of which some have NaN on purpose."""
    logs = steps = 0
    found: Counter[str] = Counter()
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix in (".py", ".md") or path.name == "samples.json":
            continue
        try:
            with toyspec.read(path, mode="salvage") as reading:
                values = sum(1 for record in reading if record.values)
            alerts = toyspec.check_health(path, preset)
        except (OSError, toyspec.ToyspecError):
            continue
        logs, steps = logs + 1, steps + values
        found.update(f"{alert.rule} ({path.parent.name})" for alert in alerts if alert.event == "begun")
    print(f"samples of other programs: {logs} logs, {steps:,} records with values, alarms: {dict(found) or 'none'}")


def cost(preset: str, metrics: int, steps: int = 20_000) -> float:
    """Return the CPU time of the evaluator in µs, for each metric and step."""
    numbers = random.Random(1)
    names = ["loss", "grad_norm", *(f"m{at}" for at in range(metrics - 2))]
    rows = [{name: 2 + numbers.gauss(0, 0.05) for name in names} for _ in range(steps)]
    evaluator = HealthEvaluator(preset_rules(preset))
    began = time.process_time()
    for step, row in enumerate(rows):
        evaluator.observe(row, step=step, time=step * 0.5)
    return (time.process_time() - began) / steps / metrics * 1e6


def cost_of_records(preset: str, metrics: int, records: int = 20_000) -> float:
    """Return the CPU time of the watch in the process in µs, for each metric and record, one record after another."""
    numbers = random.Random(1)
    names = ["loss", "grad_norm", *(f"m{at}" for at in range(metrics - 2))][:metrics]
    lines = [
        json.dumps(
            {"kind": "scalars", "t": at / 1000, "step": at, "values": {name: numbers.gauss(2, 0.05) for name in names}}
        ).encode()
        for at in range(records)
    ]
    with tempfile.TemporaryDirectory() as folder, toyspec.start_run(folder, git=None) as run:
        health = RunHealth(run, preset_rules(preset), [])
        began = time.process_time()
        for line in lines:
            health.record(line, "scalars", None)
        took = time.process_time() - began
        health.ending()
    return took / records / metrics * 1e6


def cost_in_run(preset: str, metrics: int, steps: int = 2_000) -> float:
    """Return the CPU time that health adds to ``run.log`` in µs, for each metric and step: with it less without."""
    numbers = random.Random(1)
    names = ["loss", "grad_norm", *(f"m{at}" for at in range(metrics - 2))][:metrics]
    rows = [{name: 2 + numbers.gauss(0, 0.05) for name in names} for _ in range(steps)]
    took = []
    off: bool | str = False
    for health in (preset, off):
        with tempfile.TemporaryDirectory() as folder, toyspec.start_run(folder, git=None, health=health) as run:
            began = time.process_time()
            for step, row in enumerate(rows, 1):
                run.log(row, step=step)
            took.append(time.process_time() - began)
    return (took[0] - took[1]) / steps / metrics * 1e6


def main() -> int:
    """Print all figures; return 1 if a goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="held-out")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--samples", type=Path, action="append", default=[])
    options = parser.parse_args()
    is_good = report(options.folder, options.part, options.preset)
    for root in options.samples:
        samples(root, options.preset)
    for metrics in (2, 4, 16):
        took = min(cost(options.preset, metrics) for _ in range(3))
        print(f"evaluator, {metrics} metrics: {took:.2f} µs for each metric and step, CPU time")
        is_good = is_good and took < 2.0
    for metrics in (1, 2, 4, 16):
        took = min(cost_of_records(options.preset, metrics) for _ in range(3))
        print(f"records alone, {metrics} metrics: {took:.2f} µs for each metric and step, CPU time")
    for metrics in (1, 2, 4, 16):
        took = sorted(cost_in_run(options.preset, metrics) for _ in range(5))[2]
        print(f"run.log, {metrics} metrics: {took:.2f} µs more for each metric and step, CPU time, median of 5")
        is_good = is_good and took < 2.0
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
