"""What tests of conversions share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec

from toyspec.convert import ConversionReport, export_runs, import_runs
from toyspec.convert.finding import FORMATS
from toyspec.core.checker import check
from toyspec.core.files import read_resource

if TYPE_CHECKING:
    from toyspec.convert import RunConversion

SAMPLES = Path(__file__).parent / "samples"

START: dict[str, Any] = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "started_at": "2026-05-31T09:30:00Z"}

_SCHEMA = jsonschema.Draft202012Validator(json.loads(read_resource("schemas", "conversion", "v1", "conversion.json")))


def samples() -> list[Path]:
    """Return the directory of the sample of each format."""
    return sorted(path for path in SAMPLES.iterdir() if path.is_dir())


def importable_samples() -> list[Path]:
    """Return the directories of the samples that can be imported without another package."""
    return [path for path in samples() if path.name in FORMATS and FORMATS[path.name].needs is None]


def accounted(report: ConversionReport) -> ConversionReport:
    """Return *report*, which follows its schema, and in which every item is accounted for."""
    _SCHEMA.validate(msgspec.to_builtins(report))
    for run in report.runs:
        assert run.items == run.carried + run.changed + run.dropped
        for loss in run.losses:
            assert loss.examples or not loss.count
    assert report.summary.items == sum(run.items for run in report.runs)
    return report


def imported(source: Path | str, out: Path, name: str | None = None, **options: Any) -> ConversionReport:
    """Return the report of an import.

    A check of what it made finds nothing but what the report counts as dropped, that run_end is missing where a note
    says that the source does not have the end, and that a step is large.
    """
    report = accounted(import_runs([source], out, format=name, **options))
    for run in report.runs:
        found = {finding.rule for file in check(run.target).files for finding in file.findings}
        is_open = any("does not say how the run ended" in note for note in run.notes)
        assert (run.dropped > 0) == bool(found & {"values-left-out", "records-dropped"})
        assert found - {"values-left-out", "records-dropped", "unsafe-integer"} == (
            {"run-end-missing"} if is_open else set()
        )
    return report


def exported(name: str, run: Path | str, out: Path) -> RunConversion:
    """Return the report on the export of one run."""
    report = accounted(export_runs(name, [run], out))
    assert [] == report.errors
    (made,) = report.runs
    return made


def records(bundle: Path | str) -> list[dict[str, Any]]:
    """Return the records of a bundle."""
    return [json.loads(line) for line in (Path(bundle) / "events.jsonl").read_bytes().splitlines()]


def scalars(bundle: Path | str) -> list[tuple[str, int | None, float | None]]:
    """Return name, step and value of each scalar of a bundle, in order."""
    found = [record for record in records(bundle) if record["kind"] == "scalars"]
    return [(name, record.get("step"), value) for record in found for name, value in record["values"].items()]


def write_run(directory: Path, *events: dict[str, Any]) -> Path:
    """Write a toy/v1 run; run_start gets what every run has."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [{**START, "run_id": directory.name, **events[0]}, *events[1:]]
    (directory / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def losses(run: RunConversion) -> dict[str, int]:
    """Return the number of times of each cause."""
    return {loss.cause: loss.count for loss in run.losses}
