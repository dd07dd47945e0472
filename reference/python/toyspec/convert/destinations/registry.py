"""Every tool that runs are exported or mirrored to; what it needs is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from toyspec.convert.formats import converters

if TYPE_CHECKING:
    from toyspec.convert.destinations.destination import Destination


class Tool(NamedTuple):
    """Where the destination of a tool is, and who uses it."""

    module: str
    destination: str
    extra: str | None = None
    """The extra to install."""
    export: Literal["run", "all"] | None = "run"
    """What an export writes on its own: a run, or all of them in one process; None if nothing is exported there."""
    is_mirrored: bool = False
    """Whether a run can be sent while it is written."""


TOOLS: Final = {
    "tensorboard": Tool("tensorboard_events", "TensorboardEvents", is_mirrored=True),
    "wandb": Tool("wandb_runs", "WandbRuns", "wandb", "all", is_mirrored=True),
    "mlflow": Tool("mlflow_runs", "MlflowRuns", "mlflow", "all", is_mirrored=True),
    "trackio": Tool("trackio_database", "TrackioDatabase", "trackio", "all", is_mirrored=True),
    "dvclive": Tool("dvclive_folder", "DvcliveFolder"),
    "mllog": Tool("mllog_file", "MllogFile"),
    "kaun": Tool("kaun_stream", "KaunStream"),
    "metrics": Tool("metrics_stream", "MetricsStream"),
    "csv": Tool("csv_tables", "CsvTables"),
    "json": Tool("json_array", "JsonArray"),
    "parquet": Tool("parquet_tables", "ParquetTables", "parquet"),
    "otel": Tool("otel_metrics", "OtelMetrics", None, None, is_mirrored=True),
}


def destination_of(name: str) -> type[Destination]:
    """Return the destination of the tool *name*; one of another package if none of ours has the name."""
    if name not in TOOLS:
        brought = converters()[name].destination
        assert brought is not None, "no name that `exportable` returns"
        return brought
    tool = TOOLS[name]
    found = getattr(import_module(f"toyspec.convert.destinations.{tool.module}"), tool.destination)
    return cast("type[Destination]", found)


def exportable() -> list[str]:
    """Return the names of the formats that can be exported to, those of other packages last."""
    others = [name for name, each in converters().items() if each.destination is not None and name not in TOOLS]
    return [*(name for name, tool in TOOLS.items() if tool.export), *others]


def is_written_at_once(name: str) -> bool:
    """Return whether one process writes all runs of an export to the tool *name*."""
    return name in TOOLS and TOOLS[name].export == "all"
