"""Every foreign format: its module, and what can be imported and exported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toyspec.convert.formats import Exporter, Importer
    from toyspec.reading.log_detection import DialectChoice

HOMES = {
    "tensorboard": "tensorboard",
    "wandb": "wandb_files",
    "mlflow": "mlflow_store",
    "trackio": "trackio_store",
    "dvclive": "dvclive_files",
    "aim": "aim_repos",
    "mllog": "mllog_lines",
    "kaun": "kaun_streams",
    "munin": "munin_runs",
    "metrics": "metrics_streams",
    "csv": "csv_files",
    "json": "json_arrays",
    "parquet": "parquet",
    "neptune": "neptune_files",
    "wandb-history": "wandb_history",
}
"""The module of each format, in the order in which a source is tried; dialects are tried after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""


def load(name: str) -> Any:
    """Return the module of the format *name*; raise ValueError if there is none."""
    if name not in HOMES:
        raise ValueError(f"unknown format {name!r}; known are {', '.join(HOMES)}")
    return import_module(f"toyspec.convert.{HOMES[name]}")


def importer(name: str, dialect: DialectChoice | None = None) -> Importer:
    """Return the module that imports the format *name*; *dialect* says how logs of other programs are read."""
    if name in HOMES and hasattr(load(name), "find_runs"):
        return cast("Importer", load(name))
    if name in [ANY_LOG, *dialect_names(), *(each.name for each in (dialect.own if dialect else ()))]:
        from toyspec.convert.dialect_logs import DialectImporter

        return DialectImporter(None if name == ANY_LOG else name, dialect=dialect)
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def exporter(name: str) -> Exporter:
    """Return the module that exports to the format *name*."""
    module = load(name)
    if not hasattr(module, "export"):
        raise ValueError(f"nothing is exported to {name}; known are {', '.join(exportable())}")
    return cast("Exporter", module)


def importable() -> list[str]:
    """Return the names of the formats that can be imported, dialects last."""
    own = [name for name in HOMES if hasattr(load(name), "find_runs")]
    return own + [name for name in dialect_names() if name not in own]


def dialect_names() -> list[str]:
    """Return the names of the dialects."""
    # Imported when used: start-up time counts.
    from toyspec.convert.dialect_logs import names

    return list(names())


def exportable() -> list[str]:
    """Return the names of the formats that can be exported to."""
    return [name for name in HOMES if hasattr(load(name), "export")]
