"""Every foreign format that is imported: what it is called, and its module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from toyspec.convert.formats import Format, converters

if TYPE_CHECKING:
    from toyspec.convert.formats import Importer
    from toyspec.core.reading.log_detection import DialectChoice

FORMATS = {
    known.name: known
    for known in (
        Format("tensorboard", "TensorBoard event files", "tensorboard", item="values"),
        Format("wandb", "W&B offline runs", "wandb_files"),
        Format("mlflow", "MLflow", "mlflow_store"),
        Format("trackio", "Trackio", "trackio_store"),
        Format("dvclive", "DVCLive", "dvclive_files"),
        Format("aim", "Aim", "aim_repos", needs="aim"),
        Format("kaun", "kaun/v1", "kaun_streams"),
        Format("munin", "munin", "munin_runs"),
        Format("metrics", "metrics/v1", "metrics_streams"),
        Format("json", "JSON array", "json_arrays", item="records"),
        Format("parquet", "Parquet", "parquet", needs="parquet"),
        Format("neptune", "Neptune exports", "neptune_files", item="rows", needs="parquet"),
        Format("wandb-history", "W&B history as Parquet", "wandb_history", needs="parquet"),
    )
}
"""The formats in the order in which a source is tried; dialects come after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""


def load(name: str) -> Any:
    """Return the module of the format *name*; raise ValueError if there is none."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return import_module(f"toyspec.convert.{FORMATS[name].module}")


def importer(name: str, dialect: DialectChoice | None = None) -> Importer:
    """Return what imports the format *name*; *dialect* says how logs of other programs are read."""
    if name in FORMATS:
        return cast("Importer", load(name))
    other = converters().get(name)
    if other is not None and other.importer is not None:
        return other.importer
    if name in [ANY_LOG, *dialect_names(), *(each.name for each in (dialect.own if dialect else ()))]:
        from toyspec.convert.dialect_logs import DialectImporter

        return DialectImporter(None if name == ANY_LOG else name, dialect=dialect)
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def importable() -> list[str]:
    """Return the names of the formats that can be imported; dialects come after ours and those of other packages."""
    return list(dict.fromkeys([*FORMATS, *of_packages(), *dialect_names()]))


def of_packages() -> list[str]:
    """Return the names of the formats that other packages import."""
    return [name for name, each in converters().items() if each.importer is not None and name not in FORMATS]


def described(name: str) -> tuple[str, str]:
    """Return the title of the format *name*, and what is counted as one item of it, in the plural."""
    if name in FORMATS:
        return FORMATS[name].title, FORMATS[name].item
    other = converters().get(name)
    return (name, "members") if other is None else (other.title, other.item)


def dialect_names() -> list[str]:
    """Return the names of the dialects."""
    # Imported when used: start-up time counts.
    from toyspec.convert.dialect_logs import names

    return list(names())
