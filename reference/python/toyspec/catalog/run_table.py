"""The table of the runs of a catalog: what each run comes to, as its columns have it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.catalog.layout import read_manifest, unreadable
from toyspec.catalog.tables import COLUMNS, connect, library, name, parquet, text
from toyspec.core.runs.columns import ALERT_FIELDS, ORDERS, OWN_FIELDS, RequiredFields, meets, ordered, unknown_field
from toyspec.core.runs.run_facts import MetricFacts, RunFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.catalog.layout import Manifest
    from toyspec.core.runs.expressions import Expression
    from toyspec.core.runs.run import Runs

Order = Literal["loss", "name", "state", "steps", "took", "started"]
"""What runs are sorted by: the lowest loss, the longest and the most steps are first."""

_BATCH = 5000
_NAMED = ("settings", "metrics")
"""The members with names of the run's own, which are decoded where they are asked for."""
_MADE = {
    "tags": "coalesce(tags, [])", "dialect": "dialect::JSON", "said": "coalesce(said, '{}')::JSON",
    "unended_ranks": "coalesce(unended_ranks, '[]')::JSON", "read": "'whole'",
    "findings": "{error: errors, warning: warnings, info: infos}",
}  # fmt: skip
_FACTS = ", ".join(
    f"{name(each)}: {_MADE.get(each, name(each))}" for each in RunFacts.__struct_fields__ if each not in _NAMED
)
_decode = msgspec.json.Decoder(RunFacts).decode
_decode_settings = msgspec.json.Decoder(dict[str, Any]).decode
_decode_metrics = msgspec.json.Decoder(dict[str, MetricFacts]).decode


class CataloguedRun(NamedTuple):
    """A run as its catalog has it."""

    facts: RunFacts
    identity: str
    """Changes with the stream and with the files of its run beside it; empty where it is not known."""


class RunTable:
    """The runs of a catalog. ``Catalog`` is the part of it for users."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the catalog at *path*; raise CatalogError for what is not a catalog of this version."""
        self.path = os.fspath(path)
        self.manifest: Manifest = read_manifest(self.path)

    def rows(self, *, has_named: bool = True) -> Iterator[CataloguedRun]:
        """Yield the runs in the order of their streams; unless *has_named*, their settings and metrics are not known.

        Raises CatalogError.
        """
        if not self.manifest.runs:
            return
        named = ", ".join(_NAMED) if has_named else "NULL, NULL"
        query = f"SELECT to_json({{{_FACTS}}})::VARCHAR, identity, {named} FROM runs ORDER BY stream"
        connection = self._connect()
        try:
            found = connection.execute(query)
            while rows := found.fetchmany(_BATCH):
                for facts, identity, settings, metrics in rows:
                    run = _decode(facts)
                    if has_named:
                        run = msgspec.structs.replace(
                            run,
                            settings=_decode_settings(settings or "{}"),
                            metrics=_decode_metrics(metrics or "{}"),
                        )
                    yield CataloguedRun(run, identity)
        except library().Error as error:
            raise unreadable(self.path, self.manifest, error) from None
        finally:
            connection.close()

    def chosen(
        self,
        filters: Sequence[Expression] = (),
        *,
        sort: str = "loss",
        reverse: bool = False,
        limit: int | None = None,
        shown: Sequence[str] | None = None,
    ) -> Runs:
        """Return the runs that meet all *filters*, or the first *limit* of them, in the order *sort*: see ``ordered``.

        Where *shown* names the fields that are looked at afterwards, no others are kept. Raises ExpressionError for a
        field that no run has.
        """
        # Imported when used: a build makes no run.
        from toyspec.core.runs.run import Run, Runs

        fields = [] if sort in ORDERS else [sort]
        asked = [*fields, *(each for filter_ in filters for each in filter_.fields)]
        alerts = [each for each in ALERT_FIELDS if each in asked]
        if alerts and self.manifest.health is None:
            raise unknown_field(alerts[0], ())
        is_kept = shown is None or not OWN_FIELDS.issuperset(shown)
        has_named = is_kept or not OWN_FIELDS.issuperset(asked)
        required = RequiredFields(fields, filters)
        met = []
        for facts, _ in self.rows(has_named=has_named):
            required.take(facts)
            if meets(facts, filters):
                met.append(facts if is_kept else msgspec.structs.replace(facts, settings=None, metrics=None))
        required.finish()
        found = ordered(met, sort, reverse=reverse)[:limit]
        return Runs([Run(facts) for facts in found], errors=self.manifest.errors, skipped=self.manifest.skipped)

    def _files(self, table: Literal["runs", "values", "names"]) -> list[str]:
        files: list[str] = getattr(self.manifest, table)
        return [os.path.join(self.path, file) for file in files]

    def _connect(self, runs: str = "*") -> Any:
        """Return a connection that has the tables and reaches nothing else; *runs* is the SQL of its columns."""
        connection = connect()
        tables = {"runs": self._files("runs"), "values": self._files("values"), "names": self._files("names")}
        try:
            for table, files in tables.items():
                if files:
                    columns = runs if table == "runs" else "*"
                    connection.execute(f"CREATE VIEW {name(table)} AS SELECT {columns} FROM {parquet('', files)}")
            if not self.manifest.runs:
                members = ", ".join(f"{name(column)} {kind}" for column, kind in COLUMNS.items())
                connection.execute(f"CREATE TABLE runs ({members})")
            connection.execute("SET TimeZone = 'UTC'")
            # A query may read the directory for what does not fit in memory, which is below the current one.
            connection.execute("SET temp_directory = ''")
            allowed = ", ".join(text(file) for files in tables.values() for file in files)
            connection.execute(f"SET allowed_paths = [{allowed}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
        except library().Error as error:
            connection.close()
            raise unreadable(self.path, self.manifest, error) from None
        return connection
