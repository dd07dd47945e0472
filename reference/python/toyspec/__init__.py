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
    from toyspec.convert import ConversionReport, RunConversion, export_runs, import_runs
    from toyspec.convert.destinations.destination import ServiceRefusedError
    from toyspec.convert.mirrors.mirroring import MirrorBusyError
    from toyspec.convert.mirrors.settings import Mirror, Selecting
    from toyspec.core.checker import CheckOptions, UnknownRuleError, check, check_bytes
    from toyspec.core.checker.stream_checker import StreamChecker
    from toyspec.core.errors import (
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
    from toyspec.core.findings import DialectUse, FileReport, Finding, Gap, PathError, ReadReport, Report
    from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError
    from toyspec.core.kaun.run import KaunRun
    from toyspec.core.metrics.log import MetricsLog, MetricsLogError, grad_norm
    from toyspec.core.reading.annotations import Annotations
    from toyspec.core.reading.follower import Follower, TailEvent, follow
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.reader import Reading, read
    from toyspec.core.reading.records import Record, Row
    from toyspec.core.runs.history import History, history
    from toyspec.core.runs.ranks import Ranks, ranks_of
    from toyspec.core.runs.run import Run, Runs, list_runs, open_run
    from toyspec.core.runs.run_facts import MetricFacts, RunFacts
    from toyspec.core.watching import Watch
    from toyspec.core.workers.running import Workers
    from toyspec.core.writing.annotating import annotate
    from toyspec.core.writing.appending import repair
    from toyspec.core.writing.companions import Sync
    from toyspec.core.writing.media import Audio, File, Histogram, Image, Table, Video
    from toyspec.core.writing.run_starting import log, start_run
    from toyspec.core.writing.run_writer import RunWriter
    from toyspec.core.writing.sealing import seal
    from toyspec.health.checking import check_health
    from toyspec.health.evaluator import HealthEvaluator
    from toyspec.health.rules import HealthAlert
    from toyspec.health.run_health import Health
    from toyspec.health.system_metrics import System
    from toyspec.view.report import ReportFrame, report

_HOMES = {
    "Annotations": "core.reading.annotations",
    "Audio": "core.writing.media",
    "Catalog": "catalog.reading",
    "CatalogError": "core.errors",
    "CatalogReport": "catalog.building",
    "CheckOptions": "core.checker",
    "ConversionReport": "convert.reports",
    "DamagedStreamError": "core.errors",
    "DialectChoice": "core.reading.log_detection",
    "DialectUse": "core.findings",
    "EngineError": "core.errors",
    "ExpressionError": "core.errors",
    "File": "core.writing.media",
    "FileReport": "core.findings",
    "Finding": "core.findings",
    "Follower": "core.reading.follower",
    "Gap": "core.findings",
    "Health": "health.run_health",
    "HealthAlert": "health.rules",
    "HealthEvaluator": "health.evaluator",
    "Histogram": "core.writing.media",
    "History": "core.runs.history",
    "Image": "core.writing.media",
    "InvalidEventError": "core.format.canonical",
    "KaunRun": "core.kaun.run",
    "MetricFacts": "core.runs.run_facts",
    "MetricsLog": "core.metrics.log",
    "MetricsLogError": "core.metrics.log",
    "Mirror": "convert.mirrors.settings",
    "MirrorBusyError": "convert.mirrors.mirroring",
    "PathError": "core.findings",
    "PlaceError": "core.errors",
    "ProfileError": "core.errors",
    "Ranks": "core.runs.ranks",
    "ReadReport": "core.findings",
    "Reading": "core.reading.reader",
    "Record": "core.reading.records",
    "RecordRefusedError": "core.format.canonical",
    "Report": "core.findings",
    "ReportFrame": "view.report",
    "Row": "core.reading.records",
    "Run": "core.runs.run",
    "RunConversion": "convert.reports",
    "RunFacts": "core.runs.run_facts",
    "RunWriter": "core.writing.run_writer",
    "Runs": "core.runs.run",
    "Selecting": "convert.mirrors.settings",
    "ServiceRefusedError": "convert.destinations.destination",
    "SourceError": "core.errors",
    "StreamChecker": "core.checker.stream_checker",
    "StreamClosedError": "core.errors",
    "StreamError": "core.errors",
    "StreamMissingError": "core.errors",
    "StreamRefusedError": "core.errors",
    "StreamReplacedError": "core.errors",
    "StreamUnreadableError": "core.errors",
    "Sync": "core.writing.companions",
    "System": "health.system_metrics",
    "Table": "core.writing.media",
    "TailEvent": "core.reading.follower",
    "TornStreamError": "core.errors",
    "ToyspecError": "core.errors",
    "UnknownFormatError": "core.errors",
    "UnknownRuleError": "core.checker",
    "Video": "core.writing.media",
    "Watch": "core.watching",
    "Workers": "core.workers.running",
    "WorkersError": "core.errors",
    "annotate": "core.writing.annotating",
    "build_catalog": "catalog.building",
    "check": "core.checker",
    "check_bytes": "core.checker",
    "check_health": "health.checking",
    "export_runs": "convert.exporting",
    "follow": "core.reading.follower",
    "grad_norm": "core.metrics.log",
    "history": "core.runs.history",
    "import_runs": "convert.importing",
    "list_runs": "core.runs.run",
    "ranks_of": "core.runs.ranks",
    "open_run": "core.runs.run",
    "read": "core.reading.reader",
    "repair": "core.writing.appending",
    "report": "view.report",
    "seal": "core.writing.sealing",
    "log": "core.writing.run_starting",
    "start_run": "core.writing.run_starting",
    "update_catalog": "catalog.building",
}

__all__ = [
    "Annotations",
    "Audio",
    "Catalog",
    "CatalogError",
    "CatalogReport",
    "CheckOptions",
    "ConversionReport",
    "DamagedStreamError",
    "DialectChoice",
    "DialectUse",
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
    "log",
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
