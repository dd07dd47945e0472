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
    name: home
    for home, names in {
        "catalog.building": "CatalogReport build_catalog update_catalog",
        "catalog.reading": "Catalog",
        "convert.destinations.destination": "ServiceRefusedError",
        "convert.exporting": "export_runs",
        "convert.importing": "import_runs",
        "convert.mirrors.mirroring": "MirrorBusyError",
        "convert.mirrors.settings": "Mirror Selecting",
        "convert.reports": "ConversionReport RunConversion",
        "core.checker": "CheckOptions UnknownRuleError check check_bytes",
        "core.checker.stream_checker": "StreamChecker",
        "core.errors": (
            "CatalogError DamagedStreamError EngineError ExpressionError PlaceError ProfileError SourceError "
            "StreamClosedError StreamError StreamMissingError StreamRefusedError StreamReplacedError "
            "StreamUnreadableError TornStreamError ToyspecError UnknownFormatError WorkersError"
        ),
        "core.findings": "DialectUse FileReport Finding Gap PathError ReadReport Report",
        "core.format.canonical": "InvalidEventError RecordRefusedError",
        "core.kaun.run": "KaunRun",
        "core.metrics.log": "MetricsLog MetricsLogError grad_norm",
        "core.reading.annotations": "Annotations",
        "core.reading.follower": "Follower TailEvent follow",
        "core.reading.log_detection": "DialectChoice",
        "core.reading.reader": "Reading read",
        "core.reading.records": "Record Row",
        "core.runs.history": "History history",
        "core.runs.ranks": "Ranks ranks_of",
        "core.runs.run": "Run Runs list_runs open_run",
        "core.runs.run_facts": "MetricFacts RunFacts",
        "core.watching": "Watch",
        "core.workers.running": "Workers",
        "core.writing.annotating": "annotate",
        "core.writing.appending": "repair",
        "core.writing.companions": "Sync",
        "core.writing.media": "Audio File Histogram Image Table Video",
        "core.writing.run_starting": "log start_run",
        "core.writing.run_writer": "RunWriter",
        "core.writing.sealing": "seal",
        "health.checking": "check_health",
        "health.evaluator": "HealthEvaluator",
        "health.rules": "HealthAlert",
        "health.run_health": "Health",
        "health.system_metrics": "System",
        "view.report": "ReportFrame report",
    }.items()
    for name in names.split()
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
