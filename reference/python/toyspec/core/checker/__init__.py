"""The checker: checks streams and bundles and returns findings as data."""

from toyspec.core.checker.checking import (
    Checker,
    Summary,
    check,
    check_bytes,
    iter_reports,
    iter_runs,
    open_checker,
    summarize,
)
from toyspec.core.checker.collecting import CheckOptions, UnknownRuleError

__all__ = [
    "CheckOptions",
    "Checker",
    "Summary",
    "UnknownRuleError",
    "check",
    "check_bytes",
    "iter_reports",
    "iter_runs",
    "open_checker",
    "summarize",
]
