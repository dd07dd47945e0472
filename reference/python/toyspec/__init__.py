"""Training logs in JSON Lines: write, read, follow and check them.

Log a run, read it back, and judge it::

    with toyspec.start_run("runs", arch="llama", config={"lr": 3e-4}) as run:
        run.step(loss=2.5)
    for record in toyspec.read(run.directory): ...
    report = toyspec.check("runs")

Names are imported when they are first used, so that a program pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toyspec.version import __version__

if TYPE_CHECKING:
    from toyspec.append_file import StreamClosedError, StreamRefusedError
    from toyspec.canonical import InvalidEventError, RecordRefusedError
    from toyspec.checker import CheckOptions, StreamChecker, UnknownRuleError, check, check_bytes
    from toyspec.errors import (
        DamagedStreamError,
        StreamError,
        StreamMissingError,
        StreamUnreadableError,
        TornStreamError,
        ToyspecError,
    )
    from toyspec.findings import FileReport, Finding, PathError, Report
    from toyspec.kaun import KaunRun
    from toyspec.metrics_log import MetricsLog, MetricsLogError, grad_norm
    from toyspec.reader import Reading, ReadReport, read
    from toyspec.records import Gap, Record
    from toyspec.repairing import repair
    from toyspec.run_bundle import RunBundle
    from toyspec.run_log import RunLog
    from toyspec.run_starting import start_run
    from toyspec.tailer import Follower, TailEvent, follow
    from toyspec.toy_writer import RunWriter

_HOMES = {
    "CheckOptions": "checker",
    "DamagedStreamError": "errors",
    "FileReport": "findings",
    "Finding": "findings",
    "Follower": "tailer",
    "Gap": "records",
    "InvalidEventError": "canonical",
    "KaunRun": "kaun",
    "MetricsLog": "metrics_log",
    "MetricsLogError": "metrics_log",
    "PathError": "findings",
    "ReadReport": "reader",
    "Reading": "reader",
    "Record": "records",
    "RecordRefusedError": "canonical",
    "Report": "findings",
    "RunBundle": "run_bundle",
    "RunLog": "run_log",
    "RunWriter": "toy_writer",
    "StreamChecker": "checker",
    "StreamClosedError": "append_file",
    "StreamError": "errors",
    "StreamMissingError": "errors",
    "StreamRefusedError": "append_file",
    "StreamUnreadableError": "errors",
    "TailEvent": "tailer",
    "TornStreamError": "errors",
    "ToyspecError": "errors",
    "UnknownRuleError": "checker",
    "check": "checker",
    "check_bytes": "checker",
    "follow": "tailer",
    "grad_norm": "metrics_log",
    "read": "reader",
    "repair": "repairing",
    "start_run": "run_starting",
}

__all__ = [
    "CheckOptions",
    "DamagedStreamError",
    "FileReport",
    "Finding",
    "Follower",
    "Gap",
    "InvalidEventError",
    "KaunRun",
    "MetricsLog",
    "MetricsLogError",
    "PathError",
    "ReadReport",
    "Reading",
    "Record",
    "RecordRefusedError",
    "Report",
    "RunBundle",
    "RunLog",
    "RunWriter",
    "StreamChecker",
    "StreamClosedError",
    "StreamError",
    "StreamMissingError",
    "StreamRefusedError",
    "StreamUnreadableError",
    "TailEvent",
    "TornStreamError",
    "ToyspecError",
    "UnknownRuleError",
    "__version__",
    "check",
    "check_bytes",
    "follow",
    "grad_norm",
    "read",
    "repair",
    "start_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toyspec' has no attribute {name!r}")
    value = getattr(import_module(f"toyspec.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
