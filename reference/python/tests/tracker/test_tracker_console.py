from __future__ import annotations

import io
import math
import sys
from typing import Any

import pytest

from toyspec.testing import ManualClock
from toyspec.tracker import TrainingLogger, format_metrics
from toyspec.tracker.formatting import format_value


def logger(clock: ManualClock | None = None, **options: Any) -> TrainingLogger:
    """Return a logger that has the console alone."""
    return TrainingLogger(runs_root=None, clock=clock or ManualClock(), **options)


def test_a_line_has_the_step_and_the_metrics_in_the_order_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    """A step that is counted is not shown, nor a metric that is None, as the utilisation without a peak."""
    made = logger(print_every=1)
    made.log_step(mfu=0.5, loss=2, step=25)
    made.log_step(loss=1.5, lr=3e-4, mfu=None)
    assert capsys.readouterr().out.splitlines() == [
        "[   0.0m] step=25 │ mfu=50.0% │ loss=2",
        "[   0.0m] loss=1.500 │ lr=3.000e-04",
    ]


@pytest.mark.parametrize(("every", "expected"), [(1, [0, 1, 2, 3, 4, 5, 6]), (3, [0, 3, 6]), (10, [0]), (0, [])])
def test_every_nth_step_is_printed(every: int, expected: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """print_every counts steps; 0 prints none."""
    made = logger(print_every=every)
    for step in range(7):
        made.log_step(step=step)
    assert expected == [int(line.partition("step=")[2]) for line in capsys.readouterr().out.splitlines()]


def test_a_section_has_a_head_and_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """A section is announced in capitals, and its duration told, also when it fails."""
    clock = ManualClock()
    with pytest.raises(OSError, match="disk"), logger(clock).log_section("Warm-up\x1b[2J"):  # noqa: PT012
        clock.advance(2.5)
        raise OSError("disk")
    rule = "=" * 60
    assert [rule, "WARM-UP\\x1b[2J", rule, "Warm-up\\x1b[2J completed in 2.5s"] == capsys.readouterr().out.splitlines()


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """Return what a terminal gets of one step."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    logger(**options).log_step(step=0, loss=1.5)
    return terminal.getvalue()


def test_a_terminal_gets_colours_unless_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is grey and each name has the colour of its meaning."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    expected = "\x1b[90m[   0.0m]\x1b[0m \x1b[97mstep\x1b[0m=0 │ \x1b[91mloss\x1b[0m=1.500\n"
    assert expected == on_terminal(monkeypatch)
    assert "\x1b" not in on_terminal(monkeypatch, use_colors=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal(monkeypatch)


def test_an_output_without_unicode_gets_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the separator cannot be encoded a plain bar stands for it, and other characters are escaped."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    logger().log_step(step=0, größe=1.5, loss=2.0)
    output.flush()
    written = output.buffer.getvalue()
    assert rb"[   0.0m] step=0 | gr\xf6\xdfe=1.500 | loss=2.000" == written.strip()


def test_a_broken_output_is_reported_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When standard output fails, the program goes on, and standard error tells it once."""

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    made = logger(print_every=1)
    monkeypatch.setattr(sys, "stdout", Broken())
    for step in range(3):
        made.log_step(step=step, loss=1.5)
    assert "toyspec: standard output failed (Broken pipe); no more metrics are shown\n" == capsys.readouterr().err


def test_a_program_without_standard_output_can_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has no standard output, as in a window, loses nothing but its lines."""
    monkeypatch.setattr(sys, "stdout", None)
    logger().log_step(step=0, loss=1.5)


WRITTEN: list[tuple[str, float, str, str]] = [
    # name, value, standard, compact
    ("loss", 1.5, "1.500", "1.500"),
    ("loss", 0.0, "0.000", "0.000"),
    ("loss", 0.001, "0.001", "0.001"),
    ("loss", 0.0005, "5.000e-04", "5e-04"),
    ("loss", -0.00025, "-2.500e-04", "-2.5e-04"),
    ("loss", 999.9994, "999.999", "999.999"),
    ("loss", 999.9996, "1,000", "1,000"),
    ("loss", -364000.4, "-364,000", "-364,000"),
    ("loss", 1e15, "1.000e+15", "1e+15"),
    ("loss", math.nan, "nan", "nan"),
    ("loss", math.inf, "inf", "inf"),
    ("lr", 3e-4, "3.000e-04", "3e-04"),
    ("lr", 1.0, "1.000e+00", "1e+00"),
    ("lr", 0.0, "0.000e+00", "0e+00"),
    ("encoder/lr", 0.1, "1.000e-01", "1e-01"),
    ("mfu", 0.56, "56.0%", "0.56"),
    ("recent_mfu", 0.5649, "56.5%", "0.56"),
    ("tokens", 131072, "131,072", "131,072"),
    ("tokens", 10**15, "1.000e+15", "1e+15"),
    ("tokens", 10**400, "inf", "inf"),
    ("tokens_per_sec", 364000.0, "364,000", "364k"),
    ("tokens_per_sec", 1249.0, "1,249", "1.25k"),
    ("tokens_per_sec", 999.6, "999.600", "1k"),
    ("tokens_per_sec", 999999.0, "999,999", "1M"),
    ("tokens_per_sec", 0.0, "0.000", "0"),
    ("tokens_per_sec", 0.0004, "4.000e-04", "4e-04"),
    ("tokens_per_sec", 2.5e12, "2,500,000,000,000", "2.5T"),
    ("tokens_per_sec", 1e30, "1.000e+30", "1e+30"),
]


@pytest.mark.parametrize(("name", "value", "standard", "compact"), WRITTEN)
def test_each_metric_has_one_spelling_in_each_form(name: str, value: float, standard: str, compact: str) -> None:
    """A metric is written by the rule of its name and type, in the standard and in the compact form."""
    assert (standard, compact) == (format_value(name, value), format_value(name, value, form="compact"))


def test_format_metrics_joins_by_the_console_rules() -> None:
    """Precision is the number of decimals where three are the rule; text cannot reach a terminal as a sequence."""
    metrics: dict[str, Any] = {"loss": 1.5, "lr": 3e-4, "mfu": 0.56, "tokens": 1024}
    assert "loss=1.500 | lr=3.000e-04 | mfu=56.0% | tokens=1,024" == format_metrics(metrics)
    assert "loss=1.50000 | lr=3.00000e-04 | mfu=56.0% | tokens=1,024" == format_metrics(metrics, precision=5)
    assert r"a\x1b[1m=b\x1b[0m | c=None" == format_metrics({"a\x1b[1m": "b\x1b[0m", "c": None})
