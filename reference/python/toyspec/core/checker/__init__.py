"""The checker: checks streams and bundles and returns findings as data."""

from toyspec.core.checker.checking import Summary, check, check_bytes, iter_reports, iter_runs, summarize
from toyspec.core.checker.engines import Checker, open_checker
from toyspec.core.checker.options import CheckOptions, UnknownRuleError

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
