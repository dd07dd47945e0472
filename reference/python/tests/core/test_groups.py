"""Several runs as one: the laws of means, bands, orders and names, over groups that are drawn at random."""

from __future__ import annotations

from math import isclose, isnan, nan
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.runs import groups
from toyspec.core.runs.groups import BANDS, Band, Group, group_name, groups_of, keys_without, mean_of, resampled

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([65536.0, 0.1, 0.1 + 0.2, 0.3, 1e308])
CONSTANTS = NUMBERS.flatmap(lambda value: st.just(value) | st.sampled_from([value, nan]))
# Constant, of two values, or any, each with ends that differ.
ROWS = st.integers(1, 6).flatmap(
    lambda width: st.sampled_from(
        [st.just(0.1), st.sampled_from([1.0, 2.0]), CONSTANTS, NUMBERS | st.just(nan)]
    ).flatmap(lambda values: st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=5))
)
VALUES = st.none() | st.booleans() | NUMBERS | st.sampled_from(["b10", "B9", "b9", "", "1"])


@given(ROWS, st.sampled_from([*BANDS]))
def test_a_mean_lies_within_its_members_and_a_band_around_it(rows: list[list[float]], band: Band) -> None:
    """So at each place, with the number of members that have a value there; without one, there is nothing."""
    found = mean_of(rows, band)
    slack = groups._PRECISION * max((abs(each) for row in rows for each in row if not isnan(each)), default=0.0)
    for values, middle, low, high, number in zip(zip(*rows, strict=True), *found, strict=True):
        known = [each for each in values if not isnan(each)]
        assert number == len(known)
        if known:
            assert min(known) - slack <= middle <= max(known) + slack
            assert band == "quartiles" or low - slack <= middle <= high + slack
        else:
            assert isnan(middle)


@given(st.lists(NUMBERS, min_size=1, max_size=9), st.lists(st.booleans(), min_size=9, max_size=9))
def test_what_is_constant_in_each_run_is_flat_in_their_mean(constants: list[float], missing: list[bool]) -> None:
    """Its band too, also between the points of a run."""
    rows = [resampled([1, 4, 9], [each] * 3, range(1, 10), 1) for each in constants]
    found = mean_of(rows)
    assert all(1 == len({*column}) for column in found)
    holes = [[nan if hole else constants[0] for hole in missing] for _ in rows]
    assert {constants[0]} >= {each for column in mean_of(holes)[:3] for each in column if not isnan(each)}


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9))
def test_the_band_is_one_standard_deviation_of_a_sample(values: list[float]) -> None:
    """It is that by n - 1, and the standard error is that by the root of n."""
    middle = mean_of([[each] for each in values])
    assert isclose(middle.mean[0], mean(values), rel_tol=1e-9, abs_tol=1e-6)
    assert isclose(middle.high[0] - middle.low[0], 2 * stdev(values), rel_tol=1e-9, abs_tol=1e-6)
    error = mean_of([[each] for each in values], "se")
    assert isclose((error.high[0] - error.low[0]) * len(values) ** 0.5, 2 * stdev(values), rel_tol=1e-9, abs_tol=1e-6)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=8))
def test_groups_are_a_partition_in_the_order_of_their_values(rows: list[tuple[Any, ...]]) -> None:
    """Each run is in one group, and the order of the runs does not count."""
    found = groups_of(rows)
    assert list(range(len(rows))) == sorted(at for group in found for at in group.members)
    turned = groups_of(rows[::-1])
    assert [len(each.members) for each in found] == [len(each.members) for each in turned]
    numbers = [each.values[0] for each in found if isinstance(each.values[0], float)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([0.01, 0.0001, 1e-3, None, 1e-8], ["lr 1e-8", "lr 0.0001", "lr 0.001", "lr 0.01", "lr none"]),
        (["r10", "r9", "R9", True, 1, 1.0], ["lr 1", "lr true", "lr R9", "lr r9", "lr r10"]),
        ([["a", "b"], []], ["lr ", "lr a, b"]),
    ],
)
def test_names_are_whole_and_say_the_number_of_runs(values: list[Any], names: list[str]) -> None:
    """Numbers come first, in their order, then text, in which numbers count as such."""
    found = [group_name(["config.lr"], each) for each in groups_of([[each] for each in values])]
    assert names == [each.rpartition(", ")[0] for each in found]
    assert "lr 1, wd 0, 2 runs" == group_name(["lr", "config.wd"], Group((1, 0), [0, 1]))


def test_runs_that_differ_in_their_seed_alone_are_one() -> None:
    """What every run has of its own as text, such as the path of its output, does not part them."""
    runs = [{"optim.lr": rate, "seed": seed, "out": f"{rate}-{seed}", "k": 1} for rate in (1, 2) for seed in (1, 2)]
    assert ["config.optim.lr"] == keys_without(runs, "seed")
    assert ["config.seed"] == keys_without(runs, "config.optim.lr") == keys_without(runs, "lr")
    assert [] == keys_without(runs[:2], "seed")
