"""The checker: checks streams and bundles and returns findings as data."""

from toyspec.core.checker.checking import (
    Checker,
    check,
    check_bytes,
    iter_reports,
    iter_runs,
    open_checker,
)
from toyspec.core.checker.collecting import CheckOptions, UnknownRuleError

__all__ = [
    "CheckOptions",
    "Checker",
    "UnknownRuleError",
    "check",
    "check_bytes",
    "iter_reports",
    "iter_runs",
    "open_checker",
]
