"""``toyspec catalog``: one table of all runs, built once and updated by what has changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, add_workers, chosen_workers, dialect_choice, settings
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.places.addresses import public
from toyspec.health.options import add_health, chosen_rules

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.catalog.building import CatalogReport
    from toyspec.core.watching import Watch

_DEFAULT = "catalog"
_MOST_SHOWN = 20

DESCRIPTION = """\
Keep one table of all runs below some roots, so that ten thousand runs and more
are listed at once. `toyspec query` and the API read it, and so do DuckDB and
Polars: it is Parquet.

  build ROOT…   read every run below each ROOT, a path or an address
  update DIR    read what is new, changed, or was live, and drop what is gone

A row has the facts of a run and, as JSON, its settings, what is known of each
metric, and the number of findings of each rule. In queries each of these is a
column: config.lr, last.loss, best.val/acc, findings.invalid-json.

With --health, alerts is the number of incidents that health rules find, and
findings.health-RULE that of each rule.

A run that takes more than a second to read keeps its row while it is written:
as_of is the number of bytes that the row is about, until the run ends.

A build or update that is stopped leaves the catalog as it was."""

EPILOG = """\
exit status:
  0  every run was read, now or before
  1  some runs could not be read; all others are in the catalog
  2  wrong usage, or the catalog was not changed: a root cannot be listed,
     another process writes the catalog, or it is of another version

examples:
  toyspec catalog build s3://bucket/runs --out catalog/
  toyspec catalog update catalog/
  toyspec query 'select run, "best.val/acc" from runs order by 2 desc limit 20'
  toyspec catalog build --health runs/ && toyspec query \\
    'select run, alerts from runs where alerts > 0'"""
USAGE = "toyspec catalog [OPTION…] build|update ROOT…|DIR"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.is_intermixed = True
    parser.add_argument("action", choices=("build", "update"), help="what to do")
    parser.value("places", "ROOT|DIR", "roots to build from, or a catalog", nargs="*", type=public)
    parser.value("--out", "DIR", f"with build: where the catalog is; default: {_DEFAULT}", type=local_path)
    add_health(parser, "with build: count the incidents of each")
    parser.flag("--json", "print an object")
    add_workers(parser, default=0)
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Build or update, print what became of it, and return an exit code."""
    with Progress("reading") as progress:
        report = _done(options, progress.on_bytes)
    for each in report.errors[:_MOST_SHOWN]:
        tell("catalog", f"{shown(each.path)}: {each.message}")
    if len(report.errors) > _MOST_SHOWN:
        tell("catalog", f"{len(report.errors) - _MOST_SHOWN} more; catalog.json has up to 1,000")
    sys.stdout.write(f"{inert_json(report._asdict()) if options.json else _words(report)}\n")
    return exit_codes.FINDINGS if report.errors else exit_codes.OK


def _done(options: Namespace, watch: Watch | None) -> CatalogReport:
    from toyspec.catalog.building import build_catalog, update_catalog

    configuration = settings()
    choice = dialect_choice(options, configuration)
    workers = chosen_workers(options)
    chosen_rules(options, configuration)
    if options.action == "build":
        roots = options.places or list(configuration.roots) or ["."]
        return build_catalog(
            *roots,
            out=options.out or _DEFAULT,
            health=options.health_preset or (configuration if options.health else None),
            workers=workers,
            dialect=choice,
            on_progress=watch,
        )
    if options.out is not None or options.health or options.health_preset:
        fact = "--out, --health and --health-preset are options of build"
        raise UsageError(f"{fact}; an update keeps what the catalog has, health rules included")
    if len(options.places) > 1:
        raise UsageError(f"update takes one catalog, not {len(options.places)}")
    return update_catalog((options.places or [_DEFAULT])[0], workers=workers, dialect=choice, on_progress=watch)


def _words(report: CatalogReport) -> str:
    counts = [f"{report.runs:,} {'run' if report.runs == 1 else 'runs'}", f"{report.read:,} read"]
    if report.kept:
        counts.append(f"{report.kept:,} unchanged")
    if report.gone:
        counts.append(f"{report.gone:,} gone")
    if report.skipped:
        counts.append(f"{report.skipped:,} of other formats skipped")
    return ", ".join(counts)
