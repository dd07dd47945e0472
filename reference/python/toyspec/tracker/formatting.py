"""Writes metrics for people: the one set of rules behind console lines and ``format_metrics``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.escaping import printable
from toyspec.core.format.scalars import scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

Form = Literal["standard", "compact"]

_DECIMALS = 3
_SMALLEST_PLAIN = 0.001
_FIRST_SEPARATED = 1000
# From here on digits before the point are noise, and binary64 no longer holds all of them.
_FIRST_HUGE = 10**15
_COMPACT_LABELS = {"tokens_per_sec": "tok/s"}
_SI_SUFFIXES = ("", "k", "M", "G", "T", "P")
_ELSE = "\x1b[97m"
_COLOURS = {
    "loss": "\x1b[91m",
    "lr": "\x1b[94m",
    "mfu": "\x1b[92m",
    "tokens": "\x1b[93m",
    "grad": "\x1b[95m",
    "val": "\x1b[96m",
}


def format_metrics(metrics: Mapping[str, Any], precision: int = _DECIMALS) -> str:
    """Return ``name=value`` for every metric, joined by `` | ``, by the rules of the standard console line.

    *precision* is the number of decimals where the rules say three. Scalars of array libraries are converted once;
    anything but a number is shown as inert text.
    """
    parts = []
    for name, value in metrics.items():
        number = scalar(value)
        is_number = isinstance(number, int | float)
        text = format_value(name, number, precision=precision) if is_number else printable(str(number))
        parts.append(f"{printable(name)}={text}")
    return " | ".join(parts)


def format_value(name: str, value: float, *, form: Form = "standard", precision: int = _DECIMALS) -> str:
    """Return the text of one metric; what its *name* means decides how it is written. NaN and infinity are shown."""
    style = _style(name)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if style == "lr":
        return _scientific(_binary64(value), form, precision)
    if style == "mfu":
        return f"{value:.1%}" if form == "standard" else f"{value:.2f}"
    if style == "rate" and form == "compact":
        return _with_si_suffix(_binary64(value))
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < _FIRST_HUGE else _scientific(_binary64(value), form, precision)
    return _plain(value, form, precision)


def format_label(name: str, *, form: Form = "standard") -> str:
    """Return the text before the equals sign: the name, escaped, and shortened in the compact form."""
    return _COMPACT_LABELS.get(name, printable(name)) if form == "compact" else printable(name)


def format_minutes(seconds: float, *, form: Form = "standard") -> str:
    """Return the time that opens a line, in minutes: ``[  12.3m]``, compact ``[12.3m]``."""
    minutes = seconds / 60
    return f"[{minutes:6.1f}m]" if form == "standard" else f"[{minutes:.1f}m]"


@lru_cache(maxsize=256)
def colour(name: str) -> str:
    """Return the ANSI sequence that the name of a metric is shown in."""
    lowered = name.lower()
    return next((sequence for part, sequence in _COLOURS.items() if part in lowered), _ELSE)


@lru_cache(maxsize=256)
def _style(name: str) -> Literal["lr", "mfu", "rate", "plain"]:
    words = name.lower().replace("/", "_").split("_")
    if "lr" in words:
        return "lr"
    if "mfu" in words:
        return "mfu"
    return "rate" if name in _COMPACT_LABELS else "plain"


def _binary64(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _plain(value: float, form: Form, precision: int) -> str:
    if value == 0.0:
        return f"{0.0:.{precision}f}"
    if not _SMALLEST_PLAIN <= abs(value) < _FIRST_HUGE:
        return _scientific(value, form, precision)
    text = f"{value:.{precision}f}"
    # Compared after rounding: 999.9996 is shown as 1,000, not as 1000.000.
    return text if abs(float(text)) < _FIRST_SEPARATED else f"{value:,.0f}"


def _scientific(value: float, form: Form, precision: int) -> str:
    text = f"{value:.{precision}e}"
    if form == "standard" or "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"


def _with_si_suffix(value: float) -> str:
    """Return three significant digits with a suffix for thousands, millions and so on: ``364k``, ``1.25M``."""
    if not math.isfinite(value) or 0.0 < abs(value) < _SMALLEST_PLAIN:
        return _scientific(value, "compact", _DECIMALS)
    scaled = value
    for suffix in _SI_SUFFIXES:
        text = _three_digits(scaled)
        if abs(float(text)) < _FIRST_SEPARATED:
            return text + suffix
        scaled /= _FIRST_SEPARATED
    return _scientific(value, "compact", _DECIMALS)


def _three_digits(value: float) -> str:
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
