"""Imports and exports with everything that they write and report, as files: ``whole_conversions/*.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/test_whole_conversions.py`` writes them again; read the difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conversions import SAMPLES, accounted, importable_samples, imported
from test_convert_round_trips import munin_root
from toyspec.convert import ConversionReport, export_runs, exportable
from toyspec.convert.format_modules import load

FOLDER = Path(__file__).parent / "whole_conversions"
RUNS = Path(__file__).parent / "transcripts" / "more"
EXPORTED = [name for name in exportable() if load(name).FORMAT.export_needs is None]


def _report(report: ConversionReport, *bases: Path) -> Iterator[str]:
    """Yield what *report* says, with paths from *bases* on; without versions, and what depends on times of files."""

    def short(text: str) -> str:
        for base in bases:
            text = text.replace(f"{base}{os.sep}", "")
        return text

    found: dict[str, Any] = msgspec.to_builtins(report)
    for run in found["runs"]:
        del run["identity"]
        yield short(json.dumps({key: run[key] for key in run if key not in ("losses", "notes")}))
        yield from (short(f"  note: {note}") for note in run["notes"])
        for loss in run["losses"]:
            yield f"  {loss['effect']} {loss['count']} ({loss['cause']}): {loss['meaning']}"
            yield from (f"    {json.dumps(example)}" for example in loss["examples"])
    yield from (short(f"  error: {json.dumps(error)}") for error in found["errors"])
    yield json.dumps(found["summary"])


def _made(report: ConversionReport, folder: Path) -> Iterator[str]:
    """Yield the files of the runs that an import made in *folder*; each run keeps its part of *report*."""
    for run in report.runs:
        assert msgspec.to_builtins(run) == json.loads(Path(run.target, "import.json").read_bytes())
    yield from _files(folder)


def _files(folder: Path) -> Iterator[str]:
    """Yield each file below *folder* by its path with its text, or with the digest of what is not text."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "import.json"):
        data = path.read_bytes()
        yield f"--- {path.relative_to(folder)}"
        if "tfevents" in path.name:
            yield "(what is in it is below)"
            continue
        try:
            yield data.decode().rstrip("\n")
        except UnicodeDecodeError:
            yield f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


def _compare(name: str, *parts: Iterator[str]) -> None:
    path = FOLDER / f"{name}.txt"
    actual = "".join(f"{line}\n" for part in parts for line in part)
    if os.environ.get("TOYSPEC_UPDATE"):
        path.write_text(actual, encoding="utf-8", newline="\n")
    assert path.read_text(encoding="utf-8") == actual


@pytest.mark.parametrize("sample", importable_samples(), ids=lambda path: path.name)
def test_whole_import_of_a_sample(sample: Path, tmp_path: Path) -> None:
    """Every file of every bundle and all that the report says, of what the real program wrote."""
    report = imported(sample, tmp_path, sample.name, max_examples=100)
    _compare(f"import-{sample.name}", _report(report, SAMPLES, tmp_path), _made(report, tmp_path))


def test_whole_import_of_a_munin_root(tmp_path: Path) -> None:
    """With media, a table, artifacts and what is missing."""
    munin_root(tmp_path / "root")
    report = imported(tmp_path / "root", tmp_path / "out", "munin", max_examples=100)
    _compare("import-munin-root", _report(report, tmp_path), _made(report, tmp_path / "out"))


@pytest.mark.parametrize("run", ["whole", "resumed", "broken"])
@pytest.mark.parametrize("name", EXPORTED)
def test_whole_way_there_and_back(name: str, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of an export, what its report says, and what an import makes of it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RUNS / run, tmp_path / run)
    there = accounted(export_runs(name, [run], "there", max_examples=100))
    back = imported("there", tmp_path / "back", None if name == "csv" else name, max_examples=100)
    exported, made = _files(tmp_path / "there"), _made(back, tmp_path / "back")
    _compare(f"{name}-{run}", _report(there, tmp_path), exported, _report(back, tmp_path), made)
