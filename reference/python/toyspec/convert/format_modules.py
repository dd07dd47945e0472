"""Every foreign format: what it is called, its module, and what can be imported and exported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from toyspec.convert.formats import Format

if TYPE_CHECKING:
    from toyspec.convert.formats import Exporter, Importer
    from toyspec.reading.log_detection import DialectChoice

FORMATS = {
    known.name: known
    for known in (
        Format("tensorboard", "TensorBoard event files", "tensorboard", item="values"),
        Format("wandb", "W&B offline runs", "wandb_files", export_needs="wandb", export_unit="all"),
        Format("mlflow", "MLflow", "mlflow_store", export_needs="mlflow", export_unit="all"),
        Format("trackio", "Trackio", "trackio_store", export_needs="trackio", export_unit="all"),
        Format("dvclive", "DVCLive", "dvclive_files"),
        Format("aim", "Aim", "aim_repos", exports=False, import_needs="aim"),
        Format("mllog", "MLPerf logs (MLLOG)", "mllog_lines", imports=False),
        Format("kaun", "kaun/v1", "kaun_streams"),
        Format("munin", "munin", "munin_runs"),
        Format("metrics", "metrics/v1", "metrics_streams"),
        Format("csv", "CSV", "csv_files", imports=False),
        Format("json", "JSON array", "json_arrays", item="records"),
        Format("parquet", "Parquet", "parquet", import_needs="parquet", export_needs="parquet", export_unit="table"),
        Format("neptune", "Neptune exports", "neptune_files", exports=False, item="rows", import_needs="parquet"),
        Format("wandb-history", "W&B history as Parquet", "wandb_history", exports=False, import_needs="parquet"),
    )
}
"""The formats in the order in which a source is tried; dialects, ``csv`` and ``mllog`` among them, come after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""


def load(name: str) -> Any:
    """Return the module of the format *name*; raise ValueError if there is none."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return import_module(f"toyspec.convert.{FORMATS[name].module}")


def importer(name: str, dialect: DialectChoice | None = None) -> Importer:
    """Return what imports the format *name*; *dialect* says how logs of other programs are read."""
    if name in FORMATS and FORMATS[name].imports:
        return cast("Importer", load(name))
    if name in [ANY_LOG, *dialect_names(), *(each.name for each in (dialect.own if dialect else ()))]:
        from toyspec.convert.dialect_logs import DialectImporter

        return DialectImporter(None if name == ANY_LOG else name, dialect=dialect)
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def exporter(name: str) -> Exporter:
    """Return the module that exports to the format *name*."""
    module = load(name)
    if not FORMATS[name].exports:
        raise ValueError(f"nothing is exported to {name}; known are {', '.join(exportable())}")
    return cast("Exporter", module)


def importable() -> list[str]:
    """Return the names of the formats that can be imported, dialects last."""
    own = [name for name, known in FORMATS.items() if known.imports]
    return own + [name for name in dialect_names() if name not in own]


def dialect_names() -> list[str]:
    """Return the names of the dialects."""
    # Imported when used: start-up time counts.
    from toyspec.convert.dialect_logs import names

    return list(names())


def exportable() -> list[str]:
    """Return the names of the formats that can be exported to."""
    return [name for name, known in FORMATS.items() if known.exports]
