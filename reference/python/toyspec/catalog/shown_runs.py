"""What a table shows of each run, from the columns of a catalog: no run is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.tables import connect, library, name, parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH = 5000


class ShownRun(NamedTuple):
    """The columns of a run that a table shows; those that are JSON are text."""

    stream: str
    run: str
    run_id: str | None
    name: str | None
    group: str | None
    tags: list[str]
    notes: str | None
    starred: bool
    hidden: bool
    profile: str | None
    dialect: str | None
    state: str
    sealed: bool
    ended: str
    reason: str | None
    error: str | None
    first_step: int | None
    last_step: int | None
    final_loss: float | None
    seconds: float | None
    started_at: str | None
    records: int | None
    bytes: int
    errors: int
    warnings: int
    infos: int
    config: str | None
    model: str | None
    metrics: str | None
    identity: str
    """Changes with the stream and with the files of its run beside it; empty where it is not known."""


def shown_runs(catalog: str) -> Iterator[ShownRun]:
    """Yield the runs of the directory *catalog* in the order of their streams; raise CatalogError."""
    manifest = read_manifest(catalog)
    if not manifest.runs:
        return
    columns = ", ".join(map(name, ShownRun._fields))
    query = f"SELECT {columns} FROM {parquet(catalog, manifest.runs)} ORDER BY stream"
    connection = connect()
    try:
        found = connection.execute(query)
        while rows := found.fetchmany(_BATCH):
            yield from map(ShownRun._make, rows)
    except library().Error as error:
        raise unreadable(catalog, manifest, error) from None
    finally:
        connection.close()
