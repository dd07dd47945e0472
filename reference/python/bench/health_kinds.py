"""What the health rules report about healthy curves of many kinds, and which problems they find in them.

``python health_kinds.py [--runs 40] [--seed 1] [--steps 4000]`` draws the curves: those of one seed and one kind are
always the same. The times of steps are drawn too: half a second with a spread of 8 %, one step in 100 takes up to 4
times as long, and every 500 steps an evaluation takes 40 s.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.random import Generator, default_rng

from toyspec.health.evaluator import HealthEvaluator
from toyspec.health.rules import HealthAlert, SpikeRule, preset_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[Any]
    Kind = Callable[[Generator, int], Values]

STOP_BAR, CURRICULUM_STOP_BAR, ALARM_BAR, FOUND_BAR = 0.001, 0.01, 1.0, 0.95


def _noise(numbers: Generator, steps: int, least: float, most: float) -> Values:
    noise: Values = np.exp(numbers.normal(0, numbers.uniform(least, most), steps))
    return noise


def _learning(numbers: Generator, steps: int) -> Values:
    """Return a loss that falls by a power of the step, towards a floor."""
    floor, height = numbers.uniform(0.5, 2.5), numbers.uniform(1, 8)
    at = np.arange(steps) / numbers.uniform(20, 200)
    loss: Values = floor + height * (1 + at) ** -numbers.uniform(0.3, 1.0)
    return loss


def _power_law(numbers: Generator, steps: int) -> Values:
    return _learning(numbers, steps) * _noise(numbers, steps, 0.005, 0.03)


def _small_batches(numbers: Generator, steps: int) -> Values:
    return _learning(numbers, steps) * _noise(numbers, steps, 0.05, 0.25)


def _heavy_tails(numbers: Generator, steps: int) -> Values:
    tails = numbers.uniform(0.01, 0.03) * numbers.standard_t(numbers.uniform(3.5, 8), steps)
    return _learning(numbers, steps) * np.maximum(1 + tails, 0.3)


def _correlated(numbers: Generator, steps: int) -> Values:
    kept, drawn = numbers.uniform(0.8, 0.98), numbers.normal(0, 1, steps)
    noise = np.zeros(steps)
    for at in range(1, steps):
        noise[at] = kept * noise[at - 1] + drawn[at]
    values: Values = _learning(numbers, steps) * np.exp(noise / noise.std() * numbers.uniform(0.01, 0.06))
    return values


def _warm_up(numbers: Generator, steps: int) -> Values:
    at = np.arange(steps) / numbers.uniform(50, 200)
    bump = 1 + numbers.uniform(0.05, 0.4) * at * np.exp(1 - at)
    return _power_law(numbers, steps) * bump


def _decay(numbers: Generator, steps: int) -> Values:
    at = np.arange(steps) / steps
    return _power_law(numbers, steps) * (1 - numbers.uniform(0.1, 0.4) * np.maximum(0, at - 0.8) / 0.2)


def _restarts(numbers: Generator, steps: int) -> Values:
    period = numbers.integers(300, 1200)
    at = (np.arange(steps) % period) / period
    is_later = np.arange(steps) >= period
    rate = np.minimum(1, at * period / 20) * (1 + np.cos(np.pi * at)) / 2
    values: Values = _power_law(numbers, steps) * (1 + numbers.uniform(0.05, 0.3) * rate * is_later)
    return values


def _curriculum(numbers: Generator, steps: int) -> Values:
    loss = _power_law(numbers, steps)
    for part in range(1, 1 + int(numbers.integers(1, 4))):
        at = int(steps * (part + numbers.uniform(0, 0.5)) / 4)
        later = np.arange(steps - at) / numbers.uniform(100, 1000)
        loss[at:] *= 1 + (numbers.uniform(1.3, 3) - 1) * (0.3 + 0.7 * (1 + later) ** -0.7)
    return loss


def _two_modes(numbers: Generator, steps: int) -> Values:
    is_high = numbers.random(steps) < numbers.uniform(0.05, 0.5)
    return _power_law(numbers, steps) * np.where(is_high, numbers.uniform(1.5, 4), 1)


def _adversarial(numbers: Generator, steps: int) -> Values:
    at = np.arange(steps)
    waves = sum(
        numbers.uniform(0.05, 0.3) * np.sin(2 * np.pi * (at / numbers.uniform(60, 900) + numbers.random()))
        for _ in range(3)
    )
    return numbers.uniform(0.5, 3) * np.exp(waves) * _noise(numbers, steps, 0.05, 0.2)


def _stairs(numbers: Generator, steps: int) -> Values:
    loss = _power_law(numbers, steps)
    for at in numbers.integers(100, steps, numbers.integers(1, 5)):
        loss[at:] *= numbers.uniform(0.3, 0.9)
    return loss


def _near_zero(numbers: Generator, steps: int) -> Values:
    fall = np.exp(-np.arange(steps) / numbers.uniform(100, 400))
    floor = 10 ** numbers.uniform(-5, -3) * (1 + np.arange(steps) / 300) ** -0.5
    return (numbers.uniform(1, 5) * fall + floor) * _noise(numbers, steps, 0.1, 0.4)


def _epochs(numbers: Generator, steps: int) -> Values:
    period = numbers.integers(200, 1000)
    at = np.arange(steps)
    falls = 1 - numbers.uniform(0.02, 0.08) * (at // period)
    rises = 1 + numbers.uniform(0, 0.05) * (at % period) / period
    values: Values = _power_law(numbers, steps) * np.maximum(falls, 0.4) * rises
    return values


def _fine_tuning(numbers: Generator, steps: int) -> Values:
    return _small_batches(numbers, int(numbers.integers(300, 700)) if steps > 700 else steps)


KINDS: dict[str, Kind] = {
    "power law": _power_law,
    "small batches, noise of 5 to 25 %": _small_batches,
    "heavy tails, Student's t of 3.5 to 8": _heavy_tails,
    "correlated noise": _correlated,
    "a bump while the rate warms up": _warm_up,
    "the rate decays at the end": _decay,
    "warm restarts (SGDR), 5 to 30 %": _restarts,
    "curricula, jumps of 1.3 to 3 times": _curriculum,
    "two modes, 1.5 to 4 times apart": _two_modes,
    "adversarial, waves without a trend": _adversarial,
    "stairs": _stairs,
    "near zero, noise of 10 to 40 %": _near_zero,
    "epochs": _epochs,
    "fine-tuning of 300 to 700 steps": _fine_tuning,
}
_CURRICULA = "curricula, jumps of 1.3 to 3 times"


def _rising_reward(numbers: Generator, steps: int) -> Values:
    at = np.arange(steps) / numbers.uniform(100, 800)
    return 200 * (1 - np.exp(-at)) + numbers.normal(0, 200 * numbers.choice([0.02, 0.1, 0.3]), steps)


def _successes(numbers: Generator, steps: int) -> Values:
    chance = np.linspace(numbers.uniform(0.02, 0.2), numbers.uniform(0.3, 0.95), steps)
    return (numbers.random(steps) < chance).astype(float)


def _costs(numbers: Generator, steps: int) -> Values:
    """Return rewards that are costs, with dips as of a policy that explores."""
    at = np.arange(steps)
    dips = np.maximum(0, np.sin(2 * np.pi * at / numbers.uniform(200, 900))) * numbers.uniform(0, 20)
    values: Values = -20 - 180 * np.exp(-at / numbers.uniform(200, 900)) - dips + numbers.normal(0, 10, steps)
    return values


REWARDS: dict[str, Kind] = {
    "rewards that rise, noise of 2, 10 or 30 %": _rising_reward,
    "successes, 0 or 1": _successes,
    "costs, with dips": _costs,
}


class Run(NamedTuple):
    """The columns of one training."""

    name: str
    """Name of the metric in *values*."""
    values: Values
    seconds: Values
    throughput: Values | None = None


class Problem(NamedTuple):
    """What is planted from a step on, and what has to report it: any of *rules*."""

    name: str
    rules: tuple[str, ...]
    plant: Callable[[Run, int, Generator], Run]
    preset: str = "default"
    stays_open: bool = False
    """Whether the incident has to be open at the end of the run."""
    within: int | None = None
    """Number of steps in which it has to be found; without it a tenth of the run, or three doublings of 150 steps."""


def _times(numbers: Generator, steps: int) -> Values:
    seconds = 0.5 * _noise(numbers, steps, 0.08, 0.08)
    seconds[numbers.random(steps) < 0.01] *= numbers.uniform(1.5, 4)
    seconds[500::500] += 40
    return seconds


def _multiplied(values: Values, at: int, factors: Values | float) -> Values:
    return np.concatenate([values[:at], values[at:] * factors])


def _since(run: Run, at: int) -> Values:
    return np.arange(len(run.values) - at).astype(float)


def _loss(factors: Callable[[Values], Values | float]) -> Callable[[Run, int, Generator], Run]:
    return lambda run, at, _: run._replace(values=_multiplied(run.values, at, factors(_since(run, at))))


def _pace(factors: Callable[[Values], Values | float]) -> Callable[[Run, int, Generator], Run]:
    return lambda run, at, _: run._replace(seconds=_multiplied(run.seconds, at, factors(_since(run, at))))


def _less_throughput(run: Run, at: int, numbers: Generator) -> Run:
    usual = 1000 / (0.5 * _noise(numbers, len(run.values), 0.08, 0.08))
    return run._replace(throughput=_multiplied(usual, at, 8 ** -(_since(run, at) / (len(run.values) - at))))


def _pauses(run: Run, at: int, numbers: Generator) -> Run:
    """Let one step in 50 take 1,000 times as long: on average 21 times."""
    is_long = numbers.random(len(run.values) - at) < 1 / 50
    return run._replace(seconds=_multiplied(run.seconds, at, np.where(is_long, 1000, 1)))


def _collapse(over: int) -> Callable[[Run, int, Generator], Run]:
    def plant(run: Run, at: int, numbers: Generator) -> Run:
        steps = len(run.values)
        spread = 200 * (0.3 if over == 1 else numbers.choice([0.02, 0.1, 0.3]))
        level = np.minimum(200, np.arange(steps) / 2.0)
        level[at:] *= np.maximum(0, 1 - (1 + _since(run, at)) / over)
        return Run("reward", level + numbers.normal(0, spread, steps), run.seconds)

    return plant


def _spike(run: Run, at: int, numbers: Generator) -> Run:
    values = run.values.copy()
    values[at : at + numbers.integers(1, 4)] *= 1.3
    return run._replace(values=values)


def _flat(run: Run, at: int, numbers: Generator) -> Run:
    kept = run.values[at - 100 : at]
    return run._replace(values=np.concatenate([run.values[:at], numbers.choice(kept, len(run.values) - at)]))


_RISES = ("loss-spike", "loss-rising", "loss-diverged")
SLOW = (
    Problem("a loss that doubles each 150 steps", _RISES, _loss(lambda since: 2 ** (since / 150))),
    Problem("a loss that triples over 1,300 steps", _RISES, _loss(lambda since: 1 + 2 * np.minimum(1, since / 1300))),
    Problem("a loss 3 times as high for good, open at the end", _RISES, _loss(lambda _: 3.0), stays_open=True),
    Problem("a time per step that grows 8 times", ("slower",), _pace(lambda since: 8 ** (since / since[-1]))),
    Problem("a throughput that falls to an eighth", ("throughput-drop",), _less_throughput),
    Problem("rare pauses, on average 21 times slower", ("slower",), _pauses),
    Problem("a reward from 200 to 0 over 200 steps", ("reward-collapse",), _collapse(200), "rl"),
    Problem("a reward from 200 to 0 at once, noise of 30 %", ("reward-collapse",), _collapse(1), "rl"),
)
QUICK = (
    Problem("a spike of 1.3 times, noise of 0.5 to 3 %", _RISES, _spike, within=3),
    Problem("a shift of 1.3 times, noise of 0.5 to 3 %", _RISES, _loss(lambda _: 1.3)),
    Problem("NaN", ("loss-not-finite",), _loss(lambda since: np.where(since == 0, np.nan, 1)), within=1),
    Problem("steps that take 1.43 times as long", ("slower",), _pace(lambda _: 1 / 0.7), within=150),
    Problem("a pause of an hour", ("stall",), _pace(lambda since: np.where(since == 0, 7200, 1)), within=1),
    Problem("a plateau", ("loss-plateau",), _flat, within=10**6),
)


def alerts(run: Run, preset: str, spike_share: float | None = None) -> list[HealthAlert]:
    """Return what the rules of *preset* report; those on spikes may have another share."""
    rules = [
        msgspec.structs.replace(rule, share=spike_share)
        if spike_share is not None and isinstance(rule, SpikeRule)
        else rule
        for rule in preset_rules(preset)
    ]
    evaluator = HealthEvaluator(rules)
    found: list[HealthAlert] = []
    times = np.cumsum(run.seconds).tolist()
    rates = None if run.throughput is None else run.throughput.tolist()
    for at, value in enumerate(run.values.tolist()):
        values = {run.name: value} if rates is None else {run.name: value, "tokens_per_sec": rates[at]}
        found += evaluator.observe(values, step=at + 1, time=times[at])
    return found


def healthy(name: str, kind: Kind, options: argparse.Namespace, metric: str, preset: str) -> bool:
    """Print what is reported about healthy curves of one *kind*; return whether the bars are met."""
    stops = steps = 0
    wrong: Counter[str] = Counter()
    for number in range(options.runs):
        numbers = default_rng([options.seed, number, *name.encode()])
        values = kind(numbers, options.steps)
        found = alerts(Run(metric, values, _times(numbers, len(values))), preset, options.spike_share)
        begun = [alert for alert in found if alert.event == "begun"]
        wrong.update(alert.rule for alert in begun)
        stops += any(alert.stop for alert in begun)
        steps += len(values)
    share, rate = stops / options.runs, wrong.total() / steps * 1e4
    by_rule = ", ".join(f"{rule} {count}" for rule, count in wrong.most_common())
    print(f"{name}: would stop {stops} of {options.runs} ({share:.2%}), {rate:.2f} alarms in 10,000 steps  {by_rule}")
    return share <= (CURRICULUM_STOP_BAR if name == _CURRICULA else STOP_BAR) and rate <= ALARM_BAR


def found(problem: Problem, options: argparse.Namespace) -> bool:
    """Print how many planted problems are found, and after how many steps; return whether the bar is met."""
    waited = []
    for number in range(options.problems):
        numbers = default_rng([options.seed, number, *problem.name.encode()])
        at = int(numbers.integers(options.steps // 3, options.steps * 2 // 3))
        if problem.rules == ("loss-plateau",):
            at = options.steps // 6
        run = Run("loss", _power_law(numbers, options.steps), _times(numbers, options.steps))
        planted = problem.plant(run, at, numbers)
        grows = options.steps - at if "8 times" in problem.name or "an eighth" in problem.name else 450
        within = max(options.steps // 10, grows) if problem.within is None else problem.within
        reported = alerts(planted, problem.preset, options.spike_share)
        first = next(
            (
                a
                for a in reported
                if a.event == "begun" and a.rule in problem.rules and at < (a.step or 0) <= at + within
            ),
            None,
        )
        is_over = any(a.event == "recovered" and a.rule in problem.rules and (a.step or 0) > at for a in reported)
        if first is not None and not (problem.stays_open and is_over):
            waited.append((first.step or 0) - at)
    share = len(waited) / int(options.problems)
    middle = f", after {sorted(waited)[len(waited) // 2]:.0f} steps (median)" if waited else ""
    print(f"{problem.name}: {len(waited)} of {options.problems} found ({share:.0%}){middle}")
    return share >= FOUND_BAR


def main() -> int:
    """Print all figures; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="healthy runs of each kind")
    parser.add_argument("--problems", type=int, default=40, help="runs with each problem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--spike-share", type=float, help="the share of a spike, instead of that of the preset")
    parser.add_argument("--only", default="", help="a part of the names of what is drawn")
    options = parser.parse_args()
    is_good = [healthy(name, kind, options, "loss", "default") for name, kind in KINDS.items() if options.only in name]
    is_good += [healthy(name, kind, options, "reward", "rl") for name, kind in REWARDS.items() if options.only in name]
    is_good += [found(problem, options) for problem in (*SLOW, *QUICK) if options.only in problem.name]
    print(f"{sum(is_good)} of {len(is_good)} bars are met")
    return 0 if all(is_good) else 1


if __name__ == "__main__":
    sys.exit(main())
