"""Shows metrics to a person, a line at a time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from toyspec.core.escaping import printable
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.clocks import Clock, Stopwatch
from toyspec.tracker.formatting import Form, colour, format_label, format_minutes, format_value
from toyspec.tracker.sinks.sink import Numbering, Sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RESET = "\x1b[0m"
_GREY = "\x1b[90m"
_CYAN = "\x1b[96m"
_BOLD = "\x1b[1m"
_RULE = "=" * 60
_SEPARATORS: dict[Form, str] = {"standard": " │ ", "compact": " | "}
_PLAIN_SEPARATOR = "|"


class ConsoleSink(Sink):
    """Prints to standard output; colours only where that is a terminal."""

    __slots__ = ("_form", "_has_failed", "_use_colors", "_watch")

    def __init__(self, *, every: int, form: Form, use_colors: bool, clock: Clock) -> None:
        super().__init__(every)
        self._form = form
        self._use_colors = use_colors and not os.environ.get("NO_COLOR")
        self._watch = Stopwatch(clock)
        self._has_failed = False

    def log_step(self, step: int, metrics: Mapping[str, float], numbering: Numbering, /) -> None:
        """Print ``[  12.3m] step=1000 │ loss=1.500``."""
        numbered = [f"{self._painted('step', colour('step'))}={step}"] if numbering == "given" else []
        self._print_line([*numbered, *self._parts(metrics)])

    def log_validation(self, _step: int | None, metrics: Mapping[str, float], /) -> None:
        """Print ``[  12.4m] [VAL] val_loss=1.200``."""
        self._print_line(self._parts(metrics), mark=self._painted("[VAL]", _CYAN) + " ")

    def enter_section(self, name: str) -> None:
        """Print the name in capitals between two rules."""
        for line in (_RULE, printable(name.upper()), _RULE):
            self._print(self._painted(line, _BOLD))

    def exit_section(self, name: str, seconds: float, /) -> None:
        """Print how long the section took."""
        self._print(self._painted(f"{printable(name)} completed in {seconds:.1f}s", _GREY))

    def _parts(self, metrics: Mapping[str, float]) -> Iterable[str]:
        for name, value in metrics.items():
            label = self._painted(format_label(name, form=self._form), colour(name))
            yield f"{label}={format_value(name, value, form=self._form)}"

    def _print_line(self, parts: Iterable[str], *, mark: str = "") -> None:
        time = self._painted(format_minutes(self._watch.seconds(), form=self._form), _GREY)
        self._print(f"{time} {mark}{_SEPARATORS[self._form].join(parts)}")

    def _painted(self, text: str, sequence: str) -> str:
        return f"{sequence}{text}{_RESET}" if self._use_colors and _is_terminal() else text

    def _print(self, line: str) -> None:
        if self._has_failed or sys.stdout is None:
            return
        try:
            sys.stdout.write(_encodable(line) + "\n")
        except (OSError, ValueError) as error:
            self._has_failed = True
            say(f"standard output failed ({cause_of(error)}); no more metrics are shown")


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def _encodable(line: str) -> str:
    """Return *line* with what standard output cannot encode replaced, as on a terminal that knows ASCII alone."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        plain = line.replace(_SEPARATORS["standard"].strip(), _PLAIN_SEPARATOR)
        return plain.encode(encoding, "backslashreplace").decode(encoding)
    return line
