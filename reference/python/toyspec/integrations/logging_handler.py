"""A handler for the standard ``logging`` module: messages become notes, and numbers in ``extra`` become values."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toyspec.core.writing.run_writer import RunWriter


class RunHandler(logging.Handler):
    """Writes what a logger gets into *run*, which stays the caller's to end.

    ``logger.info("evaluated", extra={"values": {"val/loss": 2.5}, "step": 100})`` writes the values at the step, and
    the message as a note.
    """

    def __init__(self, run: RunWriter, level: int = logging.INFO) -> None:
        super().__init__(level)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; what goes wrong is logging's to report, as for every handler."""
        try:
            step = getattr(record, "step", None)
            where: dict[str, Any] = {} if step is None else {"step": int(step)}
            values = getattr(record, "values", None)
            if isinstance(values, dict):
                self._run.log(values, **where)
            self._run.note(f"{record.levelname.lower()}: {self.format(record)}", **where)
        except Exception:  # noqa: BLE001 - a handler must not end the program
            self.handleError(record)
