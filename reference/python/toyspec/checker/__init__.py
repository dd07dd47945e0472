"""The checker: checks streams and bundles and returns findings as data."""

from toyspec.checker.checking import Summary, check, check_bytes, iter_reports, iter_runs, open_checker, summarize
from toyspec.checker.options import CheckOptions, UnknownRuleError
from toyspec.checker.stream_checker import StreamChecker

__all__ = [
    "CheckOptions",
    "StreamChecker",
    "Summary",
    "UnknownRuleError",
    "check",
    "check_bytes",
    "iter_reports",
    "iter_runs",
    "open_checker",
    "summarize",
]
