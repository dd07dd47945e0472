"""Repositories of Aim, read through its SDK."""

from __future__ import annotations

import math
import os
import tempfile
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

from toyspec.convert.databases import Points
from toyspec.convert.formats import ForeignRun
from toyspec.convert.reports import NO_PLACE, is_number
from toyspec.convert.sources import needed
from toyspec.core.directories import Directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake

_REPOSITORY = ".aim"
_CHUNKS = os.path.join("meta", "chunks")
_SEQUENCES = os.path.join("seqs", "chunks")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs of the repositories at *path* and below."""
    for repository in _repositories(path):
        for name in sorted(os.listdir(os.path.join(repository, _CHUNKS))):
            places = [os.path.join(repository, part, name) for part in (_CHUNKS, _SEQUENCES)]
            walks = [found for place in places for found in os.walk(place)]
            files = sorted(os.path.join(folder, file) for folder, _, names in walks for file in names)
            read = partial(_records, repository, name)
            yield ForeignRun.of(name, f"{repository}#{name}", files, read, name, parts=[repository])


def _repositories(path: str) -> Iterator[str]:
    for directory, folders, _ in os.walk(path):
        if os.path.basename(os.path.abspath(directory)) == _REPOSITORY:
            folders.clear()
            if os.path.isdir(os.path.join(directory, _CHUNKS)):
                yield directory
        folders.sort()


def _records(repository: str, name: str, intake: Intake) -> Iterator[bytes]:
    aim = needed("aim", "aim", "an Aim repository")
    with tempfile.TemporaryDirectory(prefix="toyspec-") as folder:
        _copy(repository, folder, name)
        copy = aim.Repo(folder)
        with redirect_stderr(StringIO()):
            copy._recreate_index()  # noqa: SLF001 - what its command `aim storage reindex` calls
        run = aim.Run(name, repo=copy, read_only=True)
        try:
            yield from _of_run(run, intake)
        finally:
            copy.close()


def _copy(repository: str, folder: str, run: str) -> None:
    """Copy the regular files of *repository*, and those of *run* alone, into *folder*."""
    with Directory(folder) as directory:
        for place, folders, names in os.walk(repository):
            if os.path.basename(place) == "chunks":
                folders[:] = [each for each in folders if each == run]
            below = [part for part in os.path.relpath(place, repository).split(os.sep) if part != "."]
            with directory.folder(_REPOSITORY, *below) as target:
                for name in names:
                    target.copy(os.path.join(place, name), name)


def _of_run(run: Any, intake: Intake) -> Iterator[bytes]:
    metrics = list(run.metrics())
    with Points() as points:
        for metric in metrics:
            points.add(_points(metric))
        name = None if run.name == f"Run: {run.hash}" else run.name
        facts = {"name": name, "group": run.experiment, "tags": list(run.tags), "notes": run.description}
        config = {str(key): value for key, value in (run.get(..., {}) or {}).items()}
        yield from intake.begin(run.creation_time, config=config, **facts)
        sequences = run.meta_run_tree.subtree("traces").collect(strict=False)
        others = sum(map(len, sequences.values())) - len(metrics)
        if others:
            intake.ledger.lose(NO_PLACE, "sequences", f"{others} that are not numbers", count=others, name="sequences")
        yield from points.lines(intake)


def _points(metric: Any) -> Iterator[tuple[float | None, int, float | None, str, float]]:
    steps, (values, epochs, walls) = metric.data.view(("val", "epoch", "time")).items_list()
    name = "".join([*_prefixes(metric.context.to_dict()), metric.name])
    for step, value, epoch, wall in zip(steps, values, epochs, walls, strict=True):
        yield _number(wall), int(step), _number(epoch), name, float(value)


def _prefixes(context: dict[str, Any]) -> Iterator[str]:
    for key, value in sorted(context.items()):
        yield f"{value}/" if key == "subset" else f"{key}={value}/"


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) and not math.isnan(value) else None
