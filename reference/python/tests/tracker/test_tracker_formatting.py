from __future__ import annotations

import math
from typing import Any

import pytest

from toyspec.tracker import format_metrics
from toyspec.tracker.formatting import Form, colour, format_label, format_minutes, format_value

WRITTEN: list[tuple[str, float, str, str]] = [
    # name, value, standard, compact
    ("loss", 1.5, "1.500", "1.500"),
    ("loss", -2.25, "-2.250", "-2.250"),
    ("loss", 0.0, "0.000", "0.000"),
    ("loss", -0.0, "0.000", "0.000"),
    ("loss", 0.001, "0.001", "0.001"),
    ("loss", 0.0005, "5.000e-04", "5e-04"),
    ("loss", -0.00025, "-2.500e-04", "-2.5e-04"),
    ("loss", 999.9994, "999.999", "999.999"),
    ("loss", 999.9996, "1,000", "1,000"),
    ("loss", -364000.4, "-364,000", "-364,000"),
    ("loss", 1e15, "1.000e+15", "1e+15"),
    ("loss", math.nan, "nan", "nan"),
    ("loss", math.inf, "inf", "inf"),
    ("loss", -math.inf, "-inf", "-inf"),
    ("lr", 3e-4, "3.000e-04", "3e-04"),
    ("lr", 2.5e-4, "2.500e-04", "2.5e-04"),
    ("lr", 1.0, "1.000e+00", "1e+00"),
    ("lr", 1, "1.000e+00", "1e+00"),
    ("lr", 0.0, "0.000e+00", "0e+00"),
    ("encoder/lr", 0.1, "1.000e-01", "1e-01"),
    ("lr", math.nan, "nan", "nan"),
    ("mfu", 0.56, "56.0%", "0.56"),
    ("recent_mfu", 0.5649, "56.5%", "0.56"),
    ("mfu", math.inf, "inf", "inf"),
    ("tokens", 131072, "131,072", "131,072"),
    ("tokens", -5, "-5", "-5"),
    ("tokens", 10**15, "1.000e+15", "1e+15"),
    ("tokens", 10**400, "inf", "inf"),
    ("tokens_per_sec", 364000.0, "364,000", "364k"),
    ("tokens_per_sec", 364000, "364,000", "364k"),
    ("tokens_per_sec", 1249.0, "1,249", "1.25k"),
    ("tokens_per_sec", 999.6, "999.600", "1k"),
    ("tokens_per_sec", 999999.0, "999,999", "1M"),
    ("tokens_per_sec", 12.34, "12.340", "12.3"),
    ("tokens_per_sec", 0.0, "0.000", "0"),
    ("tokens_per_sec", 0.0004, "4.000e-04", "4e-04"),
    ("tokens_per_sec", 2.5e12, "2,500,000,000,000", "2.5T"),
    ("tokens_per_sec", 1e30, "1.000e+30", "1e+30"),
    ("tokens_per_sec", math.nan, "nan", "nan"),
    ("already", 1.0, "1.000", "1.000"),
]


@pytest.mark.parametrize(("name", "value", "standard", "compact"), WRITTEN)
def test_each_metric_has_one_spelling_in_each_form(name: str, value: float, standard: str, compact: str) -> None:
    """A metric is written by the rule of its name and type, in the standard and in the compact form."""
    assert (standard, compact) == (format_value(name, value), format_value(name, value, form="compact"))


@pytest.mark.parametrize(
    ("form", "seconds", "expected"),
    [
        ("standard", 738.0, "[  12.3m]"),
        ("compact", 738.0, "[12.3m]"),
        ("standard", 0.0, "[   0.0m]"),
        ("standard", 6_000_000.0, "[100000.0m]"),
    ],
)
def test_time_is_minutes_with_one_decimal(form: Form, seconds: float, expected: str) -> None:
    """The time of a line is in minutes, at least six characters wide in the standard form."""
    assert expected == format_minutes(seconds, form=form)


def test_only_the_compact_form_shortens_a_label() -> None:
    """tokens_per_sec is called tok/s in the compact form alone."""
    assert ("tokens_per_sec", "tok/s") == (
        format_label("tokens_per_sec"),
        format_label("tokens_per_sec", form="compact"),
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("val_loss", "91"),
        ("LR", "94"),
        ("mfu", "92"),
        ("tokens_per_sec", "93"),
        ("grad_norm", "95"),
        ("val_acc", "96"),
        ("step", "97"),
    ],
)
def test_colour_follows_the_first_word_that_is_in_the_name(name: str, code: str) -> None:
    """A metric has the colour of the first known word that its name contains."""
    assert f"\x1b[{code}m" == colour(name)


class Scalar:
    """A scalar of an array library that counts its conversions."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.conversions = 0

    def item(self) -> float:
        """Return the value, as a device would."""
        self.conversions += 1
        return self.value


def test_format_metrics_joins_by_the_console_rules() -> None:
    """format_metrics writes each metric as the standard console line does."""
    metrics: dict[str, Any] = {"loss": 1.5, "lr": 3e-4, "mfu": 0.56, "tokens": 1024}
    assert "loss=1.500 | lr=3.000e-04 | mfu=56.0% | tokens=1,024" == format_metrics(metrics)


def test_format_metrics_takes_another_precision() -> None:
    """The precision is the number of decimals in plain and scientific text."""
    assert "loss=1.50000 | lr=3.00000e-04" == format_metrics({"loss": 1.5, "lr": 3e-4}, precision=5)


def test_format_metrics_converts_a_scalar_once() -> None:
    """A scalar of an array library is converted exactly once."""
    loss = Scalar(2.0)
    assert ("loss=2.000", 1) == (format_metrics({"loss": loss}), loss.conversions)


def test_format_metrics_shows_other_values_as_inert_text() -> None:
    """Text in names and values cannot reach a terminal as an escape sequence."""
    assert r"a\x1b[1m=b\x1b[0m | c=None" == format_metrics({"a\x1b[1m": "b\x1b[0m", "c": None})
