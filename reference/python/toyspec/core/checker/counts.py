"""What a check of one run finds: its report, and the number of findings of each severity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.checker.checking import iter_reports, summarize
from toyspec.core.checker.options import CheckOptions
from toyspec.core.findings import FileReport

if TYPE_CHECKING:
    from toyspec.core.reading.log_detection import DialectChoice


def check_run(path: str, dialect: DialectChoice) -> FileReport | None:
    """Return the report on the stream at *path*; None if it cannot be checked."""
    report = next(iter(iter_reports([path], options=CheckOptions.of(dialect))), None)
    return report if isinstance(report, FileReport) else None


def count_findings(path: str, dialect: DialectChoice) -> dict[str, int] | None:
    """Return the number of findings of each severity in the stream at *path*; None if it cannot be checked."""
    return counted(check_run(path, dialect))


def counted(report: FileReport | None) -> dict[str, int] | None:
    """Return the number of findings of each severity in a *report*; None without one."""
    if report is None:
        return None
    total = summarize([report])
    return {"error": total.errors, "warning": total.warnings, "info": total.infos}
