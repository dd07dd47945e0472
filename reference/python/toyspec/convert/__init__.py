"""Imports runs of other tools as toy/v1 bundles, and exports toy/v1 runs to their formats."""

from toyspec.convert.destinations.destination import Destination, exportable
from toyspec.convert.exporting import export_runs
from toyspec.convert.finding import importable
from toyspec.convert.formats import Converter, ForeignRun
from toyspec.convert.importing import import_runs
from toyspec.convert.reports import ConversionReport, Example, Loss, RunConversion

__all__ = [
    "ConversionReport",
    "Converter",
    "Destination",
    "Example",
    "ForeignRun",
    "Loss",
    "RunConversion",
    "export_runs",
    "exportable",
    "import_runs",
    "importable",
]
