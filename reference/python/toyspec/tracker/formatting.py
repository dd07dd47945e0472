"""Writes metrics for people: the console of a logger, and the rules that it shares with ``format_metrics``."""

from __future__ import annotations

import math
import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.escaping import printable
from toyspec.core.format.scalars import scalar
from toyspec.core.system_calls import cause_of, say

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
        decimals = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
        text = f"{scaled:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if decimals else text
        if abs(float(text)) < _FIRST_SEPARATED:
            return text + suffix
        scaled /= _FIRST_SEPARATED
    return _scientific(value, "compact", _DECIMALS)


_RESET = "\x1b[0m"
_GREY = "\x1b[90m"
_CYAN = "\x1b[96m"
_BOLD = "\x1b[1m"
_RULE = "=" * 60
_SEPARATORS: dict[Form, str] = {"standard": " │ ", "compact": " | "}


class MetricsConsole:
    """Prints to standard output; colours only where that is a terminal. A failure is reported once, and is the end."""

    def __init__(self, form: Form, *, use_colors: bool) -> None:
        self._form = form
        self._use_colors = use_colors and not os.environ.get("NO_COLOR")
        self._has_failed = False

    def print_metrics(
        self, seconds: float, metrics: Mapping[str, float], *, step: int | None = None, is_validation: bool = False
    ) -> None:
        """Print ``[  12.3m] step=1000 │ loss=1.500``, or ``[  12.4m] [VAL] val_loss=1.200``."""
        form = self._form
        parts = [] if step is None else [f"{self._painted('step', colour('step'))}={int(step)}"]
        for name, value in metrics.items():
            label = _COMPACT_LABELS.get(name) if form == "compact" else None
            parts.append(
                f"{self._painted(label or printable(name), colour(name))}={format_value(name, value, form=form)}"
            )
        minutes = f"{seconds / 60:6.1f}" if form == "standard" else f"{seconds / 60:.1f}"
        time = self._painted(f"[{minutes}m]", _GREY)
        mark = self._painted("[VAL]", _CYAN) + " " if is_validation else ""
        self._print(f"{time} {mark}{_SEPARATORS[form].join(parts)}")

    def print_heading(self, name: str) -> None:
        """Print *name* in capitals between two rules."""
        for line in (_RULE, printable(name.upper()), _RULE):
            self._print(self._painted(line, _BOLD))

    def print_duration(self, name: str, seconds: float) -> None:
        """Print how long the section *name* took."""
        self._print(self._painted(f"{printable(name)} completed in {seconds:.1f}s", _GREY))

    def _painted(self, text: str, sequence: str) -> str:
        return f"{sequence}{text}{_RESET}" if self._use_colors and _is_terminal() else text

    def _print(self, line: str) -> None:
        if self._has_failed or sys.stdout is None:
            return
        try:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            line = line.replace("│", "│".encode(encoding, "replace").decode(encoding).replace("?", "|"))
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        except (OSError, ValueError) as error:
            self._has_failed = True
            say(f"standard output failed ({cause_of(error)}); no more metrics are shown")


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False
