"""Training logs in JSON Lines: write, read, follow and check them.

Log a run, read it back, and check it::

    with toyspec.start_run("runs", arch="llama", config={"lr": 3e-4}) as run:
        run.step(loss=2.5)
    for record in toyspec.read(run.directory): ...
    report = toyspec.check("runs")

Names are imported on first use, so that unused parts cost no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toyspec.version import __version__

if TYPE_CHECKING:
    from toyspec.catalog.building import CatalogReport, build_catalog, update_catalog
    from toyspec.catalog.reading import Catalog
    from toyspec.checker import CheckOptions, UnknownRuleError, check, check_bytes
    from toyspec.checker.stream_checker import StreamChecker
    from toyspec.convert import ConversionReport, RunConversion, export_runs, import_runs
    from toyspec.convert.destinations.destination import ServiceRefusedError
    from toyspec.distributed.crews import Workers
    from toyspec.errors import (
        CatalogError,
        DamagedStreamError,
        EngineError,
        ExpressionError,
        PlaceError,
        ProfileError,
        SourceError,
        StreamClosedError,
        StreamError,
        StreamMissingError,
        StreamRefusedError,
        StreamReplacedError,
        StreamUnreadableError,
        TornStreamError,
        ToyspecError,
        UnknownFormatError,
        WorkersError,
    )
    from toyspec.findings import DialectUse, FileReport, Finding, PathError, Report
    from toyspec.format.canonical import InvalidEventError, RecordRefusedError
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.checking import check_health
    from toyspec.health.evaluator import HealthEvaluator
    from toyspec.kaun.run import KaunRun
    from toyspec.metrics.log import MetricsLog, MetricsLogError, grad_norm
    from toyspec.mirrors.settings import Mirror, Selecting
    from toyspec.mirrors.state import MirrorBusyError
    from toyspec.read_reports import Gap, ReadReport
    from toyspec.reading.annotations import Annotations
    from toyspec.reading.follower import Follower, TailEvent, follow
    from toyspec.reading.log_detection import DialectChoice
    from toyspec.reading.reader import Reading, read
    from toyspec.reading.records import Record
    from toyspec.reading.rows import Row
    from toyspec.runs.history import History, history
    from toyspec.runs.listing import Runs, list_runs
    from toyspec.runs.ranks import Ranks, ranks_of
    from toyspec.runs.run import Run, open_run
    from toyspec.runs.run_facts import MetricFacts, RunFacts
    from toyspec.view.notebook import ReportFrame, report
    from toyspec.watching import Watch
    from toyspec.writing.annotating import annotate
    from toyspec.writing.evidence import Console, Diff
    from toyspec.writing.media import Audio, File, Histogram, Image, Table, Video
    from toyspec.writing.repairing import repair
    from toyspec.writing.run_bundle import RunBundle
    from toyspec.writing.run_health import Health
    from toyspec.writing.run_starting import start_run
    from toyspec.writing.run_writer import RunWriter
    from toyspec.writing.sealing import seal
    from toyspec.writing.synced import Sync
    from toyspec.writing.system_metrics import System

_HOMES = {
    "Annotations": "reading.annotations",
    "Audio": "writing.media",
    "Catalog": "catalog.reading",
    "CatalogError": "errors",
    "CatalogReport": "catalog.building",
    "CheckOptions": "checker",
    "Console": "writing.evidence",
    "ConversionReport": "convert.reports",
    "DamagedStreamError": "errors",
    "DialectChoice": "reading.log_detection",
    "DialectUse": "findings",
    "Diff": "writing.evidence",
    "EngineError": "errors",
    "ExpressionError": "errors",
    "File": "writing.media",
    "FileReport": "findings",
    "Finding": "findings",
    "Follower": "reading.follower",
    "Gap": "read_reports",
    "Health": "writing.run_health",
    "HealthAlert": "health.alerts",
    "HealthEvaluator": "health.evaluator",
    "Histogram": "writing.media",
    "History": "runs.history",
    "Image": "writing.media",
    "InvalidEventError": "format.canonical",
    "KaunRun": "kaun.run",
    "MetricFacts": "runs.run_facts",
    "MetricsLog": "metrics.log",
    "MetricsLogError": "metrics.log",
    "Mirror": "mirrors.settings",
    "MirrorBusyError": "mirrors.state",
    "PathError": "findings",
    "PlaceError": "errors",
    "ProfileError": "errors",
    "Ranks": "runs.ranks",
    "ReadReport": "read_reports",
    "Reading": "reading.reader",
    "Record": "reading.records",
    "RecordRefusedError": "format.canonical",
    "Report": "findings",
    "ReportFrame": "view.notebook",
    "Row": "reading.rows",
    "Run": "runs.run",
    "RunBundle": "writing.run_bundle",
    "RunConversion": "convert.reports",
    "RunFacts": "runs.run_facts",
    "RunWriter": "writing.run_writer",
    "Runs": "runs.listing",
    "Selecting": "mirrors.settings",
    "ServiceRefusedError": "convert.destinations.destination",
    "SourceError": "errors",
    "StreamChecker": "checker.stream_checker",
    "StreamClosedError": "errors",
    "StreamError": "errors",
    "StreamMissingError": "errors",
    "StreamRefusedError": "errors",
    "StreamReplacedError": "errors",
    "StreamUnreadableError": "errors",
    "Sync": "writing.synced",
    "System": "writing.system_metrics",
    "Table": "writing.media",
    "TailEvent": "reading.follower",
    "TornStreamError": "errors",
    "ToyspecError": "errors",
    "UnknownFormatError": "errors",
    "UnknownRuleError": "checker",
    "Video": "writing.media",
    "Watch": "watching",
    "Workers": "distributed.crews",
    "WorkersError": "errors",
    "annotate": "writing.annotating",
    "build_catalog": "catalog.building",
    "check": "checker",
    "check_bytes": "checker",
    "check_health": "health.checking",
    "export_runs": "convert.exporting",
    "follow": "reading.follower",
    "grad_norm": "metrics.log",
    "history": "runs.history",
    "import_runs": "convert.importing",
    "list_runs": "runs.listing",
    "ranks_of": "runs.ranks",
    "open_run": "runs.run",
    "read": "reading.reader",
    "repair": "writing.repairing",
    "report": "view.notebook",
    "seal": "writing.sealing",
    "start_run": "writing.run_starting",
    "update_catalog": "catalog.building",
}

__all__ = [
    "Annotations",
    "Audio",
    "Catalog",
    "CatalogError",
    "CatalogReport",
    "CheckOptions",
    "Console",
    "ConversionReport",
    "DamagedStreamError",
    "DialectChoice",
    "DialectUse",
    "Diff",
    "EngineError",
    "ExpressionError",
    "File",
    "FileReport",
    "Finding",
    "Follower",
    "Gap",
    "Health",
    "HealthAlert",
    "HealthEvaluator",
    "Histogram",
    "History",
    "Image",
    "InvalidEventError",
    "KaunRun",
    "MetricFacts",
    "MetricsLog",
    "MetricsLogError",
    "Mirror",
    "MirrorBusyError",
    "PathError",
    "PlaceError",
    "ProfileError",
    "Ranks",
    "ReadReport",
    "Reading",
    "Record",
    "RecordRefusedError",
    "Report",
    "ReportFrame",
    "Row",
    "Run",
    "RunBundle",
    "RunConversion",
    "RunFacts",
    "RunWriter",
    "Runs",
    "Selecting",
    "ServiceRefusedError",
    "SourceError",
    "StreamChecker",
    "StreamClosedError",
    "StreamError",
    "StreamMissingError",
    "StreamRefusedError",
    "StreamReplacedError",
    "StreamUnreadableError",
    "Sync",
    "System",
    "Table",
    "TailEvent",
    "TornStreamError",
    "ToyspecError",
    "UnknownFormatError",
    "UnknownRuleError",
    "Video",
    "Watch",
    "Workers",
    "WorkersError",
    "__version__",
    "annotate",
    "build_catalog",
    "check",
    "check_bytes",
    "check_health",
    "export_runs",
    "follow",
    "grad_norm",
    "history",
    "import_runs",
    "list_runs",
    "open_run",
    "ranks_of",
    "read",
    "repair",
    "report",
    "seal",
    "start_run",
    "update_catalog",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toyspec' has no attribute {name!r}")
    value = getattr(import_module(f"toyspec.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
